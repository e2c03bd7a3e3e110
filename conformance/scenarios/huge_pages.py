"""Huge pages beside memory and CPUs: on which NUMA nodes a container lies that requests some, what
others are left, and what becomes of a kubelet whose machine has other huge pages than before.

Every NUMA node of the machine has 128 MiB here, huge pages of 2 MiB among them. The *far* NUMA node
is the last one that has CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from conformance.answers import memory_text
from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed_of
from conformance.scenario import Capability
from conformance.scenarios import sources
from conformance.scenarios.abilities import (
    ASKS,
    LISTS,
    MEMORY,
    REJECTIONS,
    RESTARTED,
    START_ERROR,
)
from conformance.scenarios.aligning import SINGLE
from conformance.scenarios.hint_parts import far_node, first_node, promise_refused, run, run_in
from conformance.scenarios.memory import (
    MANAGER,
    MIB_OF_A_NODE,
    boot_with_free,
    of_memory,
    with_mebibytes,
)
from conformance.scenarios.reported_memory import held, promise_memory
from reference.steps import AskAllocatable, Container, Kind, Pod
from topologies import Machine, with_huge_pages

_SCHEDULING: Final = sources.documentation(
    "Manage HugePages", "tasks/manage-hugepages/scheduling-hugepages/"
)
_POLICY_FILE: Final = "pkg/kubelet/cm/memorymanager/policy_static.go"
_NO_SUCH_SIZE: Final = sources.code(
    "1.36.4", _POLICY_FILE, "hints look up each requested size in every NUMA node"
)
_OTHER_NUMBER: Final = sources.code(
    "1.36.4", _POLICY_FILE, "a kubelet that starts compares huge pages with its file"
)
_SIZE: Final = "2Mi"
_NAME: Final = f"hugepages-{_SIZE}"

_of_pages: Final = partial(of_memory, source=MANAGER, area="huge-pages")


# -- what a scenario says --------------------------------------------------------------------------


def _pages_of(
    node: LockstepNode, mebibytes: Mapping[int, int], size: int = 2
) -> Callable[[Machine], Machine]:
    """A change of the machine: so many MiB of huge pages of ``size`` MiB in these NUMA nodes."""
    counts = [mebibytes.get(numa, 0) // size for numa in sorted(node.numa_nodes)]
    return lambda machine: with_huge_pages(machine, f"{size}Mi", *counts)


def _boot(
    node: LockstepNode,
    pages: Mapping[int, int],
    *,
    scope: str = "container",
    manager: str = "Static",
) -> None:
    """Start under single-numa-node, with so many MiB of huge pages in these NUMA nodes, and other
    memory in all of them."""
    free = dict.fromkeys(node.numa_nodes, MIB_OF_A_NODE - 1)
    changed = _pages_of(node, pages)
    boot_with_free(node, SINGLE, free, scope=scope, manager=manager, changed=changed)


def _paged(name: str, mebibytes: int, *, kind: Kind = Kind.APP) -> Container:
    """A container with a CPU, 8 MiB of memory and so many MiB of huge pages."""
    one = with_mebibytes(exclusive(name, 1, kind=kind), 8)
    return replace(one, huge_pages=((_SIZE, f"{mebibytes}Mi"),))


def _pod(name: str, mebibytes: int) -> Pod:
    return guaranteed_of(name, [_paged("c", mebibytes)])


def _promise_no_room(node: LockstepNode, mebibytes: int) -> None:
    """Promise that pod ``a`` is refused, which requests so many MiB of huge pages."""
    status = node.apply(_pod("a", mebibytes))
    promise_refused(node, status, "UnexpectedAdmissionError", "[memorymanager]")


# -- where a container lies ------------------------------------------------------------------------


@_of_pages()
def single_numa_node_follows_huge_pages(node: LockstepNode) -> None:
    """Under single-numa-node a container's CPUs lie in the NUMA node that has its huge pages.
    The last NUMA node has huge pages; CPUs and memory alone would lie in another."""
    far = far_node(node)
    _boot(node, {far: 32})
    run_in(node, far, _pod("a", 8))


@_of_pages()
def node_of_taken_huge_pages_is_passed_over(node: LockstepNode) -> None:
    """Under single-numa-node CPUs lie in a NUMA node that has huge pages left.
    The first pod leaves too few in the first NUMA node for the second. Once it is gone, they are
    there for a third."""
    first, far = first_node(node), far_node(node)
    _boot(node, {first: 32, far: 32})
    run_in(node, first, _pod("before", 24))
    run_in(node, far, _pod("a", 16))
    node.delete("before")
    run_in(node, first, _pod("later", 32))


@_of_pages()
def huge_pages_are_no_ordinary_memory(node: LockstepNode) -> None:
    """Memory that is huge pages serves no request for ordinary memory.
    Half of the first NUMA node is huge pages, so a pod with more than the other half lies in the
    last NUMA node."""
    far = far_node(node)
    pages = {numa: 64 for numa in node.numa_nodes if numa != far}
    _boot(node, pages)
    run_in(node, far, guaranteed_of("a", [with_mebibytes(exclusive("c", 1), 80)]))


@_of_pages()
def each_size_counts_alone(node: LockstepNode) -> None:
    """A container lies where there are huge pages of each size that it requests.
    Every NUMA node has pages of 2 MiB, and the last one a page of 32 MiB."""
    far = far_node(node)
    small = _pages_of(node, dict.fromkeys(node.numa_nodes, 32))
    large = _pages_of(node, {far: 32}, 32)
    free = dict.fromkeys(node.numa_nodes, MIB_OF_A_NODE - 1)
    boot_with_free(node, SINGLE, free, changed=lambda machine: large(small(machine)))
    both = replace(_paged("c", 8), huge_pages=((_SIZE, "8Mi"), ("32Mi", "32Mi")))
    run_in(node, far, guaranteed_of("a", [both]))


@_of_pages(capabilities=(*MEMORY, *REJECTIONS))
def pod_scope_counts_huge_pages_together(node: LockstepNode) -> None:
    """Under scope pod a pod is refused whose containers need more huge pages than a NUMA node has.
    Each of them alone would fit, and there are memory and CPUs for all of them."""
    _boot(node, dict.fromkeys(node.numa_nodes, 32), scope="pod")
    pod = guaranteed_of("a", [_paged("c1", 24), _paged("c2", 24)])
    promise_refused(node, node.apply(pod), "TopologyAffinityError")


@_of_pages(capabilities=(*MEMORY, *REJECTIONS))
def init_containers_lend_huge_pages(node: LockstepNode) -> None:
    """An app container uses the huge pages of its pod's init container again.
    The next pod is refused, for which too few are left."""
    far = far_node(node)
    _boot(node, {far: 32})
    run_in(node, far, guaranteed_of("lent", [_paged("i", 24, kind=Kind.INIT), _paged("c", 24)]))
    _promise_no_room(node, 16)


# -- what others are left --------------------------------------------------------------------------


@_of_pages(source=_SCHEDULING, capabilities=(*MEMORY, *REJECTIONS))
def node_without_enough_refuses(node: LockstepNode) -> None:
    """Without a memory manager a pod is refused that requests more huge pages than are left.
    A Burstable pod has most of them. No CPU stays taken."""
    _boot(node, {far_node(node): 32}, manager="None")
    shared = Container("c", "100m", memory_request="8Mi", memory_limit="16Mi")
    run(node, Pod("before", (replace(shared, huge_pages=((_SIZE, "24Mi"),)),)))
    pool = node.view.shared_pool
    text = f"(res: {_NAME}, q: {8 << 20})"
    promise_refused(node, node.apply(_pod("a", 16)), "UnexpectedAdmissionError", text)
    node.pass_admission()
    node.promise_pool("No CPU stays taken", pool)


@_of_pages(capabilities=(*MEMORY, *LISTS, *ASKS))
def reported_beside_memory(node: LockstepNode) -> None:
    """The pod-resources socket reports huge pages with their NUMA node beside memory.
    Of a container, and of all that pods could have."""
    far = far_node(node)
    _boot(node, {far: 32})
    run(node, _pod("a", 24))
    node.ask()
    pages = held(far, 24, _NAME)
    promise_memory(node, "It has what it requests", "a", held(far, 8) | pages)
    node.ask(AskAllocatable())
    seen = {one for one in node.view.allocatable_memory if one.type == _NAME}
    expected, texts = held(far, 32, _NAME), "huge pages"
    node.promise_equal(
        "It is what pods could have", texts, memory_text(expected), memory_text(seen)
    )


# -- a kubelet that starts -------------------------------------------------------------------------


@_of_pages(capabilities=(*MEMORY, *REJECTIONS))
def pages_of_two_sizes_are_set_apart(node: LockstepNode) -> None:
    """Where huge pages have two sizes, neither counts as ordinary memory.
    A NUMA node has 32 MiB of each. A pod requests more than what both leave, and less than what
    one of them leaves."""
    every = dict.fromkeys(node.numa_nodes, 32)
    small, large = _pages_of(node, every), _pages_of(node, every, 4)
    free = dict.fromkeys(node.numa_nodes, MIB_OF_A_NODE - 1)
    boot_with_free(node, SINGLE, free, changed=lambda machine: large(small(machine)))
    status = node.apply(guaranteed_of("a", [with_mebibytes(exclusive("c", 1), 80)]))
    promise_refused(node, status, "TopologyAffinityError")
    run(node, guaranteed_of("b", [with_mebibytes(exclusive("c", 1), 60)]))


@_of_pages(capabilities=(*MEMORY, *REJECTIONS, *RESTARTED))
def restart_keeps_huge_pages(node: LockstepNode) -> None:
    """Huge pages of a pod that runs stay taken when the kubelet restarts.
    The next pod is refused, for which too few are left."""
    _boot(node, {far_node(node): 32})
    run(node, _pod("before", 24))
    node.restart()
    _promise_no_room(node, 16)


@_of_pages(source=_OTHER_NUMBER, capabilities=(*MEMORY, *START_ERROR, Capability.REBOOT))
def other_huge_pages_stop_the_kubelet(node: LockstepNode) -> None:
    """A kubelet does not start on a machine that has other huge pages than its memory file says.
    The machine has half as many after a reboot."""
    far = far_node(node)
    _boot(node, {far: 32})
    node.stop()
    node.reboot(_pages_of(node, {far: 16})(node.machine))
    node.start()
    node.promise_refusal("the expected machine state is different from the real one")


@_of_pages(source=_NO_SUCH_SIZE, capabilities=(*MEMORY, *START_ERROR))
def missing_size_ends_the_kubelet(node: LockstepNode) -> None:
    """A pod with huge pages of a size that the machine has not makes the kubelet panic.
    A known defect: it looks the size up in each NUMA node before anything refuses the pod. It
    panics again at each start, until the pod is gone."""
    _boot(node, {far_node(node): 32})
    asked = replace(_paged("c", 8), huge_pages=(("1Gi", "1Gi"),))
    node.apply(guaranteed_of("a", [asked]))
    node.promise_refusal("panic: runtime error: invalid memory address or nil pointer dereference")
    node.delete("a")
    node.start()
    node.promise_running("The kubelet starts once the pod is gone")
