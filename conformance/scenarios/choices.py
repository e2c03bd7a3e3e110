"""Which NUMA nodes and uncore caches options of the static policy choose where several have room.

All but some CPUs of a machine are reserved, so that each NUMA node or uncore cache has as many free
CPUs as the scenario is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from conformance.lockstep import LockstepNode
from conformance.scenario import Level, promised
from conformance.scenarios.entering import core, row
from conformance.scenarios.optional import aligning_with, promise_whole_cores, with_options
from conformance.scenarios.outcomes import promise_count, restart_with, take
from conformance.scenarios.sources import (
    ACROSS_NUMA,
    BY_SOCKET,
    TOPOLOGY_ORDER,
    TOPOLOGY_POLICIES,
    UNCORE_CACHE,
)
from reference import CPUSet
from topologies import machine

_ACROSS_NUMA: Final = "distribute-cpus-across-numa"
_FULL: Final = "full-pcpus-only"
_UNCORE: Final = "prefer-align-cpus-by-uncorecache"
#: Four NUMA nodes of eight cores with two CPUs each.
_FOUR_NODES: Final = "1s-4n-32c-smt2"
#: Eight NUMA nodes of 16 cores with two CPUs each, four in each of two sockets.
_EIGHT_NODES: Final = "2s-8n-128c-smt2-l3x2"
#: Four sockets of one NUMA node, which has twelve cores with two CPUs each.
_FOUR_SOCKETS: Final = "4s-4n-48c-smt2"
#: Eight uncore caches of four cores with two CPUs each.
_EIGHT_CACHES: Final = "2s-2n-32c-smt2-l3x4"
#: The same, of which those of the second socket have two cores each.
_UNEVEN_CACHES: Final = "2s-2n-32c-smt2-l3x4-off18-19,22-23,26-27,30-31,50-51,54-55,58-59,62-63"
_TWO_NODES: Final = "2s-2n-16c-smt2"
#: Two NUMA nodes of four CPUs and of three.
_UNEVEN_NODES: Final = "2s-2n-8c-smt1-off7"


def _some_of(node: LockstepNode, masks: Mapping[int, int], free: Sequence[int]) -> CPUSet:
    """So many CPUs of each of these NUMA nodes or uncore caches, core by core."""
    found: list[int] = []
    for mask, count in zip(masks.values(), free, strict=False):
        cores = [core for core in node.topology.core_masks.values() if core & mask]
        found += [cpu for core in cores for cpu in CPUSet.of_mask(core)][:count]
    return CPUSet(found)


def _shares(node: LockstepNode, masks: Mapping[int, int], cpus: CPUSet) -> list[int]:
    """How many of these CPUs each NUMA node or uncore cache gives."""
    return [len(cpus & CPUSet.of_mask(mask)) for mask in masks.values()]


class _Shares(NamedTuple):
    """Of NUMA nodes with so many ``free`` CPUs each has ``given`` as many for a ``request``."""

    free: Sequence[int]
    request: int
    given: Sequence[int]


def _distributes(
    scenario_id: str,
    title: str,
    promise: str,
    shares: _Shares,
    *options: str,
    **fields: Any,
) -> None:
    """Enter a scenario: the shares are given, in whole cores where full-pcpus-only is among the
    options. ``fields`` are further ones of the scenario."""

    def steps(node: LockstepNode) -> None:
        masks = node.topology.numa_masks
        reserved = node.cpus - _some_of(node, masks, shares.free)
        node.boot(with_options(node, _ACROSS_NUMA, *options, reserved=reserved))
        taken = take(node, "a", shares.request)
        node.promise_equal(
            f"Of NUMA nodes with {list(shares.free)} free CPUs each gives its share",
            "CPUs of a/c in each NUMA node", list(shares.given), _shares(node, masks, taken),
        )  # fmt: skip
        if _FULL in options:
            promise_whole_cores(node, taken)

    fields = {"machine": _FOUR_NODES, **fields}
    row(scenario_id, title, promise, steps, source=ACROSS_NUMA, since="1.23", **fields)


_distributes(
    "options/numa-distribution-evens-out-free-cpus",
    "Of NUMA nodes that can share a request, those are taken that leave the rest most even",
    "Any two of the four have room for half each. The last two have the most free CPUs.",
    _Shares(free=(6, 6, 8, 8), request=12, given=(0, 0, 6, 6)),
)
_distributes(
    "options/numa-distribution-stops-at-an-even-choice",
    "Distribute-cpus-across-numa takes the NUMA nodes that leave all with equally many free CPUs",
    """Two of each socket. Nothing can be more even, so the search ends there; other combinations
    would come after it.""",
    _Shares(free=(7, 7, 32, 32) * 2, request=100, given=(0, 0, 25, 25) * 2),
    machine=_EIGHT_NODES,
)
_distributes(
    "options/numa-distribution-skips-small-nodes",
    "A NUMA node that cannot give an even share has no part in a distributed request",
    "The first two have twelve free CPUs between them, but the second has fewer than half.",
    _Shares(free=(8, 4, 6, 6), request=12, given=(6, 0, 6, 0)),
)
_distributes(
    "options/numa-distribution-takes-every-numa-node",
    "A distributed request that all NUMA nodes together can hold has an even share of each",
    """No two of them have room for half each. The last one has no free CPU. The smallest gives all
    that it has.""",
    _Shares(free=(3, 4, 4, 0), request=9, given=(3, 3, 3, 0)),
    level=Level.CORE,
)
_distributes(
    "options/numa-distribution-remainder-evens-out",
    "The remainder of a distributed request is taken where that leaves free CPUs most even",
    """Three NUMA nodes give three each. The two that remain come from the one with the most free
    CPUs, and then every NUMA node has one free CPU.""",
    _Shares(free=(6, 4, 4, 1), request=11, given=(5, 3, 3, 0)),
)
_distributes(
    "options/numa-distribution-remainder-is-shared",
    "The remainder of a distributed request is shared by the NUMA nodes that have CPUs left",
    """Three NUMA nodes give four each, and the third has no more. The first two give one more
    each.""",
    _Shares(free=(6, 6, 4, 1), request=14, given=(5, 5, 4, 0)),
)
_distributes(
    "options/numa-distribution-remainder-needs-room",
    "A NUMA node with too few CPUs for the remainder of a request does not give it alone",
    "Three NUMA nodes give four each, and two CPUs remain. The first has one CPU left.",
    _Shares(free=(5, 6, 4, 1), request=14, given=(5, 5, 4, 0)),
)
_distributes(
    "options/numa-distribution-remaining-cores-even-out",
    "Under full-pcpus-only the remainder of a distributed request consists of whole cores",
    """Three NUMA nodes give three cores each. The two cores that remain come from the one with
    the most free cores.""",
    _Shares(free=(12, 8, 8, 2), request=22, given=(10, 6, 6, 0)),
    _FULL,
)
_distributes(
    "options/numa-distribution-shares-remaining-cores",
    "Under full-pcpus-only NUMA nodes that have cores left share the remainder of a request",
    """Three NUMA nodes give four cores each, and the third has no more. The first two give one
    core more each.""",
    _Shares(free=(12, 12, 8, 2), request=28, given=(10, 10, 8, 0)),
    _FULL,
)
_distributes(
    "options/numa-distribution-counts-whole-cores",
    "Under full-pcpus-only a free CPU whose sibling is reserved gives no NUMA node room",
    """The first two NUMA nodes have six free CPUs between them, but only two whole cores. The
    request is for three cores.""",
    _Shares(free=(3, 3, 4, 0), request=6, given=(2, 0, 4, 0)),
    _FULL,
)


@core(ACROSS_NUMA, area="options", since="1.23", machine=_TWO_NODES)
def numa_distribution_counts_the_larger_numa_node(node: LockstepNode) -> None:
    """Under distribute-cpus-across-numa a request that fits the larger NUMA node is not shared.
    The NUMA nodes have four CPUs and three. On average they have fewer than are requested."""
    config = with_options(node, _ACROSS_NUMA, reserved=CPUSet([6]))
    node.boot(config, machine=machine(_UNEVEN_NODES))
    shares = _shares(node, node.topology.numa_masks, take(node, "a", 4))
    rule, what = "The larger one gives all", "CPUs of a/c in each NUMA node"
    node.promise_equal(rule, what, [4, 0], shares)


# -- no option -----------------------------------------------------------------------------------


@promised(TOPOLOGY_ORDER, area="packing", since="1.23", machine=_FOUR_NODES)
def fullest_numa_node_of_a_socket(node: LockstepNode) -> None:
    """Of the NUMA nodes of one socket, cores of the one with the fewest free CPUs are taken first.
    So the others stay whole for larger requests. None of the four is free as a whole."""
    masks, free = node.topology.numa_masks, (8, 4, 6, 8)
    node.boot(with_options(node, reserved=node.cpus - _some_of(node, masks, free)))
    shares = _shares(node, masks, take(node, "a", 2))
    rule, what = "The second one gives both", "CPUs of a/c in each NUMA node"
    node.promise_equal(rule, what, [0, 2, 0, 0], shares)


# -- prefer-align-cpus-by-uncorecache ------------------------------------------------------------


def _align(
    node: LockstepNode, free: Sequence[int], requests: Mapping[str, tuple[int, Sequence[int]]]
) -> None:
    """Of uncore caches with so many free CPUs each gives a pod as many as expected."""
    masks = node.topology.uncore_masks
    reserved = node.cpus - _some_of(node, masks, free)
    node.boot(with_options(node, _UNCORE, reserved=reserved))
    for pod, (request, expected) in requests.items():
        shares = _shares(node, masks, take(node, pod, request))[: len(free)]
        node.promise_equal(
            f"Of uncore caches with {list(free)} CPUs each gives its share",
            f"CPUs of {pod}/c in each uncore cache", list(expected), shares,
        )  # fmt: skip


_uncore: Final = partial(row, source=UNCORE_CACHE, since="1.32", machine=_EIGHT_CACHES)
_uncore(
    "options/uncore-fills-the-fullest-cache",
    "Of uncore caches that have room for a request, the one with the fewest free CPUs is taken",
    "So larger requests find room, such as that of the second pod.",
    lambda node: _align(node, (8, 6, 4, 2), {"a": (4, (0, 0, 4, 0)), "b": (6, (0, 6, 0, 0))}),
)
_uncore(
    "options/uncore-takes-whole-caches-first",
    "A request larger than an uncore cache takes whole caches, and the rest from one more",
    "Eight CPUs of one cache and four of another. The first cache has too few.",
    lambda node: _align(node, (2, 8, 8, 4), {"a": (12, (0, 8, 0, 4)), "b": (6, (0, 0, 6, 0))}),
)
_uncore(
    "options/uncore-rest-breaks-no-further-cache",
    "What whole uncore caches leave of a request is taken from a cache that is in use already",
    "Eight CPUs are a whole cache, and two are of the one with the fewest free CPUs.",
    lambda node: _align(node, (4, 8, 8, 8), {"a": (10, (2, 8, 0, 0)), "b": (8, (0, 0, 8, 0))}),
    level=Level.CORE,
)


_uncore(
    "options/uncore-caches-are-a-preference",
    "A request runs that no uncore cache has room for",
    "Each of four caches is half free. A request for as many CPUs as a cache has lies in two.",
    lambda node: _align(node, (4, 4, 4, 4), {"a": (8, (4, 4, 0, 0))}),
    level=Level.CORE,
)


@core(UNCORE_CACHE, area="options", since="1.32", machine=_TWO_NODES)
def uncore_of_a_whole_socket_decides_nothing(node: LockstepNode) -> None:
    """Where a socket has one uncore cache, CPUs are those without the option.
    On an empty node a CPU, a whole core, and more than a socket has are where they were before the
    option was set."""

    def each(name: str) -> list[CPUSet]:
        held = []
        for size in (1, 2, len(node.free) // 2 + 1):
            held.append(take(node, f"{name}-{size}", size))
            node.delete(f"{name}-{size}", passing=True)
        return held

    node.boot()
    before = each("before")
    restart_with(node, with_options(node, _UNCORE))
    for expected, seen in zip(before, each("after"), strict=True):
        node.promise_cpus("The same CPUs", f"CPUs of after-{len(seen)}/c", expected, seen)


@core(UNCORE_CACHE, area="options", since="1.32", machine=_EIGHT_CACHES)
def uncore_counts_the_cpus_of_each_cache(node: LockstepNode) -> None:
    """Where uncore caches have different sizes, one with a reserved core is not taken as a whole.
    The first has as many CPUs left as the caches have on average. Two smaller caches are free."""
    node.boot(with_options(node, _UNCORE), machine=machine(_UNEVEN_CACHES))
    taken = take(node, "a", 8)
    touched = [mask for mask in node.topology.uncore_masks.values() if mask & taken.mask]
    rule = "The CPUs are whole uncore caches"
    node.promise_cpus(rule, "exclusive CPUs a/c", CPUSet.of_mask(sum(touched)), taken)
    node.promise_equal("They are two", "uncore caches of a/c", 2, len(touched))


# -- align-by-socket -----------------------------------------------------------------------------


@promised(BY_SOCKET, area="topology", since="1.25", machine=_FOUR_SOCKETS)
def align_by_socket_keeps_to_both_sockets(node: LockstepNode) -> None:
    """Under align-by-socket a request that needs two sockets lies in two that have room for it.
    Two of the four have it between them. The others have fewer free CPUs, which packing alone
    would take first."""
    masks, free = node.topology.numa_masks, (7, 14, 14, 12)
    reserved = node.cpus - _some_of(node, masks, free)
    node.boot(aligning_with(node, "restricted", "align-by-socket", reserved=reserved))
    shares = _shares(node, masks, take(node, "a", 28))
    rule, what = "The two give all that they have", "CPUs of a/c in each socket"
    node.promise_equal(rule, what, [0, 14, 14, 0], shares)


@promised(BY_SOCKET, area="topology", since="1.25", machine="2s-4n-64c-smt2")
def align_by_socket_stays_in_the_socket(node: LockstepNode) -> None:
    """Under align-by-socket a request that fits a socket lies in it, though another is fuller.
    No NUMA node has room. The two of the first socket have it between them; the second socket
    has fewer free CPUs, which packing alone would take first."""
    free = [0] * node.topology.num_numa_nodes
    for place, mask in enumerate(node.topology.numa_masks.values()):
        free[place] = 20 if node.topology.socket_ids(CPUSet.of_mask(mask)) == [0] else 4
    reserved = node.cpus - _some_of(node, node.topology.numa_masks, free)
    node.boot(aligning_with(node, "restricted", "align-by-socket", reserved=reserved))
    taken = take(node, "a", 24)
    promise_count(node, 24)
    seen = node.topology.socket_ids(taken)
    node.promise_equal("They lie in the first socket", "sockets of a/c", [0], seen)


@promised(TOPOLOGY_POLICIES, area="topology", since="1.26", machine=_FOUR_NODES)
def best_effort_takes_the_lower_mask(node: LockstepNode) -> None:
    """Under best-effort the NUMA nodes of the lower mask are taken where pairs of them serve alike.
    The four have one to four free CPUs. The first with the last has room for the request, and so
    have the two between them, whose mask is the lower one: six, not nine."""
    masks, free = node.topology.numa_masks, (1, 2, 3, 4)
    reserved = node.cpus - _some_of(node, masks, free)
    node.boot(aligning_with(node, "best-effort", reserved=reserved))
    shares = _shares(node, masks, take(node, "a", 5))
    rule, what = "The two between give all that they have", "CPUs of a/c in each NUMA node"
    node.promise_equal(rule, what, [0, 2, 3, 0], shares)


@core(BY_SOCKET, area="topology", since="1.25", machine="2s-4n-64c-smt2")
def align_by_socket_admits_four_nodes_for_three(node: LockstepNode) -> None:
    """Under align-by-socket restricted admits in four NUMA nodes what three could hold.
    A core of each of the four is reserved, and three would not do without it. Three are of two
    sockets as well as four are."""
    first = CPUSet(min(CPUSet.of_mask(mask)) for mask in node.topology.numa_masks.values())
    reserved = node.topology.with_siblings(first)
    node.boot(aligning_with(node, "restricted", "align-by-socket", reserved=reserved))
    count = 3 * len(node.cpus) // node.topology.num_numa_nodes - 2
    take(node, "a", count)
    promise_count(node, count)
