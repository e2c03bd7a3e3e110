"""Memory as a kubelet reports it at its pod-resources socket, beside CPUs, that of pods that have
ended (kubernetes/kubernetes#132020), and how often it is counted as asked for and refused.

The memory manager forgets a pod that has ended as it admits the next one; the CPU manager forgets
it in its next round.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Final

from conformance.answers import memory_text
from conformance.lockstep import LockstepNode
from conformance.pods import burstable
from conformance.scenario import Capability, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import ASKS, ENDS, LISTS, MEMORY, REJECTIONS, RESTARTED
from conformance.scenarios.aligning import SINGLE
from conformance.scenarios.hint_parts import TWO_NODES, far_node, first_node, run, run_in
from conformance.scenarios.memory import MIB_OF_A_NODE, boot_with_free, of_memory, with_memory_of
from conformance.scenarios.metrics import promise_counts
from conformance.scenarios.outcomes import promise_rejected
from conformance.scenarios.pod_resources import LIST
from reference.behaviours import Behaviour
from reference.cpumanager.metrics import ERRORS as CPU_ERRORS
from reference.memorymanager.metrics import ERRORS, REQUESTS
from reference.steps import AskAllocatable, Pod, RestartPolicy
from reference.view import HeldMemory

ENDED: Final = sources.issue(
    132020, "the pod-resources socket reports the memory of pods that have ended"
)
WHOLE: Final = sources.pull(101030, "the pod-resources socket reports memory")

_MEBIBYTE: Final = 1 << 20
_MIB: Final = 100
_EVERY_POD: Final = {"KubeletPodResourcesListUseActivePods": False}

_reported: Final = partial(
    of_memory, source=LIST, area="pod-resources", capabilities=(*MEMORY, *LISTS)
)


def held(numa: int, mebibytes: int = _MIB, kind: str = "memory") -> frozenset[HeldMemory]:
    """So many MiB of a NUMA node, as an answer has them."""
    return frozenset({HeldMemory((numa,), mebibytes * _MEBIBYTE, kind)})


def promise_memory(
    node: LockstepNode, rule: str, pod: str, expected: Collection[HeldMemory], name: str = "c"
) -> None:
    """Promise the memory of a container, or of a pod as a whole for no ``name``, in what was just
    listed."""
    seen = node.view.memory.get(pod, {}).get(name, frozenset())
    what = f"memory of {pod}/{name}" if name else f"memory of {pod} as a whole"
    node.promise_equal(rule, what, memory_text(expected), memory_text(seen))


def _short(name: str) -> Pod:
    """A pod with memory of its own that is not started again when it has ended."""
    return replace(with_memory_of(name, _MIB), restart_policy=RestartPolicy.NEVER)


@_reported(capabilities=(*MEMORY, *LISTS, *RESTARTED))
def list_has_memory_beside_cpus(node: LockstepNode) -> None:
    """The pod-resources socket reports a container's memory with its NUMA node beside its CPUs.
    Both are of the NUMA node that has room. A pod that is not Guaranteed has none, and a restart
    changes nothing of it."""
    far = far_node(node)
    boot_with_free(node, SINGLE, {far: MIB_OF_A_NODE - 1})
    run_in(node, far, with_memory_of("a", _MIB))
    run(node, burstable("b", request="100m"))
    for restarted in (False, True):
        if restarted:
            node.restart()
        node.ask()
        promise_memory(node, "It has what it requests", "a", held(far))
        promise_memory(node, "It has no memory of its own", "b", ())
        node.promise_pod_resources("The CPUs are reported", "a", node.taken("a"))


@_reported(source=WHOLE, capabilities=(*MEMORY, *ASKS))
def allocatable_memory_is_whole(node: LockstepNode) -> None:
    """GetAllocatableResources reports the memory of each NUMA node but what is reserved.
    Also what is taken: a pod has most of the first NUMA node's."""
    free = {first_node(node): MIB_OF_A_NODE - 1, far_node(node): MIB_OF_A_NODE - 2}
    boot_with_free(node, SINGLE, free)
    run(node, with_memory_of("a", _MIB))
    node.ask(AskAllocatable())
    expected = {one for numa in node.numa_nodes for one in held(numa, free.get(numa, 1))}
    seen = memory_text(node.view.allocatable_memory)
    node.promise_equal("It is what pods could have", "memory", memory_text(expected), seen)


@_reported(source=ENDED, since="1.34", capabilities=(*MEMORY, *ENDS, *LISTS))
def memory_of_the_ended_is_left_out(node: LockstepNode) -> None:
    """The pod-resources socket does not report the memory of a pod that has ended.
    Up to 1.33 it did. The pod that runs has its memory there, and the next pod gets what the ended
    one had."""
    first = first_node(node)
    boot_with_free(node, SINGLE, {first: MIB_OF_A_NODE - 1})
    run(node, _short("ended"))
    node.kill_container("ended", exit_code=0)
    node.ask()
    promise_memory(node, "It has ended", "ended", ())
    run_in(node, first, with_memory_of("a", _MIB))
    node.ask()
    promise_memory(node, "It has what it requests", "a", held(first))
    promise_memory(node, "It has ended", "ended", ())


@_reported(source=ENDED, until="1.37", capabilities=(*MEMORY, *ENDS, *LISTS, Capability.CONFIGURE))
def memory_of_the_ended_stays(node: LockstepNode) -> None:
    """Where the pod-resources socket lists pods that have ended, it lists their memory too.
    A known defect up to 1.33, and from 1.34 on with feature gate
    KubeletPodResourcesListUseActivePods off. No container of the pod runs, and the next pod may
    have the memory. It stays there until the next pod is admitted, whatever that requests."""
    gates = _EVERY_POD if node.release_has(Behaviour.ACTIVE_PODS_REPORTED) else {}
    boot_with_free(node, SINGLE, {first_node(node): MIB_OF_A_NODE - 1}, gates=gates)
    run(node, _short("ended"))
    node.kill_container("ended", exit_code=0)
    node.await_reconcile()
    node.ask()
    promise_memory(node, "Its memory is still listed", "ended", held(first_node(node)))
    run(node, burstable("next", request="100m"))
    node.ask()
    promise_memory(node, "The next pod makes the kubelet forget it", "ended", ())


@promised(
    sources.METRICS, area="metrics", since="1.32", needs=TWO_NODES,
    capabilities=(*MEMORY, *REJECTIONS, Capability.METRICS),
)  # fmt: skip
def memory_is_counted_by_itself(node: LockstepNode) -> None:
    """The kubelet counts requests for memory of NUMA nodes, and those that it refuses for it.
    One pod has memory, a Burstable one has none to itself, and a third one asks for more than the
    machine has. It is refused for its memory, so no request for CPUs counts as refused."""
    boot_with_free(node, "none", {far_node(node): MIB_OF_A_NODE - 1})
    counts = {REQUESTS: 0, ERRORS: 0, CPU_ERRORS: 0}
    promise_counts(node, "A kubelet starts with none", counts)
    node.apply(with_memory_of("a", 64))
    node.apply(burstable("b"))
    promise_counts(node, "One has asked for memory", {**counts, REQUESTS: 1})
    too_large = with_memory_of("c", MIB_OF_A_NODE * (len(node.numa_nodes) + 1))
    promise_rejected(node, node.apply(too_large), "UnexpectedAdmissionError", "c")
    refused = {REQUESTS: 2, ERRORS: 1, CPU_ERRORS: 0}
    promise_counts(node, "Its memory is refused, and no CPU", refused)
