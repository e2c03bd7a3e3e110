"""CPUs spread evenly over NUMA nodes (policy option ``distribute-cpus-across-numa``).

What belongs here: which NUMA nodes share a request, and how much each gives. What never does: the
choice of CPUs within a node, which is the packed allocator's.

How it works: for the smallest number of nodes that can do it, every combination of that many
nodes is scored by how even it leaves the free CPUs of all nodes; the remainder of the division is
dealt out in groups, over the best subset of the combination. The first of the best wins.

Two faults of the kubelet's search decide results, so they are part of the model. Combinations
share memory as Go slices do, so the one that was saved as the best may be overwritten before it
is used (kubernetes/kubernetes#141237). And dealing goes on for ever where the leftovers hold
enough CPUs but not enough whole groups (#140730).
Source: ``takeByTopologyNUMADistributed``, ``cpu_assignment.go``, 1.23 to 1.36.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from reference.errors import AllocationError, KubeletHangs

__all__ = ["Share", "share"]


class _Slice:
    """A Go slice of ints: ``append`` writes into the shared array while there is room."""

    __slots__ = ("_array", "_length")

    def __init__(self, array: list[int], length: int) -> None:
        self._array = array
        self._length = length

    def append(self, value: int) -> _Slice:
        length, array = self._length, self._array
        if length == len(array):
            array = [*array, *[0] * max(length, 1)]  # capacities 1, 2, 4, 8, …
        array[length] = value
        return _Slice(array, length + 1)

    def now(self) -> list[int]:
        """What it holds at this moment."""
        return self._array[: self._length]


def _combinations(
    values: Sequence[int], size: int, start: int = 0, chosen: _Slice | None = None
) -> Iterator[_Slice]:
    """The combinations in lexicographic order of positions, sharing memory as the kubelet's do."""
    chosen = _Slice([], 0) if chosen is None else chosen
    if not size:
        yield chosen
        return
    for position in range(start, len(values) - size + 1):
        longer = chosen.append(values[position])
        yield from _combinations(values, size - 1, position + 1, longer)


@dataclass(frozen=True, slots=True)
class Share:
    """Who gives what: ``each`` CPUs from every node, then groups in turn from ``remainder``."""

    nodes: list[int]
    each: int
    remainder: list[int]


@dataclass(slots=True)
class _Best:
    """The best combination of one size so far."""

    score: float = math.inf
    nodes: _Slice | None = None
    remainder: _Slice | None = None


def share(
    free: dict[int, int],
    order: Sequence[int],
    cpus: int,
    group: int,
    fewest: int,
) -> Share | None:
    """How ``cpus`` are shared by NUMA nodes, ``None`` where no combination can do it.

    ``free``: number of free CPUs by node; ``order``: the nodes that have any, as the kubelet sorts
    them; ``group``: CPUs that stay together; ``fewest``: nodes to begin with. Raises
    :class:`KubeletHangs`.
    """
    most = min(-(-cpus // group), len(free))
    for size in range(fewest, most + 1):
        each = group * (cpus // size // group)
        best = _Best()
        for nodes in _combinations(order, size):
            # The kubelet makes one combination more before it sees that it need not go on.
            if best.score == 0:
                break
            _consider(best, nodes, free, cpus, group, each)
        if best.nodes is not None:
            remainder = best.remainder.now() if best.remainder else []
            return Share(best.nodes.now(), each, remainder)
    return None


def _consider(
    best: _Best, nodes: _Slice, free: dict[int, int], cpus: int, group: int, each: int
) -> None:
    members = nodes.now()
    if sum(free[node] for node in set(members)) < cpus:
        return
    if group * sum(free[node] // group for node in members) < cpus:
        return
    if any(free[node] < each for node in members):
        return
    left = dict(free)
    for node in members:
        left[node] -= each
    rest = cpus - each * len(members)
    score, remainder = _remainder(left, members, rest, group) if rest else (_spread(left), None)
    if score < best.score:
        best.score, best.nodes, best.remainder = score, nodes, remainder


def _remainder(
    left: dict[int, int], members: Sequence[int], rest: int, group: int
) -> tuple[float, _Slice | None]:
    """The best subset to deal the rest out over, with its score."""
    score: float = math.inf
    chosen: _Slice | None = None
    able = [node for node in members if left[node] >= group]
    for size in range(len(able), 0, -1):
        for subset in _combinations(able, size):
            nodes = subset.now()
            if sum(left[node] for node in nodes) < rest:
                continue
            after = dict(left)
            for node in deal(nodes, rest, group, after.__getitem__):
                after[node] -= group
            evenness = _spread(after)
            if evenness < score:
                score, chosen = evenness, subset
    return score, chosen


def deal(nodes: Sequence[int], rest: int, group: int, left: Callable[[int], int]) -> Iterator[int]:
    """The nodes in the order in which they give a group each, until ``rest`` CPUs are dealt out.

    A node with less than a group ``left``, asked when its turn comes, is passed over. Raises
    :class:`KubeletHangs` where a whole turn gives nothing.
    """
    while rest > 0:
        before = rest
        for node in nodes:
            if rest == 0:
                break
            if left(node) >= group:
                yield node
                rest -= group
        if rest == before:
            raise KubeletHangs(
                f"{rest} CPUs are to be dealt out in groups of {group}, and no NUMA node of "
                f"{', '.join(map(str, nodes))} has a group left (kubernetes/kubernetes#140730)"
            )


def _spread(left: dict[int, int]) -> float:
    """Standard deviation; it and the mean are rounded to thousandths, which decides ties."""
    mean = _thousandths(sum(left.values()) / len(left))
    return _thousandths(math.sqrt(sum((each - mean) ** 2 for each in left.values()) / len(left)))


def _thousandths(value: float) -> float:
    scaled = value * 1000
    whole = math.floor(scaled)
    return (whole + 1 if scaled - whole >= 0.5 else whole) / 1000


def accounting_error(need: int) -> AllocationError | None:
    """What the kubelet says where it took another number of CPUs than it had to."""
    if not need:
        return None
    which = "not enough" if need > 0 else "too many"
    return AllocationError(f"accounting error, {which} CPUs allocated, remaining: {need}")
