"""Which CPUs the kubelet takes: topology, free CPUs and a number in, a set out.

What belongs here: the front door to all allocators, and what they refuse. What never does: who
asks and why (``policy``), where CPUs come from (``discovery``), how CPUs are taken
(``accumulator``), how NUMA nodes share a request (``distribution``), or which sets another run
might have taken (``possible``).

Source: ``takeByTopology…``, ``pkg/kubelet/cm/cpumanager/cpu_assignment.go``, 1.8 to 1.37.
"""

from __future__ import annotations

from typing import NamedTuple

from reference.behaviours import Behaviour
from reference.cpumanager.fast.accumulator import STRATEGIES, Accumulator, Rules, rules_of
from reference.cpumanager.fast.distribution import Request, Share, accounting_error, deal, share
from reference.cpuset import CPUSet
from reference.errors import AllocationError, NotEnoughCPUs, NothingFits, NotModelled
from reference.machine.topology import CPUTopology
from reference.releases import NEWEST, AnyRelease

__all__ = ["accumulate", "is_determined", "take_by_topology"]


def take_by_topology(
    topology: CPUTopology,
    available: CPUSet,
    cpus: int,
    *,
    release: AnyRelease = NEWEST,
    strategy: str = "packed",
    group_size: int = 1,
    align_by_socket: bool = False,
    hint_nodes: int = 0,
) -> CPUSet:
    """The ``cpus`` CPUs that ``release`` takes out of ``available``.

    ``strategy``: ``"packed"``, or the allocator of a policy option, ``"spread"``
    (distribute-cpus-across-cores), ``"uncore"`` (prefer-align-cpus-by-uncorecache) or
    ``"distributed"`` (distribute-cpus-across-numa), for which ``group_size`` is 1, or the number
    of CPUs per core under full-pcpus-only. ``cpus`` below 1 takes nothing. On an uneven machine
    the result may hold CPUs outside ``available``, as the kubelet's does.

    ``align_by_socket`` is the policy option of that name, which counts for nothing here up to 1.36.
    ``hint_nodes`` is the number of NUMA nodes of the Topology Manager's hint, 0 without one; it
    counts only with ``Behaviour.NUMA_FLOOR_FROM_HINT``.

    Up to 1.21 the kubelet's answer hangs on chance (:func:`is_determined`). The answer here is then
    one that it can give: the one that a stable sort by all its criteria in turn gives. What a
    kubelet was seen to take is judged by :func:`reference.could_take`, and a model that follows
    a kubelet goes on with what was seen.

    Raises :class:`NotEnoughCPUs`; :class:`AllocationError` in general; :class:`AllocationHangs`
    where the kubelet would search for ever; :class:`NotModelled` for a strategy that the model does
    not know or the release does not have, and for a release or fix that is not known well enough.
    """
    rules = rules_of(release)
    if strategy not in rules.strategies:
        known = (
            f"{strategy!r} is not in release {release}"
            if strategy in STRATEGIES
            else (f"{strategy!r}: one of {', '.join(STRATEGIES)}")
        )
        raise NotModelled(f"allocation strategy {known}")
    if group_size < 1:
        raise NotModelled(f"groups of {group_size} CPUs")
    if cpus < 1:
        return CPUSet()
    if strategy == "distributed" and cpus % group_size == 0:
        request = _Wish(cpus, group_size, align_by_socket, hint_nodes)
        return CPUSet.of_mask(_distributed(topology, available.mask, request, rules))
    return CPUSet.of_mask(_packed(topology, available.mask, cpus, rules, strategy))


def is_determined(release: AnyRelease) -> bool:
    """Whether ``release`` always gives the same answer to the same question; before 1.22 Go's map
    order and its sort of contradicting criteria decide part of it."""
    return rules_of(release).ordered


def accumulate(
    topology: CPUTopology, available: CPUSet, cpus: int, release: AnyRelease
) -> Accumulator:
    """An allocation of ``release`` that has taken nothing yet. Raises :class:`NotEnoughCPUs`."""
    return _accumulator(topology, available.mask, cpus, rules_of(release))


