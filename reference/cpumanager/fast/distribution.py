"""CPUs spread evenly over NUMA nodes (policy option ``distribute-cpus-across-numa``).

What belongs here: which NUMA nodes share a request, and how much each gives. What never does: the
choice of CPUs within a node, which is the packed allocator's, and the scores, which are
``balance``'s.

How it works: for the smallest number of nodes that can do it, the combination of that many nodes
is taken that leaves the free CPUs of all nodes most even; the remainder of the division is dealt
out in groups, over the best subset of the combination. Of equals, the first wins. With
align-by-socket (1.37) a combination inside one socket beats all others, and a node that cannot
give its even share lowers the share instead of ruling the combination out.

Faults of the kubelet's search decide results, so they are part of the model. It visits every
combination, so it meets one over which dealing never ends (kubernetes/kubernetes#140730) even
where another is better. And combinations share memory as Go slices do, so the one that was saved
as the best may be overwritten before it is used (#141237).
Source: ``takeByTopologyNUMADistributed``, ``cpu_assignment.go``, 1.23 to 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reference.cpumanager.fast.balance import Balance, Members
from reference.cpumanager.fast.exhaustive import Search, Unending
from reference.errors import AllocationError, AllocationHangs

__all__ = ["Request", "Share", "accounting_error", "deal", "share"]


class Request(NamedTuple):
    """What is to be shared, and by which rules.

    ``cpus`` in groups of ``group`` CPUs; combinations of ``fewest`` to ``most`` nodes are tried.
    ``sockets``: the positions of the nodes of each socket where one socket is preferred, else
    ``None``. ``hand_out_capped``: no node is asked for more than it has. ``ends``: subsets are
    judged by whole groups, so dealing ends. ``kept``: the best combination is not overwritten.
    """

    cpus: int
    group: int
    fewest: int
    most: int
    sockets: Sequence[Sequence[int]] | None = None
    hand_out_capped: bool = False
    ends: bool = False
    kept: bool = False


class Share(NamedTuple):
    """Who gives what: ``each`` CPUs from every node, then groups in turn from ``remainder``."""

    nodes: Sequence[int]
    each: int
    remainder: Sequence[int]


class _Found(NamedTuple):
    """A combination and the subset for its rest; ``able``: what the subset was made of, if any.
    ``stopped``: the search broke off at the next combination, as nothing could be better."""

    members: Members
    subset: Members
    able: Sequence[int]
    stopped: bool


def share(order: Sequence[int], free: Sequence[int], request: Request) -> Share | None:
    """How a request is shared by NUMA nodes, ``None`` where no combination can do it.

    ``order``: the nodes with free CPUs as the kubelet sorts them, where one may come twice;
    ``free``: the number of free CPUs of each. Raises :class:`AllocationHangs`.
    """
    if len(order) == request.fewest == 1:
        return Share(order, request.cpus, ())
    held = dict(zip(order, free, strict=True))
    for size in range(request.fewest, request.most + 1):
        if len(held) < len(order):
            found = _search_all(order, held, request, size)
        else:
            found = _search(free, request, size)
        if found is None:
            continue
        members, subset = found.members, found.subset
        if size == 1:
            return Share([order[members[0]]], request.cpus, ())
        if not request.kept:
            members = _overwritten(members, len(order), stopped=found.stopped)
            subset = _subset_overwritten(subset, found.able)
        return Share(
            [order[at] for at in members],
            _handed_out(free, members, request),
            [order[at] for at in subset],
        )
    return None


def _search(free: Sequence[int], request: Request, size: int) -> _Found | None:
    aligns = request.sockets is not None
    balance = Balance(free, request.cpus, request.group, size, capped=aligns)
    found, inside = _best(balance, request)
    if found is None:
        return None
    score, members = found
    stops = score == 0 and (inside or not aligns)
    if not request.ends:
        _require_end(balance, members if stops else None)
    subset = balance.first_subset(members, score)
    return _Found(members, subset, balance.able(members) if subset else (), stops)


def _search_all(
    order: Sequence[int], held: Mapping[int, int], request: Request, size: int
) -> _Found | None:
    search = Search(order, held, request.cpus, request.group, size, request.sockets, request.ends)
    try:
        best = search.best()
    except Unending as unending:
        raise _endless(unending.rest, request.group) from None
    if best is None:
        return None
    return _Found(best.members, best.subset, best.able, best.stopped)


def _best(balance: Balance, request: Request) -> tuple[tuple[int, Members] | None, bool]:
    """The best combination with its score, and whether it lies in one socket as it should."""
    if request.sockets is not None:
        found = [balance.best(positions) for positions in request.sockets]
        inside = [each for each in found if each is not None]
        if inside:
            return min(inside), True
    return balance.best(range(balance.nodes)), False


def _require_end(balance: Balance, last: Members | None) -> None:
    """Raise where the search meets a subset over which dealing never ends, up to ``last``."""
    if balance.grouped:
        return
    for counts in balance.candidates(last):
        rest = balance.endless(counts)
        if rest:
            raise _endless(rest, balance.group)


def _handed_out(free: Sequence[int], members: Members, request: Request) -> int:
    """The share that each node is asked for in the end."""
    group = request.group
    each = group * (request.cpus // len(members) // group)
    if request.hand_out_capped:
        return min(each, min(group * (free[at] // group) for at in members))
    return each


def _overwritten(members: Members, number: int, *, stopped: bool = False) -> Members:
    """What memory holds of a saved combination out of ``number`` items when the search is over.

    Appending to a Go slice makes a new array where the old one is full, that is at lengths 0, 1,
    2, 4, 8, …; later items are written into an array that all combinations with the same beginning
    share. ``stopped``: just one more combination was made after this one.
    """
    size = len(members)
    own = size if size < 2 else (1 << (size - 1).bit_length() - 1) + 1
    last = (*members[:own], *range(number - size + own, number))
    if not stopped:
        return last
    for at in range(size - 1, own - 1, -1):
        if members[at] < last[at]:
            first = members[at] + 1
            return (*members[:at], *range(first, first + size - at))
    return members


def _subset_overwritten(subset: Members, able: Sequence[int]) -> Members:
    if not subset:
        return ()
    places = _overwritten(tuple(able.index(at) for at in subset), len(able))
    return tuple(able[place] for place in places)


def deal(nodes: Sequence[int], rest: int, group: int, left: Callable[[int], int]) -> Iterator[int]:
    """The nodes in the order in which they give a group each, until ``rest`` CPUs are dealt out.

    A node with less than a group ``left``, asked when its turn comes, is passed over. Raises
    :class:`AllocationHangs` where a whole turn gives nothing.
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
            raise _endless(rest, group)


def _endless(rest: int, group: int) -> AllocationHangs:
    return AllocationHangs(
        f"{rest} CPUs are to be dealt out in groups of {group} over NUMA nodes none of which has a "
        "group left (kubernetes/kubernetes#140730)"
    )


def accounting_error(need: int) -> AllocationError | None:
    """What the kubelet says where it took another number of CPUs than it had to."""
    if not need:
        return None
    which = "not enough" if need > 0 else "too many"
    return AllocationError(f"accounting error, {which} CPUs allocated, remaining: {need}")
