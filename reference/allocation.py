"""Which CPUs the kubelet takes: topology, free CPUs and a number in, a set out.

What belongs here: the packed allocator and the front door to all allocators. What never does: who
asks and why (``policy``), or where CPUs come from (``discovery``).

How it works: an accumulator starts with the free CPUs that the topology knows and with the number
needed. It takes whole NUMA nodes and sockets, then whole cores, then single CPUs; wherever it can
choose, it prefers the object with the fewest free CPUs and then the lowest id. Taking an object
takes *all* its CPUs, free or not, and lowers the need by their number; whether a socket or core
is free is judged by *average* sizes. On an uneven machine this hands out CPUs that were not free,
and so does the kubelet (kubernetes/kubernetes#124066, #140495), so it does here.
Source: ``pkg/kubelet/cm/cpumanager/cpu_assignment.go``, 1.22 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final

from reference.cpuset import CPUSet
from reference.errors import NotEnoughCPUs, NothingFits, NotModelled
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

    Raises :class:`NotEnoughCPUs`; :class:`AllocationError` in general; :class:`NotModelled` for a
    strategy or release the model does not know.
    """
    known = behaviour(release)
    if strategy == "packed":
        return CPUSet.of_mask(_packed(topology, available, cpus, known))
    if strategy not in STRATEGIES:
        raise NotModelled(f"allocation strategy {strategy!r}: one of {', '.join(STRATEGIES)}")
    raise NotModelled(f"allocation strategy {strategy!r} is not modelled for release {release}")


def _packed(topology: CPUTopology, available: CPUSet, cpus: int, known: Behaviour) -> int:
    accumulator = Accumulator(topology, available.mask, cpus, known)
    if cpus < 1:
        return 0
    if cpus > accumulator.free.bit_count():
        raise NotEnoughCPUs(cpus, len(available), with_numbers=known.numbers_in_refusal)
    steps = (
        (accumulator.take_sockets, accumulator.take_cores, accumulator.take_single_cpus)
        if known.packing is Packing.SOCKETS
        else (
            accumulator.take_first_level,
            accumulator.take_second_level,
            accumulator.take_cores,
            accumulator.take_single_cpus,
        )
    )
    for step in steps:
        step()
        if accumulator.need < 1:
            return accumulator.taken
    raise NothingFits


def _by_free_cpus(units: Units, free: int) -> list[Unit]:
    """Those that have free CPUs, fewest free CPUs first, then lowest id."""
    found = [((unit.mask & free).bit_count(), unit) for unit in units if unit.within & free]
    # The units come by ascending id and the sort is stable.
    found.sort(key=itemgetter(0))
    return [unit for _, unit in found]


class Accumulator:
    """CPUs being gathered: ``free`` may still be taken, ``need`` are still wanted."""

    __slots__ = ("_numa_first", "_sockets_only", "_topology", "free", "need", "taken")

    def __init__(self, topology: CPUTopology, available: int, cpus: int, known: Behaviour) -> None:
        self._topology = topology
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
                left = core.mask & free
                while left:
                    cpu = left & -left
                    left ^= cpu
                    self._take(cpu, 1)
                    if self.need < 1:
                        return

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

    def _core_lists(self) -> Iterator[Units]:
        topology = self._topology
        if self._sockets_only or self._numa_first:
            for socket in self._sorted_sockets():
                yield topology.cores_of_socket[socket.id]
        else:
            for node in self._sorted_numa_nodes():
                yield topology.cores_of_numa[node.id]