def _accumulator(
    topology: CPUTopology, available: int, cpus: int, rules: Rules, node: int | None = None
) -> Accumulator:
    accumulator = Accumulator(topology, available, cpus, rules, node)
    if cpus > accumulator.free.bit_count():
        raise NotEnoughCPUs(cpus, available.bit_count(), with_numbers=rules.numbers_in_refusal)
    return accumulator


def _packed(
    topology: CPUTopology,
    available: int,
    cpus: int,
    rules: Rules,
    strategy: str = "packed",
    node: int | None = None,
) -> int:
    if cpus < 1:
        return 0
    accumulator = _accumulator(topology, available, cpus, rules, node)
    for step in rules.steps[strategy]:
        step(accumulator)
        if accumulator.need < 1:
            return accumulator.taken
    raise NothingFits


class _Wish(NamedTuple):
    """What is asked of the distributed allocator."""

    cpus: int
    group: int
    align_by_socket: bool
    hint_nodes: int


def _distributed(topology: CPUTopology, available: int, wish: _Wish, rules: Rules) -> int:
    accumulator = _accumulator(topology, available, wish.cpus, rules)
    if len(topology.numa_nodes) == 1:
        found = Share([topology.numa_nodes[0].id], wish.cpus, ())
    else:
        shared = _shared(topology, accumulator, wish, rules)
        if shared is None:
            return _packed(topology, available, wish.cpus, rules)
        found = shared

    def give(node: int, number: int) -> None:
        inside = accumulator.free & topology.numa_masks[node]
        try:
            accumulator.take(_packed(topology, inside, number, rules, node=node))
        except AllocationError:
            return  # as the kubelet does; what is missing shows at the end

    for node in found.nodes:
        give(node, found.each)
    rest = wish.cpus - found.each * len(found.nodes)
    for node in deal(found.remainder, rest, wish.group, accumulator.free_in):
        give(node, wish.group)
    error = accounting_error(accumulator.need)
    if error:
        raise error
    return accumulator.taken


def _shared(
    topology: CPUTopology, accumulator: Accumulator, wish: _Wish, rules: Rules
) -> Share | None:
    """How NUMA nodes share a request; ``None`` where they cannot."""
    order, free = accumulator.numa_nodes()
    request = _request(topology, order, wish, rules)
    found = share(order, free, request)
    if (
        found is None
        and request.fewest > _fewest(topology, wish)
        and share(order, free, _request(topology, order, wish, rules, floor=False))
    ):
        raise NotModelled(
            f"{wish.cpus} CPUs over at least {wish.hint_nodes} NUMA nodes: what a kubelet with "
            f"{Behaviour.NUMA_FLOOR_FROM_HINT.title} does where they cannot give them"
        )
    return found


def _request(
    topology: CPUTopology, order: list[int], wish: _Wish, rules: Rules, *, floor: bool = True
) -> Request:
    fewest, nodes = _fewest(topology, wish), len(set(order))
    if floor and rules.floor_from_hint and wish.hint_nodes <= nodes:
        fewest = max(fewest, wish.hint_nodes)
    return Request(
        wish.cpus,
        wish.group,
        fewest,
        most=min(_ceil(wish.cpus, wish.group), nodes),
        sockets=_inside_sockets(topology, order)
        if rules.socket_aligned and wish.align_by_socket
        else None,
        hand_out_capped=rules.socket_aligned,
        ends=rules.distribution_ends,
        kept=rules.combinations_kept,
    )


def _fewest(topology: CPUTopology, wish: _Wish) -> int:
    groups_in_node = _ceil(_ceil(len(topology.details), wish.group), topology.num_numa_nodes)
    return _ceil(_ceil(wish.cpus, wish.group), groups_in_node)


def _inside_sockets(topology: CPUTopology, order: list[int]) -> list[list[int]]:
    """The positions of the NUMA nodes that lie in one socket, for each socket."""
    nodes = topology.numa_masks
    return [
        [at for at, node in enumerate(order) if nodes[node] & ~socket == 0]
        for socket in topology.socket_masks.values()
    ]


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)
