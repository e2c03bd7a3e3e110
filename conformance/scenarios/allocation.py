"""Which CPUs options of the static policy choose: remainders, odd requests, and known defects.

A defect is stated as what a release does. A fork that carries the fix is judged by the promise
(``--behaviour combinations-kept=on``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import DoesNotApply
from conformance.pods import guaranteed
from conformance.scenario import Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.entering import core, row
from conformance.scenarios.optional import promise_whole_cores, with_options
from conformance.scenarios.outcomes import promise_count, take
from reference import CPUSet
from reference.behaviours import Behaviour

_options: Final = partial(promised, area="options")

_ACROSS_NUMA: Final = "distribute-cpus-across-numa"
_BY_SOCKET: Final = "align-by-socket"
_BY_UNCORE: Final = "prefer-align-cpus-by-uncorecache"

#: Room for a request that two NUMA nodes share unevenly, though a core of one is reserved.
_UNEVEN_HALVES: Final = Needs(numa_nodes=2, numa_cores=4, even=True)
_TWO_NODES_A_SOCKET: Final = "2s-4n-64c-smt2"
_EIGHT_NODES: Final = "8s-8n-32c-smt4-near"
_SMALL_CACHES: Final = "2s-2n-32c-smt2-l3x4"


def _promise_shares(node: LockstepNode, expected: list[int], cpus: CPUSet) -> None:
    """Promise how many of these CPUs each NUMA node gives that gives any, fewest first."""
    seen = sorted(Counter(node.topology.details[cpu].numa for cpu in cpus).values())
    rule, what = "Two NUMA nodes give as evenly as the request allows", f"of {cpus}"
    node.promise_equal(rule, f"CPUs of each NUMA node, {what}", expected, seen)


def _promise_caches(node: LockstepNode, expected: int) -> None:
    seen = len(node.topology.uncore_cache_ids(node.taken("a")))
    node.promise_equal(
        f"Uncore caches of {node.taken('a')}", "number of uncore caches of a/c", expected, seen
    )


# -- distribute-cpus-across-numa -----------------------------------------------------------------


def _cores_of_half(node: LockstepNode) -> int:
    """How many cores of a NUMA node are more than half of it."""
    return node.topology.num_cores // node.topology.num_numa_nodes // 2 + 1


@core(
    sources.ACROSS_NUMA, area="options", since="1.23", needs=replace(_UNEVEN_HALVES, numa_cores=5)
)
def numa_distribution_of_a_remainder(node: LockstepNode) -> None:
    """What cannot be spread evenly over two NUMA nodes, one of them gives alone.
    One CPU more than an even number."""
    node.boot(with_options(node, _ACROSS_NUMA))
    half = node.topology.cpus_per_core * _cores_of_half(node)
    _promise_shares(node, [half, half + 1], take(node, "a", 2 * half + 1))


@_options(sources.ACROSS_NUMA, since="1.23", needs=replace(_UNEVEN_HALVES, smt=2, numa_cores=5))
def numa_distribution_of_a_remaining_core(node: LockstepNode) -> None:
    """Under full-pcpus-only what cannot be spread evenly over two NUMA nodes is a whole core.
    One core more than an even number of them."""
    node.boot(with_options(node, _ACROSS_NUMA, "full-pcpus-only"))
    per_core, cores = node.topology.cpus_per_core, _cores_of_half(node)
    taken = take(node, "a", per_core * (2 * cores + 1))
    _promise_shares(node, [per_core * cores, per_core * (cores + 1)], taken)
    promise_whole_cores(node, taken)


def _spreads_over(node: LockstepNode, *sockets: int) -> None:
    """Under both options a request that no NUMA node holds gets CPUs of these sockets."""
    node.boot(with_options(node, _ACROSS_NUMA, _BY_SOCKET))
    node.apply(guaranteed("a", len(node.cpus) // node.topology.num_numa_nodes + 1))
    seen = node.topology.socket_ids(node.taken("a"))
    node.promise_equal(f"Sockets of {node.taken('a')}", "sockets of a/c", list(sockets), seen)


row(
    "options/numa-distribution-ignores-sockets",
    "Up to 1.36 distribute-cpus-across-numa spreads over sockets in spite of align-by-socket",
    """A known defect: the kubelet takes CPUs of both sockets, although the second socket has room
    for the whole request.""",
    lambda node: _spreads_over(node, 0, 1),
    source=sources.DISTRIBUTED_BY_SOCKET, since="1.25", until="1.36", machine=_TWO_NODES_A_SOCKET,
)  # fmt: skip
row(
    "options/numa-distribution-keeps-to-a-socket",
    "With align-by-socket distribute-cpus-across-numa prefers NUMA nodes of one socket",
    "To an even share of nodes in two sockets.",
    lambda node: _spreads_over(node, 1),
    source=sources.DISTRIBUTED_BY_SOCKET, since="1.37", machine=_TWO_NODES_A_SOCKET,
)  # fmt: skip


@_options(sources.OVERWRITTEN_COMBINATION, since="1.23", until="1.37", machine=_EIGHT_NODES)
def numa_distribution_overwrites_its_choice(node: LockstepNode) -> None:
    """Of eight NUMA nodes distribute-cpus-across-numa may take others than it has chosen.
    A known defect: while the search goes on, it overwrites a part of the combination that it has
    chosen. So the fourth NUMA node is the last one that the search tried."""
    node.boot(with_options(node, _ACROSS_NUMA))
    taken = take(node, "a", len(node.cpus) // 2)
    seen = node.topology.numa_node_ids(taken)
    expected = [1, 2, 3, 4] if node.release_has(Behaviour.COMBINATIONS_KEPT) else [1, 2, 3, 7]
    node.promise_equal(f"NUMA nodes of {taken}", "NUMA nodes of a/c", expected, seen)


# -- distribute-cpus-across-cores ----------------------------------------------------------------


@_options(sources.NEIGHBOURING_THREADS, since="1.31", until="1.37", machine="1s-1n-4c-smt2-near")
def across_cores_takes_neighbours(node: LockstepNode) -> None:
    """Where siblings have neighbouring numbers, distribute-cpus-across-cores takes one core whole.
    A known defect: the kubelet takes CPUs in the order of their numbers. On this machine the
    CPUs of a core have consecutive numbers."""
    node.boot(with_options(node, "distribute-cpus-across-cores", reserved=CPUSet([0, 1])))
    cores = node.topology.core_ids(take(node, "a", 2))
    expected = 2 if node.release_has(Behaviour.SPREAD_OVER_CORES) else 1
    node.promise_equal("So many cores are touched", "cores of a/c", expected, len(cores))


# -- prefer-align-cpus-by-uncorecache ------------------------------------------------------------


@_options(
    sources.UNCORE_ODD, since="1.34",
    needs=Needs(smt=2, uncore_caches=2, cores=4, even=True, caches_in_nodes=True),
)  # fmt: skip
def odd_requests_stay_in_one_uncore_cache(node: LockstepNode) -> None:
    """A request for an odd number of CPUs is kept within one uncore cache.
    A CPU less than a whole cache. One thread of its last core stays free."""
    node.boot(with_options(node, _BY_UNCORE))
    topology = node.topology
    if topology.cpus_per_uncore > len(node.cpus) // topology.num_numa_nodes:
        raise DoesNotApply("needs uncore caches within one NUMA node")
    request = topology.cpus_per_uncore - 1
    node.apply(guaranteed("a", request))
    promise_count(node, request)
    _promise_caches(node, 1)


@_options(sources.UNCORE_ODD, since="1.32", until="1.33", machine=_SMALL_CACHES)
def uncore_splits_odd_requests(node: LockstepNode) -> None:
    """Up to 1.33 an odd request is split over uncore caches, though one has room.
    A known defect: the kubelet rounds down the number of cores that it looks for. 1.33.6 mends
    it."""
    node.boot(with_options(node, _BY_UNCORE))
    node.apply(guaranteed("a", node.topology.cpus_per_uncore - 1))
    _promise_caches(node, 1 if node.release_has(Behaviour.UNCORE_ROUNDED_UP) else 2)


@_options(sources.UNCORE_PARTIAL, since="1.32", machine=_SMALL_CACHES)
def uncore_splits_what_fits(node: LockstepNode) -> None:
    """A request that fits the free CPUs of one uncore cache may be split over two.
    A known defect: the kubelet does not count the free CPUs of partly used cores, so an
    uncore cache seems too small. The first cache has two CPUs that are not reserved, the second
    has six."""
    free = CPUSet([3, 35, 5, 7, 36, 37, 38, 39])
    node.boot(with_options(node, _BY_UNCORE, reserved=node.cpus - free))
    node.apply(guaranteed("a", 5))
    _promise_caches(node, 1 if node.release_has(Behaviour.UNCORE_BEST_FIT) else 2)
