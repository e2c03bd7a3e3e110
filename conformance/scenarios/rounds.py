"""What reconcile rounds send to containers that have just started, wait, or have come back."""

from __future__ import annotations

from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import Needs
from conformance.pods import best_effort, guaranteed
from conformance.scenario import Level, scenario
from conformance.scenarios.containers import REFUSED_UPDATE
from conformance.scenarios.sources import EVERY_ROUND
from conformance.subject import Capability
from reference.steps import FailUpdates

_CALLS: Final = (Capability.CPUSETS, Capability.CALLS)


@scenario(
    "containers/exclusive-start-needs-no-update",
    "A container that was started on its exclusive CPUs is not sent them again",
    EVERY_ROUND,
    level=Level.EXTENDED,
    since="1.22",
    needs=Needs(free=3),
    capabilities=_CALLS,
)
def exclusive_start_needs_no_update(node: LockstepNode) -> None:
    """The kubelet has noted them when it created the container."""
    node.boot()
    node.apply(guaranteed("a", 1, 1))
    node.await_reconcile()
    node.await_reconcile()
    for name in ("c1", "c2"):
        updates = node.asked("a", name).updates
        node.promise_equal("It was sent none", f"updates of a/{name}", 0, updates)


@scenario(
    "containers/pod-that-comes-back-follows-the-pool",
    "A shared container of a pod that is applied again follows the pool as at its first time",
    REFUSED_UPDATE,
    level=Level.EXTENDED,
    since="1.22",
    needs=Needs(free=3),
    capabilities=_CALLS,
)
def pod_that_comes_back_follows_the_pool(node: LockstepNode) -> None:
    """A static pod comes back with the uid of before. It starts on a smaller pool, and the runtime
    refuses the first updates; then the pool is what it was in the pod's first time. What was sent
    to its container then counts no more."""
    node.boot()
    node.apply(best_effort("shared"))
    node.await_reconcile()
    node.delete("shared")
    node.apply(guaranteed("a", 2))
    node.to_runtime(FailUpdates(2))
    node.apply(best_effort("shared"))
    node.delete("a")
    node.await_reconcile()
    node.await_reconcile()
    pool = node.view.shared_pool
    node.promise_cpus("It ends on the pool", "cpuset shared/c", pool, node.cpuset("shared"))
