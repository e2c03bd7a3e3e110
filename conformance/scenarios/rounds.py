"""What reconcile rounds leave as it is."""

from __future__ import annotations

from dataclasses import replace

from conformance.lockstep import LockstepNode
from conformance.needs import Needs
from conformance.pods import guaranteed
from conformance.scenario import Level, scenario
from conformance.scenarios.containers import RESTARTS
from conformance.subject import Capability
from reference.steps import RestartPolicy


@scenario(
    "containers/rounds-free-no-cpus-of-a-pod-that-runs",
    "Reconcile rounds free no CPUs of a container that has ended while its pod runs on",
    RESTARTS,
    level=Level.EXTENDED,
    needs=Needs(free=4),
    capabilities=[Capability.CPUSETS, Capability.CONTAINERS, Capability.EXIT_CODES],
)
def rounds_free_no_cpus_of_a_pod_that_runs(node: LockstepNode) -> None:
    """A kubelet that frees them at once may give them to another pod, and start the container on
    the shared pool. This is looked at after two rounds: they come later than the end."""
    node.boot()
    node.apply(replace(guaranteed("a", 2, 1), restart_policy=RestartPolicy.NEVER))
    held, pool = node.taken("a", "c1"), node.view.shared_pool
    node.kill_container("a", "c1", exit_code=0)
    node.await_reconcile()
    node.await_reconcile()
    node.promise_cpus("The entry stays", "exclusive CPUs a/c1", held, node.taken("a", "c1"))
    node.promise_cpus("The pool is the same", "shared pool", pool, node.view.shared_pool)
