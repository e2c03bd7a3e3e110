"""Which CPUs the kubelet takes: topology, free CPUs and a number in, a set out.

What belongs here: taking CPUs, and the front door to all allocators. What never does: who asks and
why (``policy``), where CPUs come from (``discovery``), or how NUMA nodes share a request
(``distribution``).

How it works: an accumulator starts with the free CPUs that the topology knows and with the number
needed. It takes whole NUMA nodes and sockets, then whole cores, then single CPUs; wherever it can
choose, it prefers the object with the fewest free CPUs and then the lowest id. Taking an object
takes *all* its CPUs, free or not, and lowers the need by their number; whether a socket or core
is free is judged by *average* sizes. On an uneven machine this hands out CPUs that were not free,
and so does the kubelet (kubernetes/kubernetes#124066, #140495), so it does here.
Source: ``pkg/kubelet/cm/cpumanager/cpu_assignment.go``, 1.22 to 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Final, TypeAlias

from reference.cpuset import CPUSet
from reference.distribution import accounting_error, deal, share
from reference.errors import AllocationError, NotEnoughCPUs, NothingFits, NotModelled
from reference.releases import NEWEST, AnyRelease, Behaviour, Packing, behaviour
from reference.topology import CPUTopology, Unit, Units

__all__ = ["take_by_topology"]

STRATEGIES: Final = ("packed", "spread", "uncore", "distributed")


def take_by_topology(
    topology: CPUTopology,
    available: CPUSet,
    cpus: int,
    *,
    release: AnyRelease = NEWEST,
    strategy: str = "packed",
    group_size: int = 1,
    align_by_socket: bool = False,
) -> CPUSet:
    """The ``cpus`` CPUs that ``release`` takes out of ``available``.

    ``strategy``: ``"packed"``, or the allocator of a policy option, ``"spread"``
    (distribute-cpus-across-cores), ``"uncore"`` (prefer-align-cpus-by-uncorecache) or
    ``"distributed"`` (distribute-cpus-across-numa), for which ``group_size`` is 1, or the number
    of CPUs per core under full-pcpus-only. ``cpus`` below 1 takes nothing. On an uneven machine
    the result may hold CPUs outside ``available``, as the kubelet's does.

    ``align_by_socket`` is the policy option of that name, which counts for nothing here up to 1.36.

    Raises :class:`NotEnoughCPUs`; :class:`AllocationError` in general; :class:`KubeletHangs` where
    the kubelet would search for ever; :class:`NotModelled` for a strategy or release the model does
    not know.
    """
    known = behaviour(release)
    if strategy not in STRATEGIES:
        raise NotModelled(f"allocation strategy {strategy!r}: one of {', '.join(STRATEGIES)}")
    if strategy not in known.strategies:
        raise NotModelled(f"allocation strategy {strategy!r} is not modelled for release {release}")
    if strategy == "distributed" and cpus % group_size == 0:
        if align_by_socket and known.socket_aligned_distribution:
            raise NotModelled(f"distribution aligned by socket, release {release}")
        return CPUSet.of_mask(_distributed(topology, available, cpus, group_size, known))
    return CPUSet.of_mask(_packed(topology, available, cpus, known, strategy))


def _accumulator(
    topology: CPUTopology, available: CPUSet, cpus: int, known: Behaviour
) -> Accumulator:
    accumulator = Accumulator(topology, available.mask, cpus, known)
    if cpus > accumulator.free.bit_count():
        raise NotEnoughCPUs(cpus, len(available), with_numbers=known.numbers_in_refusal)
    return accumulator


def _packed(
    topology: CPUTopology, available: CPUSet, cpus: int, known: Behaviour, strategy: str = "packed"
) -> int:
    if cpus < 1:
        return 0
    accumulator = _accumulator(topology, available, cpus, known)
    for step in _STEPS[known.packing, strategy]:
        step(accumulator)
        if accumulator.need < 1:
            return accumulator.taken
    raise NothingFits


def _distributed(
    topology: CPUTopology, available: CPUSet, cpus: int, group: int, known: Behaviour
) -> int:
    if cpus < 1:
        return 0
    accumulator = _accumulator(topology, available, cpus, known)
    order = accumulator.numa_nodes()
    free = {node: accumulator.free_in(node) for node in order}
    groups_in_node = _ceil(_ceil(len(topology.details), group), topology.num_numa_nodes)
    fewest = _ceil(_ceil(cpus, group), groups_in_node)
    found = share(free, order, cpus, group, fewest)
    if found is None:
        return _packed(topology, available, cpus, known)

    def give(node: int, number: int) -> None:
        with suppress(AllocationError):  # as the kubelet does; what is missing shows at the end
            inside = CPUSet.of_mask(accumulator.free & topology.numa_masks[node])
            accumulator.take(_packed(topology, inside, number, known))

    for node in found.nodes:
        give(node, found.each)
    rest = cpus - found.each * len(found.nodes)
    for node in deal(found.remainder, rest, group, accumulator.free_in):
        give(node, group)
    error = accounting_error(accumulator.need)
    if error:
        raise error
    return accumulator.taken


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)


def _by_free_cpus(units: Units, free: int) -> list[Unit]:
    """Those that have free CPUs, fewest free CPUs first, then lowest id."""
    found = [((unit.mask & free).bit_count(), unit) for unit in units if unit.within & free]
    # The units come by ascending id and the sort is stable.
    found.sort(key=itemgetter(0))
    return [unit for _, unit in found]


class Accumulator:
    """CPUs being gathered: ``free`` may still be taken, ``need`` are still wanted."""

    __slots__ = (
        "_cores_rounded_up",
        "_numa_first",
        "_sockets_only",
        "_topology",
        "free",
        "need",
        "taken",
    )

    def __init__(self, topology: CPUTopology, available: int, cpus: int, known: Behaviour) -> None:
        self._topology = topology
        self._cores_rounded_up = known.cores_rounded_up
        self._sockets_only = known.packing is Packing.SOCKETS
        self._numa_first = topology.num_sockets >= topology.num_numa_nodes
        self.free = available & topology.mask
        self.need = cpus
        self.taken = 0

    def take_first_level(self) -> None:
        """Whole NUMA nodes, or sockets where these are the larger ones."""
        if self._numa_first:
            self._take_numa_nodes()
        else:
            self.take_sockets()

    def take_second_level(self) -> None:
        """Whole sockets, or NUMA nodes: those that the first level left out."""
        if self._numa_first:
            self.take_sockets()
        else:
            self._take_numa_nodes()

    def _take_numa_nodes(self) -> None:
        free = self.free
        self._take_whole(
            node for node in self._sorted_numa_nodes() if node.mask & free == node.mask
        )

    def take_sockets(self) -> None:
        """Whole sockets whose number of free CPUs is the average size of a socket."""
        free, average = self.free, self._topology.cpus_per_socket
        if self.need < average:
            # Only a socket smaller than the average could still be taken, and none such is free:
            # it cannot have that many free CPUs.
            return
        self._take_whole(
            socket
            for socket in self._sorted_sockets()
            if (socket.mask & free).bit_count() == average
        )

    def take_cores(self) -> None:
        """Whole cores whose number of free CPUs is the average size of a core."""
        free, average = self.free, self._topology.cpus_per_core
        if self.need < average:
            return
        self._take_whole(
            core
            for units in self._core_lists()
            # Free cores have equal numbers of free CPUs, so they go by id, as they come.
            for core in units
            if (core.mask & free).bit_count() == average and core.within & free
        )

    def take_single_cpus(self) -> None:
        """CPUs one by one, core after core."""
        free = self.free
        for units in self._core_lists():
            for core in _by_free_cpus(units, free):
                self._take_one_by_one(core.mask & free)
                if self.need < 1:
                    return

    def take_uncore_caches(self) -> None:
        """Whole uncore caches, then one that is partly used, if its free CPUs are just right."""
        topology = self._topology
        for cache in self._sorted_uncore_caches():
            if self.need >= topology.cpus_per_uncore:
                free = self.free
                self._take_whole(
                    each for each in self._sorted_uncore_caches() if each.mask & free == each.mask
                )
                if self.need < 1:
                    return
            self._take_partial_uncore(cache)
            if self.need < 1:
                return

    def _take_partial_uncore(self, cache: Unit) -> None:
        average = self._topology.cpus_per_core
        number = _ceil(self.need, average) if self._cores_rounded_up else self.need // average
        cores = [
            core for core in self._topology.cores_of_uncore[cache.id] if core.within & self.free
        ]
        mask = 0
        for core in cores[:number]:
            mask |= core.mask & self.free
        odd = self._cores_rounded_up and self.need % 2 == 1 and average > 1
        if odd and mask.bit_count() > self.need:
            mask ^= 1 << mask.bit_length() - 1
        if mask.bit_count() == self.need:
            self.take(mask)

    def take_cpus_by_number(self) -> None:
        """CPUs one by one, socket after socket, by their numbers."""
        free = self.free
        for socket in self._sorted_sockets():
            self._take_one_by_one(socket.mask & free)
            if self.need < 1:
                return

    def _take_one_by_one(self, left: int) -> None:
        while left and self.need > 0:
            cpu = left & -left
            left ^= cpu
            self._take(cpu, 1)

    def take(self, mask: int) -> None:
        """Take just these CPUs."""
        self._take(mask, mask.bit_count())

    def numa_nodes(self) -> list[int]:
        """The NUMA nodes with free CPUs, as the kubelet sorts them."""
        return [node.id for node in self._sorted_numa_nodes()]

    def free_in(self, node: int) -> int:
        """The number of free CPUs of a NUMA node."""
        return (self.free & self._topology.numa_masks[node]).bit_count()

    def _take_whole(self, units: Iterable[Unit]) -> None:
        for unit in units:
            if unit.size <= self.need:
                self._take(unit.mask, unit.size)
                if self.need < 1:
                    return

    def _take(self, mask: int, size: int) -> None:
        self.taken |= mask
        self.free &= ~mask
        self.need -= size

    # The lists below stand still while their CPUs are taken: each closes over the free CPUs of
    # the moment it was made, as the kubelet computes it before it takes the first object.

    def _sorted_numa_nodes(self) -> Iterator[Unit]:
        topology, free = self._topology, self.free
        if self._numa_first:
            yield from _by_free_cpus(topology.numa_nodes, free)
            return
        for socket in _by_free_cpus(topology.sockets, free):
            yield from _by_free_cpus(topology.numa_nodes_of_socket[socket.id], free)

    def _sorted_sockets(self) -> Iterator[Unit]:
        topology, free = self._topology, self.free
        if self._sockets_only or not self._numa_first:
            yield from _by_free_cpus(topology.sockets, free)
            return
        for node in _by_free_cpus(topology.numa_nodes, free):
            yield from _by_free_cpus(topology.sockets_of_numa[node.id], free)

    def _sorted_uncore_caches(self) -> list[Unit]:
        free = self.free
        return [
            cache
            for node in self._sorted_numa_nodes()
            for cache in _by_free_cpus(self._topology.uncores_of_numa[node.id], free)
        ]

    def _core_lists(self) -> Iterator[Units]:
        topology = self._topology
        if self._sockets_only or self._numa_first:
            for socket in self._sorted_sockets():
                yield topology.cores_of_socket[socket.id]
        else:
            for node in self._sorted_numa_nodes():
                yield topology.cores_of_numa[node.id]


_Steps: TypeAlias = tuple[Callable[[Accumulator], None], ...]

_SOCKETS_AND_NODES: Final[_Steps] = (Accumulator.take_first_level, Accumulator.take_second_level)
_CORES_AND_CPUS: Final[_Steps] = (Accumulator.take_cores, Accumulator.take_single_cpus)

#: What is taken, in turn, until there is enough.
_STEPS: Final[Mapping[tuple[Packing, str], _Steps]] = {
    (Packing.SOCKETS, "packed"): (Accumulator.take_sockets, *_CORES_AND_CPUS),
    (Packing.NUMA, "packed"): (*_SOCKETS_AND_NODES, *_CORES_AND_CPUS),
    (Packing.NUMA, "distributed"): (*_SOCKETS_AND_NODES, *_CORES_AND_CPUS),
    (Packing.NUMA, "spread"): (*_SOCKETS_AND_NODES, Accumulator.take_cpus_by_number),
    (Packing.NUMA, "uncore"): (
        *_SOCKETS_AND_NODES,
        Accumulator.take_uncore_caches,
        *_CORES_AND_CPUS,
    ),
}
