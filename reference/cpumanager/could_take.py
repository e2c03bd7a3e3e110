"""Whether a kubelet can have taken just these CPUs.

What belongs here: the judgement of an allocation that was seen, where the release leaves part of
it to chance. What never does: the allocators themselves (``cpu_assignment``, ``before_1_22``).

How it works: up to 1.21 three steps take whole sockets, whole cores and single CPUs. The first is
determined. The second walks the sockets, and the third the cores, in an order that Go's ``sort``
makes with a comparison that says "before" if *any* criterion does. Where criteria contradict each
other, the result depends on the sort of the Go release that the kubelet was built with, and in the
second step on Go's random map order as well: one kubelet gives different answers to the same
question. Two things hold for all of them. Up to twelve objects are sorted by insertion, which
keeps an object that comes first by *every* criterion before the other one. More are parted around
pivots first, and there such a pair is kept too, unless some third object may stand between the two
by one criterion or another. A set is possible if some order that keeps this begins with it.
Source: ``freeCores`` and ``freeCPUs``, ``cpu_assignment.go``, 1.8 to 1.21.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from reference.cpumanager.before_1_22 import accumulate
from reference.cpumanager.cpu_assignment import each_cpu, is_determined, take_by_topology
from reference.cpuset import CPUSet
from reference.errors import AllocationError, AllocationHangs
from reference.machine.topology import CPUTopology
from reference.releases import NEWEST, AnyRelease


def could_take(
    topology: CPUTopology,
    available: CPUSet,
    cpus: int,
    taken: CPUSet,
    *,
    release: AnyRelease = NEWEST,
    strategy: str = "packed",
    group_size: int = 1,
    align_by_socket: bool = False,
    hint_nodes: int = 0,
) -> bool:
    """Whether some run of ``release`` takes just ``taken``; from 1.22 on: whether it is the answer.

    The other arguments are those of :func:`reference.take_by_topology`. ``False`` where the
    kubelet refuses, or never answers: whether it does is determined in every release, and
    ``take_by_topology`` raises the reason. Raises :class:`NotModelled` as that does.
    """
    try:
        answer = take_by_topology(
            topology,
            available,
            cpus,
            release=release,
            strategy=strategy,
            group_size=group_size,
            align_by_socket=align_by_socket,
            hint_nodes=hint_nodes,
        )
    except (AllocationError, AllocationHangs):
        return False
    if answer == taken or cpus < 1 or is_determined(release):
        return answer == taken
    return _possible(topology, available, cpus, taken.mask, release)


def _possible(
    topology: CPUTopology, available: CPUSet, cpus: int, taken: int, release: AnyRelease
) -> bool:
    run = accumulate(topology, available.mask, cpus, release)
    run.take_sockets()
    if run.taken & ~taken:
        return False
    sockets = [_Listed((len(cores), socket), cores) for socket, cores in run.free_cores().items()]
    per_core = topology.cpus_per_core
    number = min(run.need // per_core, sum(len(each.items) for each in sockets)) if sockets else 0
    if number:
        mask = _beginning(sockets, number, taken)
        if mask is None:
            return False
        run.take(mask)
    cores = [_Listed(rank, list(each_cpu(mask))) for rank, mask in run.ranked_cores()]
    if run.need > 0:
        mask = _beginning(cores, run.need, taken)
        if mask is None:
            return False
        run.take(mask)
    return run.taken == taken


_Rank: TypeAlias = tuple[int, ...]

#: The longest slice that every Go release sorts by insertion alone.
_BY_INSERTION: Final = 12


class _Listed(NamedTuple):
    """The items that one object adds to the list of a step, and the criteria that place it: less is
    earlier in each."""

    rank: _Rank
    items: Sequence[int]


def _beginning(objects: Sequence[_Listed], number: int, taken: int) -> int | None:
    """The first ``number`` items of the list, given that they are what is in ``taken``; ``None``
    where no possible order of the objects begins with them."""
    whole, begun, untouched = [], [], []
    mask = count = 0
    for each in objects:
        inside = [item for item in each.items if item & ~taken == 0]
        mask |= sum(inside)
        count += len(inside)
        if len(inside) == len(each.items):
            whole.append(each.rank)
        elif not inside:
            untouched.append(each.rank)
        elif inside == each.items[: len(inside)]:
            begun.append(each.rank)
        else:
            return None
    if count != number or len(begun) > 1:
        return None
    ranks = [each.rank for each in objects]
    if _forbidden(whole, [*begun, *untouched], ranks) or _forbidden(begun, untouched, ranks):
        return None
    return mask


def _forbidden(early: Sequence[_Rank], late: Sequence[_Rank], ranks: Sequence[_Rank]) -> bool:
    """Whether no sort can put each of ``early`` before each of ``late``."""
    sorted_by_insertion = len(ranks) <= _BY_INSERTION
    between: _Rank | None = None
    for one in early:
        for other in late:
            if not _before(other, one):
                continue
            if sorted_by_insertion:
                return True
            # The object that stood between the last such pair stands between most.
            if between and _may_stand_between(one, between, other):
                continue
            between = next((rank for rank in ranks if _may_stand_between(one, rank, other)), None)
            if between is None:
                return True
    return False


def _before(one: _Rank, other: _Rank) -> bool:
    """Whether one comes before the other by every criterion."""
    return all(map(int.__le__, one, other))


def _may_stand_between(one: _Rank, rank: _Rank, other: _Rank) -> bool:
    return not _before(rank, one) and not _before(other, rank)
