"""Labels and annotations of pods, which the CPU manager does not look at; some forks do.

The marks are well-known ones: StarlingX runs pods with its label on the reserved CPUs, and
OpenShift takes the CPU requests of pods with its annotation for something else. A fork that looks
at the label is judged by what it promises instead (``platform-pods-on-reserved``).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import DoesNotApply
from conformance.pods import best_effort, burstable, guaranteed
from conformance.scenario import Capability, Needs, Source
from conformance.scenarios.entering import row
from conformance.scenarios.optional import with_options
from conformance.scenarios.sources import TASK_PAGE
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.pods.labels import PLATFORM
from reference.steps import Pod

_MANAGEMENT: Final = (
    "target.workload.openshift.io/management",
    '{"effect": "PreferredDuringScheduling"}',
)
_ON_RESERVED: Final = Behaviour.PLATFORM_PODS_ON_RESERVED
_FORK: Final = Source("StarlingX: patches over Kubernetes", _ON_RESERVED.value.source)
_row: Final = partial(row, since="1.9", capabilities=[Capability.CPUSETS])
_of_fork: Final = partial(_row, source=_FORK, of_fork=_ON_RESERVED)


def marked(pod: Pod) -> Pod:
    """The pod, marked as one of the platform and of the management."""
    return replace(pod, labels=(PLATFORM,), annotations=(_MANAGEMENT,))


def _require_release(node: LockstepNode) -> None:
    if node.release_has(_ON_RESERVED):
        raise DoesNotApply(f"needs a kubelet without the behaviour {_ON_RESERVED.title}")


def _own_cpus(node: LockstepNode) -> None:
    _require_release(node)
    before = node.boot().shared_pool
    node.run(marked(guaranteed("a", 2)))
    taken = node.taken("a")
    rule = "The container gets as many exclusive CPUs as it requests"
    node.promise_equal(rule, "number of exclusive CPUs", 2, len(taken))
    node.promise_cpus("It runs on just these", "cpuset", taken, node.cpuset("a"))
    node.promise_pool("They have left the shared pool", before - taken)
    node.stop()
    node.start()
    node.promise_taken("It keeps them over a restart of the kubelet", "a", taken)


def _shares(node: LockstepNode, pod: Pod) -> None:
    _require_release(node)
    node.boot()
    node.run(marked(pod))
    node.promise_on_pool("The container runs in the shared pool", pod.name, "c")
    node.run(guaranteed("beside", 1))
    node.await_reconcile()
    node.promise_on_pool("It follows the shared pool", pod.name, "c")


def _on_reserved(node: LockstepNode, pod: Pod) -> None:
    before = node.boot().shared_pool
    node.run(marked(pod))
    node.promise_taken("No container of it has exclusive CPUs", pod.name, CPUSet())
    node.promise_pool("The shared pool keeps all its CPUs", before)
    rule = "Its container runs on the reserved CPUs"
    node.promise_cpuset(rule, pod.name, node.reserved)
    node.run(guaranteed("beside", 1))
    node.promise_equal("Others have exclusive CPUs", "number", 1, len(node.taken("beside")))
    node.await_reconcile()
    node.promise_cpuset(rule, pod.name, node.reserved)
    node.stop()
    node.start()
    node.await_reconcile()
    node.promise_cpuset(f"{rule} after a restart, too", pod.name, node.reserved)


def _strictly_reserved(node: LockstepNode) -> None:
    node.boot(with_options(node, "strict-cpu-reservation"))
    node.run(marked(guaranteed("a", 1)))
    node.run(best_effort("shared"))
    node.promise_cpuset("Its container runs on the reserved CPUs", "a", node.reserved)
    node.promise_on_pool("Others stay in the shared pool", "shared", "c")
    both = node.cpuset("shared") & node.reserved
    node.promise_cpus("They have no reserved CPU", "reserved CPUs", CPUSet(), both)


_row(
    "labels/whole-cpus-are-exclusive-whatever-the-labels",
    "A Guaranteed pod gets exclusive CPUs whatever its labels and annotations are",
    "QoS class and request decide who gets exclusive CPUs; nothing else of a pod does.",
    _own_cpus,
    source=TASK_PAGE, needs=Needs(free=3),
)  # fmt: skip
_row(
    "labels/burstable-shares-whatever-the-labels",
    "A Burstable pod runs in the shared pool whatever its labels and annotations are",
    "QoS class and request decide who leaves the shared pool; nothing else of a pod does.",
    lambda node: _shares(node, burstable("a", request="1", limit="2")),
    source=TASK_PAGE, needs=Needs(free=3),
)  # fmt: skip
_row(
    "labels/best-effort-shares-whatever-the-labels",
    "A BestEffort pod runs in the shared pool whatever its labels and annotations are",
    "QoS class and request decide who leaves the shared pool; nothing else of a pod does.",
    lambda node: _shares(node, best_effort("a")),
    source=TASK_PAGE, needs=Needs(free=2),
)  # fmt: skip

_of_fork(
    "labels/platform-pod-runs-on-reserved-cpus",
    "In a fork, a Guaranteed pod of the platform runs on the reserved CPUs",
    "It asks for whole CPUs, and none of them becomes exclusive.",
    lambda node: _on_reserved(node, guaranteed("a", 2)),
    needs=Needs(free=3),
)  # fmt: skip
_of_fork(
    "labels/platform-pod-leaves-the-shared-pool",
    "In a fork, a BestEffort pod of the platform runs on the reserved CPUs",
    "It asks for nothing, and has no CPU of the shared pool but the reserved ones.",
    lambda node: _on_reserved(node, best_effort("a")),
    needs=Needs(free=2),
)  # fmt: skip
_of_fork(
    "labels/platform-pod-has-strictly-reserved-cpus",
    "In a fork, strictly reserved CPUs are for the pods of the platform",
    "Under strict-cpu-reservation the others have none of the reserved CPUs.",
    _strictly_reserved,
    since="1.32", needs=Needs(free=3),
)  # fmt: skip
