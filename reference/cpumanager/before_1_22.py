"""The allocator up to 1.21, whose answer partly depends on chance.

What belongs here: its three steps, and the criteria by which it sorts objects. What never does:
which of its possible answers a kubelet gave (``could_take``).

Of an object its free CPUs are taken, not all its CPUs. Whole sockets are taken by id; whole cores
and single CPUs in the order that a stable sort by all criteria in turn gives, where the kubelet's
sort is made with criteria that contradict each other. Source: ``takeByTopology``, ``freeSockets``,
``freeCores`` and ``freeCPUs``, ``cpu_assignment.go``, 1.8 to 1.21.
"""

from __future__ import annotations

from reference.behaviours import Behaviour
from reference.errors import NotEnoughCPUs, NothingFits
from reference.machine.topology import CPUTopology
from reference.releases import AnyRelease, has


def take_by_topology(topology: CPUTopology, available: int, cpus: int, release: AnyRelease) -> int:
    """``takeByTopology``: one answer that the kubelet can give. Raises :class:`NotEnoughCPUs`,
    :class:`NothingFits`."""
    run = accumulate(topology, available, cpus, release)
    for step in (run.take_sockets, run.take_cores, run.take_cpus):
        step()
        if run.need < 1:
            return run.taken
    raise NothingFits


def accumulate(
    topology: CPUTopology, available: int, cpus: int, release: AnyRelease
) -> AccumulatorBefore122:
    """An allocation that has taken nothing yet. Raises :class:`NotEnoughCPUs`."""
    run = AccumulatorBefore122(topology, available, cpus)
    if cpus > run.free.bit_count():
        with_numbers = has(release, Behaviour.NUMBERS_IN_REFUSAL)
        raise NotEnoughCPUs(cpus, available.bit_count(), with_numbers=with_numbers)
    return run


class AccumulatorBefore122:
    """``cpuAccumulator`` up to 1.21. ``free`` may still be taken, ``need`` are still wanted."""

    __slots__ = ("_topology", "free", "need", "taken")

    def __init__(self, topology: CPUTopology, available: int, cpus: int) -> None:
        self._topology = topology
        self.free = available & topology.mask
        self.need = cpus
        self.taken = 0

    def take(self, mask: int) -> None:
        """Take just these CPUs."""
        self.taken |= mask
        self.free &= ~mask
        self.need -= mask.bit_count()

    def take_sockets(self) -> None:
        """Whole free sockets by id, as long as another one is needed (``freeSockets``)."""
        size = self._topology.cpus_per_socket
        for socket in self._topology.sockets:
            if (socket.mask & self.free).bit_count() == size <= self.need:
                self.take(socket.mask & self.free)

    def take_cores(self) -> None:
        """Whole free cores, first of the sockets with the fewest of them (``freeCores``)."""
        for cores in sorted(self.free_cores().values(), key=len):
            for core in cores:
                if 0 < (core & self.free).bit_count() <= self.need:
                    self.take(core & self.free)

    def take_cpus(self) -> None:
        """CPUs one by one, core after core, by all criteria in turn (``freeCPUs``)."""
        for _, core in sorted(self.ranked_cores()):
            left = core
            while left and self.need > 0:
                self.take(left & -left)
                left &= left - 1

    def free_cores(self) -> dict[int, list[int]]:
        """The free CPUs of each whole free core, by id, for each socket that has any."""
        free, size = self.free, self._topology.cpus_per_core
        cores = {
            socket.id: [
                core.mask & free
                for core in self._topology.cores_of_socket[socket.id]
                if (core.mask & free).bit_count() == size and core.within & free
            ]
            for socket in self._topology.sockets
        }
        return {socket: found for socket, found in cores.items() if found}

    def ranked_cores(self) -> list[tuple[tuple[int, ...], int]]:
        """The free CPUs of each core that has any, with what the kubelet compares: less is
        earlier. The more of this allocation lies in the core's socket, the earlier; then fewest
        free CPUs in the socket, fewest in the core, lowest socket, lowest core."""
        topology, free = self._topology, self.free
        ranked: list[tuple[tuple[int, ...], int]] = []
        for core, mask in topology.core_masks.items():
            if mask & free:
                socket = topology.details[(mask & -mask).bit_length() - 1].socket
                beside = topology.socket_masks[socket]
                rank = (
                    -(beside & self.taken).bit_count(),
                    (beside & free).bit_count(),
                    (mask & free).bit_count(),
                    socket,
                    core,
                )
                ranked.append((rank, mask & free))
        return ranked
