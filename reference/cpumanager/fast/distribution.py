"""The best combination of NUMA nodes, found without trying every one.

What belongs here: the same answer as ``cpu_assignment.best_combination`` gives, for machines with
many NUMA nodes, where the kubelet's search takes seconds. What never does: the scores, which are
``balance``'s.

Faults of the kubelet's search decide results, so they are part of the answer. It visits every
combination, so it meets one over which dealing never ends (kubernetes/kubernetes#140730) even
where another is better. And combinations share memory as Go slices do, so the one that was saved
as the best may be overwritten before it is used (#141237).
Source: ``takeByTopologyNUMADistributed``, ``cpu_assignment.go``, 1.23 to 1.37.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from reference.cpumanager.fast.balance import Balance, Members
from reference.errors import AllocationHangs


def best_combination(
    numas: Sequence[int],
    free: Mapping[int, int],
    k: int,
    num_cpus: int,
    cpu_group_size: int,
    sockets: Sequence[Collection[int]] | None,
    ends: bool,
    kept: bool,
) -> tuple[Sequence[int], Sequence[int]] | None:
    """As ``cpu_assignment.best_combination``; no NUMA node may come twice."""
    balance = Balance(
        [free[numa] for numa in numas], num_cpus, cpu_group_size, k, capped=sockets is not None
    )
    found, inside = _best(balance, numas, sockets)
    if found is None:
        return None
    score, members = found
    stops = score == 0 and (inside or sockets is None)
    if not ends:
        _require_end(balance, members if stops else None)
    subset = balance.first_subset(members, score)
    if not kept:
        able = balance.able(members) if subset else ()
        members = _overwritten(members, len(numas), stopped=stops)
        subset = _subset_overwritten(subset, able)
    return [numas[at] for at in members], [numas[at] for at in subset]


def _best(
    balance: Balance, numas: Sequence[int], sockets: Sequence[Collection[int]] | None
) -> tuple[tuple[int, Members] | None, bool]:
    """The best combination with its score, and whether it lies in one socket as it should."""
    found = [
        balance.best([at for at, numa in enumerate(numas) if numa in socket])
        for socket in sockets or ()
    ]
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
            raise AllocationHangs(endless_text(rest, balance.group))


def endless_text(remainder: int, group: int) -> str:
    """Why the kubelet's search never ends."""
    return (
        f"{remainder} CPUs are to be dealt out in groups of {group} over NUMA nodes none of which "
        "has a group left (kubernetes/kubernetes#140730)"
    )


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
