"""Resizes in place: what becomes of a pod's CPUs when other resources are asked for while it runs.

They come through an API server. Under the static policy no release moves exclusive CPUs yet (KEP
5554); what a release does instead is stated here.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import burstable, guaranteed
from conformance.scenario import Needs, Source, promised
from conformance.scenarios.abilities import API_SERVER, REJECTIONS, RESIZES
from conformance.scenarios.in_cluster import in_cluster, with_memory
from conformance.scenarios.outcomes import promise_running
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.view import Phase, PodView

_resize: Final = partial(promised, area="resize")

_ISSUE: Final = "https://github.com/kubernetes/kubernetes/issues/"
REFUSED: Final = Source(
    "kubernetes/kubernetes#127262: resizing a Guaranteed pod under the static policy is infeasible",
    f"{_ISSUE}127262",
)
NOT_MOVED: Final = Source(
    "kubernetes/kubernetes#140031: a resize leaves exclusive CPUs as they were", f"{_ISSUE}140031"
)
IN_PLACE: Final = Source(
    "KEP-1287: In-Place Update of Pod Resources",
    "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/"
    "1287-in-place-update-pod-resources",
)
LET_THROUGH: Final = {"InPlacePodVerticalScalingExclusiveCPUs": True}
AS_REQUESTED: Final = (
    "Only whole CPUs of a Guaranteed pod's containers are exclusive, as many as requested"
)
INFEASIBLE: Final = "Infeasible"
DEFERRED: Final = "Deferred"


def promise_pending(node: LockstepNode, pod: PodView, reason: str) -> None:
    """That a resize waits, and for which reason."""
    rule, seen = f"The resize is reported as {reason.lower()}", pod.resize.partition(":")[0]
    node.promise_equal(rule, "why the resize is pending", reason, seen)


def promise_granted(node: LockstepNode, pod: PodView) -> None:
    """That no resize waits."""
    node.promise_equal("The resize is granted", "why the resize is pending", "", pod.resize)


def promise_unmoved(node: LockstepNode, pod: str, cpus: CPUSet, pool: CPUSet) -> None:
    """That state file, shared pool and cpuset are as they were."""
    node.promise_taken("The pod keeps its exclusive CPUs", pod, cpus)
    node.promise_cpuset("Its cpuset stays", pod, cpus)
    node.promise_pool("The shared pool stays", pool)


@_resize(REFUSED, since="1.32", needs=Needs(free=3), capabilities=API_SERVER)
def exclusive_cpus_infeasible(node: LockstepNode) -> None:
    """The kubelet refuses to resize a Guaranteed pod to more exclusive CPUs.
    Asked for one CPU more, the kubelet reports the resize as infeasible. The pod keeps its CPUs,
    its entry in the state file and its cpuset, and so does the shared pool."""
    node.boot_with(guaranteed("a", 2), config=in_cluster(node))
    cpus, pool, text = node.taken("a"), node.view.shared_pool, node.view.state_file
    promise_pending(node, node.resize(guaranteed("a", 3)), INFEASIBLE)
    promise_unmoved(node, "a", cpus, pool)
    node.promise_equal("The state file stays", "state file", text, node.view.state_file)


@_resize(REFUSED, since="1.32", needs=Needs(free=3), capabilities=API_SERVER)
def fewer_cpus_infeasible(node: LockstepNode) -> None:
    """The kubelet refuses to resize a Guaranteed pod to fewer exclusive CPUs.
    Asked for one CPU fewer, the kubelet reports the resize as infeasible: no CPU is released,
    and the next pod gets others. Deleted, the pod gives back all that it had."""
    pool = node.boot(in_cluster(node)).shared_pool
    node.apply(guaranteed("a", 2))
    cpus = node.taken("a")
    promise_pending(node, node.resize(guaranteed("a", 1)), INFEASIBLE)
    promise_unmoved(node, "a", cpus, pool - cpus)
    node.apply(guaranteed("b", 1))
    both = cpus & node.taken("b")
    node.promise_cpus("The next pod gets other CPUs", "CPUs of both pods", CPUSet(), both)
    node.delete("b")
    node.delete("a")
    node.promise_pool("All CPUs come back", pool)


@_resize(REFUSED, since="1.34", needs=Needs(free=3), capabilities=RESIZES)
def infeasible_over_a_restart(node: LockstepNode) -> None:
    """A pod whose resize is infeasible keeps its CPUs over a restart.
    The API server keeps the size that was refused. A kubelet that starts again admits the pod
    with the size that it had allocated (its checkpoint), so the pod keeps its CPUs. The Topology
    Manager, here restricted, would refuse CPUs of another number than is asked for."""
    node.boot_with(guaranteed("a", 2), config=in_cluster(node, topology_manager="restricted"))
    cpus, pool = node.taken("a"), node.view.shared_pool
    node.resize(guaranteed("a", 3))
    node.restart()
    node.promise_equal("The pod runs", "phase of a", Phase.RUNNING, node.view.pods["a"].phase)
    promise_unmoved(node, "a", cpus, pool)


@_resize(REFUSED, since="1.34", needs=Needs(free=3), capabilities=RESIZES)
def while_the_kubelet_is_down(node: LockstepNode) -> None:
    """A pod that is resized while the kubelet is down keeps its CPUs.
    The kubelet that starts finds another size at the API server than in its checkpoint. It
    admits the pod with the size of the checkpoint: same CPUs, same cpuset, same pool. The Topology
    Manager, here restricted, would refuse CPUs of another number than is asked for."""
    node.boot_with(guaranteed("a", 2), config=in_cluster(node, topology_manager="restricted"))
    cpus, pool = node.taken("a"), node.view.shared_pool
    node.stop()
    node.resize(guaranteed("a", 3))
    node.start()
    node.promise_equal("The pod runs", "phase of a", Phase.RUNNING, node.view.pods["a"].phase)
    promise_unmoved(node, "a", cpus, pool)


@_resize(IN_PLACE, since="1.34", needs=Needs(free=2), capabilities=RESIZES)
def memory_of_exclusive_cpus(node: LockstepNode) -> None:
    """A Guaranteed pod's memory is resized, and its exclusive CPUs stay.
    From 1.34 on the static policy stands against a resize only where a cpu request changes. More
    memory is granted; CPUs, cpuset and shared pool stay, over a restart too."""
    node.boot_with(with_memory(guaranteed("a", 2), "64Mi"), config=in_cluster(node))
    cpus, pool = node.taken("a"), node.view.shared_pool
    promise_granted(node, node.resize(with_memory(guaranteed("a", 2), "128Mi")))
    promise_unmoved(node, "a", cpus, pool)
    node.restart()
    promise_unmoved(node, "a", cpus, pool)


@_resize(REFUSED, since="1.32", until="1.33", needs=Needs(free=2), capabilities=API_SERVER)
def memory_infeasible_too(node: LockstepNode) -> None:
    """Up to 1.33 the kubelet refuses to resize the memory of a Guaranteed pod as well.
    The static policy stands against any resize of a Guaranteed pod, also where its cpu request
    stays. CPUs, cpuset and shared pool stay."""
    node.boot_with(with_memory(guaranteed("a", 2), "64Mi"), config=in_cluster(node))
    cpus, pool = node.taken("a"), node.view.shared_pool
    promise_pending(node, node.resize(with_memory(guaranteed("a", 2), "128Mi")), INFEASIBLE)
    promise_unmoved(node, "a", cpus, pool)


@_resize(IN_PLACE, since="1.32", needs=Needs(free=3), capabilities=API_SERVER)
def shared_containers_stay_shared(node: LockstepNode) -> None:
    """A Burstable pod that is resized stays in the shared pool.
    Its request changes from a fraction to a whole number of CPUs, and is granted. It gets no
    exclusive CPU, its cpuset stays the shared pool, and the CPUs of others stay theirs."""
    node.boot(in_cluster(node))
    node.apply(guaranteed("a", 1))
    node.apply(burstable("b", request="500m", limit="2"))
    cpus, pool = node.taken("a"), node.view.shared_pool
    promise_granted(node, node.resize(burstable("b", request="1", limit="2")))
    node.promise_taken("It gets no exclusive CPU", "b", CPUSet())
    node.promise_cpuset("Its cpuset is the shared pool", "b", pool)
    promise_unmoved(node, "a", cpus, pool)


@_resize(IN_PLACE, since="1.34", needs=Needs(free=3, counted_once=True), capabilities=API_SERVER)
def beyond_the_node_waits(node: LockstepNode) -> None:
    """A resize for which the node has no CPUs left is deferred, and granted when they are free.
    A Burstable pod asks for every CPU that the node gives to pods while another holds exclusive
    CPUs: deferred, and no CPU moves. Once the other pod is gone it is granted, and its cpuset is
    the shared pool with the CPUs that came back."""
    node.boot(in_cluster(node))
    every = len(node.free)
    node.apply(guaranteed("a", 2))
    node.apply(burstable("b", request="500m", limit=str(every)))
    cpus, pool = node.taken("a"), node.view.shared_pool
    more = burstable("b", request=f"{every * 1000 - 500}m", limit=str(every))
    promise_pending(node, node.resize(more), DEFERRED)
    promise_unmoved(node, "a", cpus, pool)
    node.promise_cpuset("Its cpuset is the shared pool", "b", pool)
    node.delete("a")
    promise_granted(node, node.view.pods["b"])
    node.promise_cpuset("Its cpuset is the shared pool", "b", pool | cpus)


@_resize(IN_PLACE, since="1.34", needs=Needs(free=4, counted_once=True), capabilities=API_SERVER)
def waiting_size_takes_no_room(node: LockstepNode) -> None:
    """A resize that waits takes no CPU from other pods.
    A Burstable pod asks for all that is left and one CPU of another pod: deferred. A pod that
    needs what is left is admitted, and runs on after a restart of the kubelet."""
    node.boot(in_cluster(node))
    every = len(node.free)
    node.apply(guaranteed("a", 2))
    node.apply(burstable("b", request="1", limit=str(every)))
    more = burstable("b", request=str(every - 1), limit=str(every))
    promise_pending(node, node.resize(more), DEFERRED)
    left = f"{every - 3}"
    node.apply(burstable("c", request=left, limit=left))
    promise_running(node, "c")
    node.restart()
    for pod in ("a", "b", "c"):
        promise_running(node, pod)


@_resize(NOT_MOVED, since="1.27", until="1.37", needs=Needs(free=3), capabilities=RESIZES)
def granted_without_cpus(node: LockstepNode) -> None:
    """Where the kubelet grants a Guaranteed pod another size, its exclusive CPUs do not follow.
    A known defect up to 1.31, and from 1.32 on with feature gate
    InPlacePodVerticalScalingExclusiveCPUs: the kubelet grants 3 CPUs to a pod that has 2 exclusive
    CPUs. The pod keeps its 2 CPUs, also after a restart of the kubelet, and the shared pool stays
    as it was."""
    gates = LET_THROUGH if node.release_has(Behaviour.RESIZE_REFUSED) else {}
    node.boot_with(guaranteed("a", 2), config=in_cluster(node, gates=gates))
    cpus, pool = node.taken("a"), node.view.shared_pool
    node.expect_broken(AS_REQUESTED)
    promise_granted(node, node.resize(guaranteed("a", 3)))
    promise_unmoved(node, "a", cpus, pool)
    node.restart()
    promise_unmoved(node, "a", cpus, pool)
    node.delete("a", passing=True)
    node.promise_pool("All CPUs come back", pool | cpus)


@_resize(NOT_MOVED, since="1.35", until="1.36", needs=Needs(free=3), capabilities=API_SERVER)
def restricted_defers_another_number(node: LockstepNode) -> None:
    """Up to 1.36 a resize that is let through is deferred by the Topology Manager, if restricted.
    With feature gate InPlacePodVerticalScalingExclusiveCPUs the resize is admitted like a pod.
    CPUs of another number than is asked for are no hint, so the policy restricted refuses, and the
    resize waits. No CPU moves."""
    node.boot(in_cluster(node, topology_manager="restricted", gates=LET_THROUGH))
    node.apply(guaranteed("a", 2))
    cpus, pool = node.taken("a"), node.view.shared_pool
    promise_pending(node, node.resize(guaranteed("a", 3)), DEFERRED)
    promise_unmoved(node, "a", cpus, pool)


@_resize(
    NOT_MOVED, since="1.37", until="1.37", needs=Needs(free=3), capabilities=(*RESIZES, *REJECTIONS)
)
def granted_then_rejected_at_a_start(node: LockstepNode) -> None:
    """In 1.37 a pod that was granted another number of CPUs is rejected when the kubelet restarts.
    A known defect: with feature gate InPlacePodVerticalScalingExclusiveCPUs the static policy
    ignores the resize, so the kubelet grants it and the CPUs stay as they were. After a restart the
    pod requests another number of CPUs than its state file has. Under Topology Manager policy
    restricted the kubelet then rejects the running pod, and frees its CPUs."""
    node.boot(in_cluster(node, topology_manager="restricted", gates=LET_THROUGH))
    every = node.view.shared_pool
    node.apply(guaranteed("a", 2))
    cpus = node.taken("a")
    node.expect_broken(AS_REQUESTED)
    promise_granted(node, node.resize(guaranteed("a", 3)))
    promise_unmoved(node, "a", cpus, every - cpus)
    node.restart()
    phase = node.view.pods["a"].phase
    node.promise_equal("The kubelet rejects the pod", "phase of a", Phase.REJECTED, phase)
    node.promise_pool("Its CPUs come back", every)
