"""Memory of several NUMA nodes under the static memory manager, and a machine whose memory has
moved: what the Kubernetes tracker has of them.

A NUMA node serves pods alone, or together with others as a *group*, and never both ways at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import DoesNotApply
from conformance.scenario import Capability
from conformance.scenarios import sources
from conformance.scenarios.abilities import MEMORY, REJECTIONS, RESTARTED
from conformance.scenarios.aligning import BEST_EFFORT, RESTRICTED
from conformance.scenarios.entering import row
from conformance.scenarios.hint_parts import (
    far_node,
    first_node,
    promise_phase,
    promise_refused,
    run,
)
from conformance.scenarios.memory import (
    MIB_OF_A_NODE,
    STATIC,
    boot_with_free,
    of_memory,
    with_memory_of,
)
from reference import CPUSet
from reference.steps import Pod
from reference.view import Phase
from topologies import with_memory

SINGLE_REFUSES: Final = sources.issue(
    128708, "a NUMA node that serves a pod alone refuses pods that need several"
)
GROUP_REFUSES: Final = sources.issue(
    128669, "restricted refuses a pod that fits one NUMA node of a group"
)
MIXED: Final = sources.issue(
    120733, "a hint of the CPU manager mixes memory of one NUMA node with memory of several"
)
GIVEN_BACK: Final = sources.issue(
    113130, "a restart is refused after memory of a group was given back"
)
MOVED: Final = sources.issue(131253, "a reboot moves memory between NUMA nodes")

_groups: Final = partial(
    of_memory, source=SINGLE_REFUSES, since="1.32", capabilities=(*MEMORY, *REJECTIONS)
)
_row: Final = partial(row, enter=_groups)

_VIOLATES: Final = "[memorymanager] preferred hint violates NUMA node allocation"
_DIFFERENT: Final = "the expected machine state is different from the real one"


# -- what a scenario says and reads ----------------------------------------------------------------


def _wide(name: str) -> Pod:
    """More memory than a NUMA node has, and no CPUs of its own."""
    return with_memory_of(name, 150, "500m")


def _two(node: LockstepNode, first: int = 100, far: int = 100) -> Mapping[int, int]:
    """Room in the first and in the far NUMA node."""
    return {first_node(node): first, far_node(node): far}


# -- alone, or as a group --------------------------------------------------------------------------


def _refuses_wide(node: LockstepNode, policy: str) -> None:
    boot_with_free(node, policy, _two(node))
    run(node, with_memory_of("small", 10))
    promise_refused(node, node.apply(_wide("a")), "UnexpectedAdmissionError", _VIOLATES)
    node.delete("small", passing=True)
    run(node, _wide("next"))


_WIDE: Final = """A small pod holds 10 MiB in the first NUMA node. The memory manager has no hint
then, so the Topology Manager does not object, and the reason is UnexpectedAdmissionError. Once the
small pod is gone, a pod runs that needs two NUMA nodes."""

_row(
    "memory/single-refuses-wide-under-best-effort",
    "Under best-effort a pod that needs two NUMA nodes is refused while one serves a pod alone",
    _WIDE,
    lambda node: _refuses_wide(node, BEST_EFFORT),
)
_row(
    "memory/single-refuses-wide-under-restricted",
    "Under restricted a pod that needs two NUMA nodes is refused while one serves a pod alone",
    _WIDE,
    lambda node: _refuses_wide(node, RESTRICTED),
)


@_groups(source=GROUP_REFUSES, since="1.26")
def group_refuses_small_under_restricted(node: LockstepNode) -> None:
    """Under restricted a pod that fits one NUMA node is refused while a group serves a pod.
    The only hint of the memory manager is the group, and one NUMA node would do on an empty
    machine, so the hint is not preferred. Once the pod of the group is gone, the small one runs."""
    boot_with_free(node, RESTRICTED, _two(node))
    run(node, _wide("wide"))
    promise_refused(node, node.apply(with_memory_of("a", 10, "500m")), "TopologyAffinityError")
    node.delete("wide", passing=True)
    run(node, with_memory_of("next", 10, "500m"))


@_groups(source=GROUP_REFUSES, since="1.26", capabilities=MEMORY)
def group_serves_small_under_best_effort(node: LockstepNode) -> None:
    """Under best-effort a pod that fits one NUMA node runs in the group that serves another pod.
    Both NUMA nodes of the group are asked for."""
    group = _two(node)
    boot_with_free(node, BEST_EFFORT, group)
    run(node, _wide("wide"))
    run(node, with_memory_of("a", 10))
    bound = node.asked("a").mems
    node.promise_cpus("It shares the group", "cpuset.mems of a/c", CPUSet(group), bound)


@_groups(source=STATIC, since="1.26", capabilities=(*MEMORY, *RESTARTED))
def wide_cpus_leave_no_group(node: LockstepNode) -> None:
    """Once a pod is gone whose CPUs needed two NUMA nodes, each of them serves pods alone again.
    Also the one in which it had no memory, since the other had all of it. The next pods have the
    memory of a NUMA node each, and keep it over a restart."""
    room = _two(node)
    boot_with_free(node, BEST_EFFORT, room)
    run(node, with_memory_of("wide", 10, _more_than_a_node(node)))
    node.delete("wide", passing=True)
    rule, pods = "Its memory is of one NUMA node", dict(zip(("a", "b"), room, strict=True))
    for pod, numa in pods.items():
        run(node, with_memory_of(pod, 80, "500m"))
        node.promise_cpus(rule, f"cpuset.mems of {pod}/c", CPUSet([numa]), node.asked(pod).mems)
    node.restart()
    node.promise_running("The kubelet starts again")
    for pod in pods:
        promise_phase(node, pod, node.view.pods[pod], Phase.RUNNING)


def _require_two_nodes(node: LockstepNode) -> None:
    """Apply only where no third NUMA node has room for CPUs that need two."""
    if len(node.topology.numa_masks) > 2:
        raise DoesNotApply("needs two NUMA nodes with CPUs: more of them have room for its CPUs")


def _more_than_a_node(node: LockstepNode) -> int:
    """So many CPUs that two NUMA nodes are needed, which are all that there are."""
    _require_two_nodes(node)
    largest = max(map(len, map(node.topology.cpus_in_numa_nodes, node.topology.numa_masks)))
    if largest >= len(node.free):
        raise DoesNotApply("needs free CPUs beyond those of a NUMA node")
    return largest + 1


def _mixes(node: LockstepNode) -> Pod:
    """A pod whose CPUs need both NUMA nodes, whose memory no free NUMA node has alone, and both
    have together; a small pod holds memory of the first one."""
    _require_two_nodes(node)
    boot_with_free(node, BEST_EFFORT, _two(node, 60, 60))
    run(node, with_memory_of("small", 10))
    free = node.topology.cpus_in_numa_nodes(first_node(node)) & node.view.shared_pool
    whole = node.topology.cpus_in_numa_nodes(far_node(node))
    wanted = max(len(free), len(whole)) + 1
    if wanted > len((free | whole) - (node.config.reserved_system_cpus or CPUSet())):
        raise DoesNotApply("needs a free CPU in the NUMA node that serves the small pod")
    return with_memory_of("a", 80, wanted)


@_groups(source=MIXED)
def mixed_hint_is_refused(node: LockstepNode) -> None:
    """A pod is refused whose CPUs make it take memory of a NUMA node that serves a pod alone.
    The CPUs need both NUMA nodes, so the Topology Manager hands the memory manager both."""
    pod = _mixes(node)
    pool = node.view.shared_pool
    promise_refused(node, node.apply(pod), "UnexpectedAdmissionError", _VIOLATES)
    node.pass_admission()
    node.promise_pool("No CPU stays taken", pool)


# -- what a start makes of it ----------------------------------------------------------------------


@_groups(source=GIVEN_BACK, capabilities=(*MEMORY, *RESTARTED))
def given_back_memory_of_a_group(node: LockstepNode) -> None:
    """The kubelet starts again after memory of a group was given back and handed out again.
    The next pod's memory may lie in another NUMA node of the group than before. Up to 1.26 the
    kubelet compared each NUMA node alone, and did not start."""
    boot_with_free(node, BEST_EFFORT, _two(node))
    run(node, _wide("wide"))
    run(node, with_memory_of("gap", 20))
    node.delete("gap", passing=True)
    run(node, with_memory_of("a", 10))
    held = node.taken("a")
    node.restart()
    node.promise_running("The kubelet starts again")
    promise_phase(node, "a", node.view.pods["a"], Phase.RUNNING)
    node.promise_cpus("It has its CPUs", "CPUs of a/c", held, node.taken("a"))


@_groups(
    source=MOVED,
    since="1.26",
    capabilities=(Capability.MEMORY, Capability.REBOOT, Capability.START_ERROR),
)
def moved_memory_stops_the_kubelet(node: LockstepNode) -> None:
    """A kubelet does not start once memory has moved between NUMA nodes, and says why.
    One MiB moves from the first NUMA node to the second over a reboot, as kernels place
    themselves elsewhere at each boot; the sum is the same. No pod has any of it."""
    whole = node.machine
    boot_with_free(node, BEST_EFFORT, {})
    node.stop()
    node.reboot(with_memory(whole, MIB_OF_A_NODE - 1, MIB_OF_A_NODE + 1, MIB_OF_A_NODE))
    node.start()
    node.promise_refusal(_DIFFERENT)
