"""Which CPUs a container gets: whole NUMA nodes and sockets, then whole cores, then the rest."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from conformance.checks import cpu_difference
from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed
from conformance.scenario import Level, Needs, promised
from conformance.scenarios.entering import row
from conformance.scenarios.outcomes import take
from conformance.scenarios.sources import TOPOLOGY_ORDER
from reference import CPUSet


def _size(masks: Mapping[int, int]) -> int:
    """How many CPUs each of them has, on a machine where all have equally many."""
    return next(iter(masks.values())).bit_count()


def _promise_whole(node: LockstepNode, rule: str, taken: CPUSet, masks: Mapping[int, int]) -> None:
    """``taken`` is made of whole NUMA nodes, sockets or cores, whichever the masks are of."""
    touched = [mask for mask in masks.values() if mask & taken.mask]
    node.promise_cpus(rule, "exclusive CPUs", CPUSet.of_mask(sum(touched)), taken)


def _take_whole(node: LockstepNode, what: str, masks: Mapping[int, int]) -> None:
    """A request for as many CPUs as one of them has takes one of them."""
    node.boot()
    _promise_whole(node, f"The CPUs are one whole {what}", take(node, "a", _size(masks)), masks)


_packing: Final = partial(promised, area="packing", source=TOPOLOGY_ORDER)
_core: Final = partial(_packing, level=Level.CORE)
_whole: Final = partial(row, enter=_core)


_whole(
    "packing/whole-core",
    "A request for as many CPUs as a physical core has threads takes one whole physical core",
    "No thread of the core is left for another container.",
    lambda node: _take_whole(node, "physical core", node.topology.core_masks),
    since="1.9", needs=Needs(free=2, smt=2, even=True),
)  # fmt: skip


@_packing(since="1.9", needs=Needs(free=6, smt=2, even=True))
def several_whole_cores(node: LockstepNode) -> None:
    """A request for a multiple of a core's threads takes whole physical cores.
    Also beside a container that has taken single CPUs."""
    node.boot_with(guaranteed("single", 1))
    cores = node.topology.core_masks
    _promise_whole(
        node, "The CPUs are whole physical cores", take(node, "a", 2 * _size(cores)), cores
    )


_whole(
    "packing/whole-numa-node",
    "A request for as many CPUs as a NUMA node has takes one whole NUMA node",
    "A free NUMA node is there, since only the first has reserved CPUs.",
    lambda node: _take_whole(node, "NUMA node", node.topology.numa_masks),
    since="1.23", needs=Needs(numa_nodes=2, even=True),
)  # fmt: skip
_whole(
    "packing/whole-socket",
    "A request for as many CPUs as a socket has takes one whole socket",
    "A free socket is there, since only the first has reserved CPUs.",
    lambda node: _take_whole(node, "socket", node.topology.socket_masks),
    since="1.9", needs=Needs(sockets=2, even=True),
)  # fmt: skip


@_packing(since="1.23", needs=Needs(numa_nodes=2, cores=4, even=True))
def spill_over(node: LockstepNode) -> None:
    """A request larger than a NUMA node takes one whole NUMA node and spills over with whole cores.
    The part that spills over is one physical core of another NUMA node."""
    node.boot()
    numa, cores = node.topology.numa_masks, node.topology.core_masks
    taken = take(node, "a", _size(numa) + _size(cores))
    node.promise(
        any(not mask & ~taken.mask for mask in numa.values()),
        "One NUMA node is taken whole",
        cpu_difference("CPUs of whole NUMA nodes", taken, CPUSet()),
    )
    _promise_whole(node, "All CPUs are of whole physical cores", taken, cores)


@_core(since="1.22", needs=Needs(free=2, smt=2, even=True))
def single_cpus_share_a_core(node: LockstepNode) -> None:
    """Requests for single CPUs fill a physical core before they begin another.
    So whole cores are left for those that ask for them."""
    node.boot()
    cores = node.topology.core_ids(take(node, "a", 1) | take(node, "b", 1))
    node.promise_equal("Both CPUs are of one physical core", "cores in use", 1, len(cores))
