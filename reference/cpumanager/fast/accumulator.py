"""Taking CPUs, object after object: what an allocation is made of.

What belongs here: the steps that take whole NUMA nodes, sockets, uncore caches and cores, and
single CPUs, and which of them a release takes for which strategy. What never does: the front door
and its errors (``allocation``), and how NUMA nodes share a request (``distribution``).

How it works: an accumulator starts with the free CPUs that the topology knows and with the number
needed. It takes whole NUMA nodes and sockets, then whole cores, then single CPUs; wherever it can
choose, it prefers the object with the fewest free CPUs and then the lowest id. From 1.22 on taking
an object takes *all* its CPUs, free or not, and lowers the need by their number; whether a socket
or core is free is judged by *average* sizes. On an uneven machine this hands out CPUs that were
not free, and so does the kubelet (kubernetes/kubernetes#124066, #140495), so it does here.
Source: ``cpuAccumulator``, ``pkg/kubelet/cm/cpumanager/cpu_assignment.go``, 1.8 to 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Final, TypeAlias

from reference.behaviours import Behaviour
from reference.cpumanager.fast.twins import Twins, lowest
from reference.errors import NotModelled
from reference.machine.topology import CPUTopology, Unit, Units
from reference.releases import AnyRelease, behaviours

__all__ = ["STRATEGIES", "Accumulator", "Rules", "rules_of"]

#: The allocators, and the behaviour that a release must have for each.
STRATEGIES: Final = {
    "packed": None,
    "spread": Behaviour.CORE_SPREADING,
    "uncore": Behaviour.UNCORE_ALIGNMENT,
    "distributed": Behaviour.NUMA_DISTRIBUTION,
}


@dataclass(frozen=True, slots=True)
class Rules:
    """The named behaviours that the allocators of one release ask for."""

    strategies: frozenset[str]
    ordered: bool
    numa: bool
    numbers_in_refusal: bool
    cores_rounded_up: bool
    socket_aligned: bool
    distribution_ends: bool
    combinations_kept: bool
    true_sizes: bool
    floor_from_hint: bool
    uncore_best_fit: bool
    spread_over_cores: bool
    steps: Mapping[str, _Steps]


@lru_cache(maxsize=128)
def rules_of(release: AnyRelease) -> Rules:
    has = behaviours(release)
    numa = Behaviour.NUMA_ALLOCATION in has
    ordered = Behaviour.ORDERED_ALLOCATION in has
    over_cores = Behaviour.SPREAD_OVER_CORES in has
    return Rules(
        strategies=frozenset(
            strategy for strategy, needed in STRATEGIES.items() if needed is None or needed in has
        ),
        ordered=ordered,
        numa=numa,
        numbers_in_refusal=Behaviour.NUMBERS_IN_REFUSAL in has,
        cores_rounded_up=Behaviour.UNCORE_ROUNDED_UP in has,
        socket_aligned=Behaviour.SOCKET_ALIGNED_DISTRIBUTION in has,
        distribution_ends=Behaviour.DISTRIBUTION_ENDS in has,
        combinations_kept=Behaviour.COMBINATIONS_KEPT in has,
        true_sizes=Behaviour.TRUE_SIZES in has,
        floor_from_hint=Behaviour.NUMA_FLOOR_FROM_HINT in has,
        uncore_best_fit=Behaviour.UNCORE_BEST_FIT in has,
        spread_over_cores=over_cores,
        steps=_steps(numa=numa, ordered=ordered, over_cores=over_cores),
    )


# Below, units are taken apart rather than asked for their fields, and loops count in locals: a
# machine of 384 CPUs has 192 cores, and to look at them is what an allocation costs.


def _by_free_cpus(units: Units, free: int) -> list[Unit]:
    """Those that have free CPUs, fewest free CPUs first, then lowest id."""
    if len(units) == 1:
        return list(units) if units[0].within & free else []
    return [unit for _, unit in _counted(units, free)]


def _counted(units: Units, free: int) -> list[tuple[int, Unit]]:
    """The same, each after the number of its free CPUs."""
    found = [((unit[1] & free).bit_count(), unit) for unit in units if unit[3] & free]
    if len(found) > 1:
        # The units come by ascending id and the sort is stable.
        found.sort(key=_COUNT)
    return found


_COUNT: Final = itemgetter(0)
#: The CPUs of a twin.
_TWO: Final = 2


class Accumulator:
    """CPUs being gathered: ``free`` may still be taken, ``need`` are still wanted. ``node``: the
    NUMA node that all of ``available`` lies in, where that is known."""

    __slots__ = (
        "_node",
        "_numa_first",
        "_rules",
        "_sockets_only",
        "_topology",
        "free",
        "need",
        "taken",
    )

    def __init__(
        self,
        topology: CPUTopology,
        available: int,
        cpus: int,
        rules: Rules,
        node: int | None = None,
    ) -> None:
        self._topology = topology
        self._node = node
        self._rules = rules
        self._sockets_only = not rules.numa
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
        if self.need < self._topology.smallest_numa_node:
            return
        free = self.free
        self._take_whole(
            node for node in self._sorted_numa_nodes(free) if node.mask & free == node.mask
        )

    def take_sockets(self) -> None:
        """Whole sockets whose number of free CPUs is the average size of a socket."""
        free, average = self.free, self._topology.cpus_per_socket
        if self._rules.true_sizes:
            self._take_whole(
                each for each in self._sorted_sockets(free) if each.mask & free == each.mask
            )
            return
        if self.need < average:
            # Only a socket smaller than the average could still be taken, and none such is free:
            # it cannot have that many free CPUs.
            return
        self._take_whole(
            socket
            for socket in self._sorted_sockets(free)
            if (socket.mask & free).bit_count() == average
        )

    def take_cores(self) -> None:
        """Whole cores whose number of free CPUs is the average size of a core."""
        if self._rules.true_sizes:
            self._take_true_cores()
            return
        free, need, average = self.free, self.need, self._topology.cpus_per_core
        if need < average:
            return
        taken = 0
        for units, twins in self._core_lists(free):
            # Free cores have equal numbers of free CPUs, so they go by id, as they come.
            if twins and average == _TWO:
                cores = lowest(twins.whole(free), need // _TWO)
                taken |= twins.cpus(cores)
                need -= _TWO * cores.bit_count()
            else:
                for _, mask, size, within in units:
                    if within & free and size <= need and (mask & free).bit_count() == average:
                        taken |= mask
                        need -= size
                        # A core that has that many free CPUs is not smaller.
                        if need < average:
                            break
            if need < average:
                break
        self.taken |= taken
        self.free = free & ~taken
        self.need = need

    def _take_true_cores(self) -> None:
        free = self.free
        self._take_whole(
            core
            for units, _ in self._core_lists(free)
            for core in _by_free_cpus(units, free)
            if core.mask & free == core.mask
        )

    def take_single_cpus(self) -> None:
        """CPUs one by one, core after core, those with the fewest free CPUs first."""
        free = self.free
        for units, twins in self._core_lists(free):
            if twins:
                self._take_single_twins(twins, free)
            else:
                self._take_singles(units, free)
            if self.need < 1:
                return

    def _take_single_twins(self, twins: Twins, free: int) -> None:
        halved = twins.halved(free)
        if halved:
            self.take(twins.cpus(lowest(halved, self.need)) & free)
            if self.need < 1:
                return
        whole = twins.whole(free)
        if whole and self.need > 1:
            cores = lowest(whole, self.need // _TWO)
            self.take(twins.cpus(cores))
            whole ^= cores
        if whole and self.need > 0:
            self._take(whole & -whole, 1)

    def _take_singles(self, units: Units, free: int) -> None:
        several = []
        for _, mask, _, within in units:
            if within & free:
                left = mask & free
                if left & left - 1:
                    several.append(left)
                    continue
                # No core has fewer free CPUs than one, so this one's turn is now.
                self._take(left, 1)
                if self.need < 1:
                    return
        several.sort(key=int.bit_count)
        for left in several:
            self._take_one_by_one(left)
            if self.need < 1:
                return

    def take_uncore_caches(self) -> None:
        """Whole uncore caches, then one that is partly used, if its free CPUs are just right."""
        free = self.free
        # The kubelet looks for whole caches again before each partly used one. Of a partly used
        # one it takes all that is missing or nothing, so it finds no other ones than at first.
        if self.need >= self._topology.cpus_per_uncore:
            self._take_whole(
                each for each in self._sorted_uncore_caches(free) if each.mask & free == each.mask
            )
            if self.need < 1:
                return
        for cache in self._sorted_uncore_caches(free):
            self._take_partial_uncore(cache)
            if self.need < 1:
                return

    def _take_partial_uncore(self, cache: Unit) -> None:
        free, need, rules = self.free, self.need, self._rules
        if rules.uncore_best_fit or rules.true_sizes:
            self._require_known_fill(cache)
        average = self._topology.cpus_per_core
        rounded_up = rules.cores_rounded_up
        number = -(-need // average) if rounded_up else need // average
        mask = 0
        for _, of_core, _, within in self._topology.cores_of_uncore[cache.id]:
            if within & free:
                if number < 1:
                    break
                number -= 1
                mask |= of_core & free
        odd = rounded_up and need % 2 == 1 and average > 1
        if odd and mask.bit_count() > need:
            mask ^= 1 << mask.bit_length() - 1
        if mask.bit_count() == need:
            self.take(mask)

    def _require_known_fill(self, cache: Unit) -> None:
        """Raise where a fix changes what is taken of a cache, and the model cannot tell how."""
        if self._rules.uncore_best_fit and (cache.mask & self.free).bit_count() >= self.need:
            raise NotModelled(
                f"{self.need} CPUs out of uncore cache {cache.id}: which of its cores a kubelet "
                f"with {Behaviour.UNCORE_BEST_FIT.title} takes is not known"
            )
        if self._rules.true_sizes and not self._topology.even_cores:
            raise NotModelled(
                f"part of uncore cache {cache.id} of a machine with uneven cores: what a kubelet "
                f"with {Behaviour.TRUE_SIZES.title} takes is not known"
            )

    def take_cpus_core_by_core(self) -> None:
        """One CPU of each core in turn, then the next one of each, socket after socket."""
        free = self.free
        for socket in self._sorted_sockets(free):
            cores = _by_free_cpus(self._topology.cores_of_socket[socket.id], free)
            left = [core.within & free for core in cores]
            while any(left) and self.need > 0:
                for at, mask in enumerate(left):
                    if mask and self.need > 0:
                        self._take(mask & -mask, 1)
                        left[at] = mask & (mask - 1)

    def take_cpus_by_number(self) -> None:
        """CPUs one by one, socket after socket, by their numbers."""
        free = self.free
        for socket in self._sorted_sockets(free):
            self._take_one_by_one(socket.mask & free)
            if self.need < 1:
                return

    # Up to 1.21: what is taken of an object are its free CPUs, not all it has.

    def take_sockets_by_id(self) -> None:
        """Whole free sockets by id, as long as another one is needed."""
        for socket in self._topology.sockets:
            size = self._topology.cpus_per_socket
            if (socket.mask & self.free).bit_count() == size <= self.need:
                self._take(socket.mask & self.free, size)

    def take_cores_of_fullest_sockets(self) -> None:
        """Whole free cores, first of the sockets with the fewest of them."""
        for cores in sorted(self.free_cores().values(), key=len):
            for core in cores:
                size = (core & self.free).bit_count()
                if 0 < size <= self.need:
                    self._take(core & self.free, size)

    def take_cpus_near_those_taken(self) -> None:
        """CPUs one by one, core after core, by all criteria in turn."""
        for _, core in sorted(self.ranked_cores()):
            self._take_one_by_one(core)

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

    def _take_one_by_one(self, left: int) -> None:
        while left and self.need > 0:
            cpu = left & -left
            left ^= cpu
            self._take(cpu, 1)

    def take(self, mask: int) -> None:
        """Take just these CPUs."""
        self._take(mask, mask.bit_count())

    def numa_nodes(self) -> tuple[list[int], list[int]]:
        """The NUMA nodes with free CPUs, as the kubelet sorts them, and how many each has."""
        free, topology = self.free, self._topology
        if self._numa_first:
            found = _counted(topology.numa_nodes, free)
        else:
            found = []
            for _, socket in _counted(topology.sockets, free):
                found += _counted(topology.numa_nodes_of_socket[socket[0]], free)
        return [unit[0] for _, unit in found], [count for count, _ in found]

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

    # The lists below stand still while their CPUs are taken: ``free`` are the free CPUs of the
    # moment at which the kubelet makes the list, before it takes the first object.

    def _sorted_numa_nodes(self, free: int) -> Iterator[Unit]:
        topology = self._topology
        if self._numa_first:
            yield from _by_free_cpus(topology.numa_nodes, free)
            return
        for socket in _by_free_cpus(topology.sockets, free):
            yield from _by_free_cpus(topology.numa_nodes_of_socket[socket.id], free)

    def _sorted_sockets(self, free: int) -> Iterator[Unit]:
        topology = self._topology
        if self._sockets_only or not self._numa_first:
            yield from _by_free_cpus(topology.sockets, free)
            return
        for node in _by_free_cpus(topology.numa_nodes, free):
            yield from _by_free_cpus(topology.sockets_of_numa[node.id], free)

    def _sorted_uncore_caches(self, free: int) -> Iterator[Unit]:
        for node in self._sorted_numa_nodes(free):
            yield from _by_free_cpus(self._topology.uncores_of_numa[node.id], free)

    def _core_lists(self, free: int) -> Iterable[tuple[Units, Twins | None]]:
        """Cores, list by list, and how those of a list pair their CPUs."""
        topology, node = self._topology, self._node
        if self._sockets_only or self._numa_first:
            return [
                (topology.cores_of_socket[socket.id], topology.twins_of_socket[socket.id])
                for socket in self._sorted_sockets(free)
            ]
        if node is not None and len(topology.sockets_of_numa[node]) == 1:
            return ((topology.cores_of_numa[node], topology.twins_of_numa[node]),)
        return [
            (topology.cores_of_numa[each.id], topology.twins_of_numa[each.id])
            for each in self._sorted_numa_nodes(free)
        ]


_Steps: TypeAlias = tuple[Callable[[Accumulator], None], ...]


def _steps(*, numa: bool, ordered: bool, over_cores: bool) -> dict[str, _Steps]:
    """What each strategy takes, in turn, until there is enough."""
    whole: _Steps = (Accumulator.take_sockets,)
    if numa:
        whole = (Accumulator.take_first_level, Accumulator.take_second_level)
    if not ordered:
        whole = (Accumulator.take_sockets_by_id,)
    cores: _Steps = (Accumulator.take_cores, Accumulator.take_single_cpus)
    if not ordered:
        cores = (Accumulator.take_cores_of_fullest_sockets, Accumulator.take_cpus_near_those_taken)
    spread = Accumulator.take_cpus_core_by_core if over_cores else Accumulator.take_cpus_by_number
    return {
        "packed": (*whole, *cores),
        "distributed": (*whole, *cores),
        "spread": (*whole, spread),
        "uncore": (*whole, Accumulator.take_uncore_caches, *cores),
    }
