"""Which CPUs the kubelet takes: topology, free CPUs and a number in, a set out.

What belongs here: the allocators of 1.22 and later, one function for each of the kubelet's, in its
order. What never does: which containers get CPUs (``policy_static``), where CPUs come from
(``machine``), the allocator up to 1.21 (``before_1_22``), or which sets another run might have
taken (``could_take``).

How it works: an accumulator starts with the free CPUs that the topology knows and with the number
needed. It takes whole NUMA nodes and sockets, then whole uncore caches and cores, then single CPUs;
wherever it can choose, it prefers the object with the fewest free CPUs and then the lowest id.
Taking an object takes *all* its CPUs, free or not, and lowers the need by their number; whether a
socket or core is free is judged by *average* sizes. On an uneven machine this hands out CPUs that
were not free, and so does the kubelet (kubernetes/kubernetes#124066, #140495), so it does here.

Sets of CPUs are ints here, a bit for each CPU. Lists of objects are made as they are walked, but by
``details`` as it was when the walk began, as the kubelet makes the whole list first.
Source: ``pkg/kubelet/cm/cpumanager/cpu_assignment.go``, 1.22 to 1.37.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from reference.behaviours import Behaviour
from reference.cpumanager import before_1_22
from reference.cpumanager.fast import distribution as fast
from reference.cpumanager.fast.balance import nearest
from reference.cpuset import CPUSet
from reference.errors import (
    AllocationError,
    AllocationHangs,
    NotEnoughCPUs,
    NothingFits,
    NotModelled,
)
from reference.golang.slices import Slice
from reference.machine.topology import CPUTopology, Unit, Units
from reference.releases import NEWEST, AnyRelease, has

#: The allocators, and the behaviour that a release must have for each.
STRATEGIES: Final = {
    "packed": None,
    "spread": Behaviour.CORE_SPREADING,
    "uncore": Behaviour.UNCORE_ALIGNMENT,
    "distributed": Behaviour.NUMA_DISTRIBUTION,
}

#: The most NUMA nodes whose every combination is tried; for more there is ``fast``.
FEW_NUMA_NODES: Final = 3


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

    ``align_by_socket`` is the policy option of that name, which is ignored here up to 1.36.
    ``hint_nodes`` is the number of NUMA nodes of the Topology Manager's hint, 0 without one; it
    counts only with ``Behaviour.NUMA_FLOOR_FROM_HINT``.

    Up to 1.21 the kubelet's answer depends on chance (:func:`is_determined`). The answer here is
    then one that it can give: that of a stable sort by all its criteria in turn. What a
    kubelet was seen to take is judged by :func:`reference.could_take`, and a model that follows
    a kubelet goes on with what was seen.

    Raises :class:`NotEnoughCPUs`; :class:`AllocationError` in general; :class:`AllocationHangs`
    where the kubelet would search for ever; :class:`NotModelled` for a strategy that the model does
    not know or the release does not have, and for a release or fix that is not known well enough.
    """
    _require_strategy(strategy, release)
    if group_size < 1:
        raise NotModelled(f"groups of {group_size} CPUs")
    if cpus < 1:
        return CPUSet()
    if not is_determined(release):
        taken = before_1_22.take_by_topology(topology, available.mask, cpus, release)
    elif strategy == "distributed":
        taken = take_by_topology_numa_distributed(
            topology,
            available.mask,
            cpus,
            group_size,
            release,
            align_by_socket=align_by_socket,
            hint_nodes=hint_nodes,
        )
    else:
        taken = take_by_topology_numa_packed(topology, available.mask, cpus, release, strategy)
    return CPUSet.of_mask(taken)


def is_determined(release: AnyRelease) -> bool:
    """Whether ``release`` always gives the same answer to the same question; before 1.22 Go's map
    order and its sort of contradicting criteria decide part of it."""
    return has(release, Behaviour.ORDERED_ALLOCATION)


def _require_strategy(strategy: str, release: AnyRelease) -> None:
    if strategy not in STRATEGIES:
        raise NotModelled(f"allocation strategy {strategy!r}: one of {', '.join(STRATEGIES)}")
    needed = STRATEGIES[strategy]
    if needed is not None and not has(release, needed):
        raise NotModelled(f"allocation strategy {strategy!r} is not in release {release}")
    if strategy != "packed" and not is_determined(release):
        raise NotModelled(f"allocation strategy {strategy!r} beside the allocator up to 1.21")


# -- numbers ---------------------------------------------------------------------------------------


def mean(xs: Collection[int]) -> float:
    """``mean``, rounded to thousandths."""
    return nearest(sum(xs) / len(xs) * 1000) / 1000


def standard_deviation(xs: Collection[int]) -> float:
    """``standardDeviation``, rounded to thousandths."""
    middle = mean(xs)
    squares = sum((x - middle) ** 2 for x in xs)
    return nearest(math.sqrt(squares / len(xs)) * 1000) / 1000


# -- NUMA nodes or sockets first -------------------------------------------------------------------


class NUMAFirst:
    """``numaFirst``: there are no more NUMA nodes than sockets, which are the smaller objects.

    As all ``numaOrSocketsFirstFuncs`` it takes whole objects of the larger kind and then of the
    smaller one, and knows the order of the objects that have free CPUs.
    """

    __slots__ = ("acc",)

    def __init__(self, acc: CPUAccumulator) -> None:
        self.acc = acc

    def take_full_first_level(self) -> None:
        """``takeFullFirstLevel``: whole NUMA nodes."""
        self.acc.take_full_numa_nodes()

    def take_full_second_level(self) -> None:
        """``takeFullSecondLevel``: whole sockets."""
        self.acc.take_full_sockets()

    def sort_available_numa_nodes(self) -> list[Unit]:
        """All of them, by their free CPUs."""
        return self.acc.sort(self.acc.topology.numa_nodes)

    def sort_available_sockets(self) -> list[Unit]:
        """NUMA node by NUMA node, those of each by their free CPUs."""
        return self.acc.nested(self.sort_available_numa_nodes(), self.acc.topology.sockets_of_numa)

    def cores(self) -> Iterator[Units]:
        """Lists of cores in the order of ``sortAvailableCores``, each by id: those of each
        socket."""
        cores = self.acc.topology.cores_of_socket
        return (cores[socket.id] for socket in self.sort_available_sockets())


class SocketsFirst:
    """``socketsFirst``: there are more NUMA nodes than sockets."""

    __slots__ = ("acc",)

    def __init__(self, acc: CPUAccumulator) -> None:
        self.acc = acc

    def take_full_first_level(self) -> None:
        """Whole sockets."""
        self.acc.take_full_sockets()

    def take_full_second_level(self) -> None:
        """Whole NUMA nodes."""
        self.acc.take_full_numa_nodes()

    def sort_available_numa_nodes(self) -> list[Unit]:
        """Socket by socket, those of each by their free CPUs."""
        return self.acc.nested(
            self.sort_available_sockets(), self.acc.topology.numa_nodes_of_socket
        )

    def sort_available_sockets(self) -> list[Unit]:
        """All of them, by their free CPUs."""
        return self.acc.sort(self.acc.topology.sockets)

    def cores(self) -> Iterator[Units]:
        """Those of each NUMA node."""
        cores = self.acc.topology.cores_of_numa
        return (cores[numa.id] for numa in self.sort_available_numa_nodes())


class SocketsOnly(SocketsFirst):
    """1.22, which takes no whole NUMA nodes."""

    __slots__ = ()

    def take_full_second_level(self) -> None:
        """Nothing."""

    def cores(self) -> Iterator[Units]:
        """Those of each socket."""
        cores = self.acc.topology.cores_of_socket
        return (cores[socket.id] for socket in self.sort_available_sockets())


NUMAOrSocketsFirst: TypeAlias = NUMAFirst | SocketsFirst


# -- the accumulator -------------------------------------------------------------------------------

_COUNT: Final = itemgetter(0)


class FreeCPUs:
    """What a ``cpuAccumulator`` finds free, and in which order.

    ``details``: the CPUs that may still be taken. ``spread``: single CPUs are taken by their
    numbers, not core by core (``CPUSortingStrategySpread``).
    """

    __slots__ = ("details", "numa_or_sockets_first", "release", "spread", "topology", "true_sizes")

    topology: CPUTopology
    release: AnyRelease
    details: int
    spread: bool
    true_sizes: bool
    numa_or_sockets_first: NUMAOrSocketsFirst

    def is_numa_node_free(self, numa: Unit) -> bool:
        """``isNUMANodeFree``."""
        return self.free_in(numa) == numa.size

    def is_socket_free(self, socket: Unit) -> bool:
        """``isSocketFree``: by the average size of a socket."""
        size = socket.size if self.true_sizes else self.topology.cpus_per_socket
        return self.free_in(socket) == size

    def is_uncore_cache_free(self, uncore: Unit) -> bool:
        """``isUncoreCacheFree``."""
        return self.free_in(uncore) == uncore.size

    def free_in(self, unit: Unit) -> int:
        """The number of free CPUs of an object."""
        return (unit.mask & self.details).bit_count()

    def free_numa_nodes(self) -> list[Unit]:
        """``freeNUMANodes``."""
        return [numa for numa in self.sort_available_numa_nodes() if self.is_numa_node_free(numa)]

    def free_sockets(self) -> list[Unit]:
        """``freeSockets``."""
        return [socket for socket in self.sort_available_sockets() if self.is_socket_free(socket)]

    def free_uncore_cache(self) -> list[Unit]:
        """``freeUncoreCache``."""
        caches = self.sort_available_uncore_caches()
        return [uncore for uncore in caches if self.is_uncore_cache_free(uncore)]

    def free_cores(self) -> Iterator[Unit]:
        """``freeCores`` and ``isCoreFree``: the cores that have as many free CPUs as a core has on
        average."""
        details, average = self.details, self.topology.cpus_per_core
        for cores in self.numa_or_sockets_first.cores():
            # Without true sizes free cores have equal numbers of free CPUs, and so go by id.
            for core in self.sort(cores, details) if self.true_sizes else cores:
                size = core.size if self.true_sizes else average
                if core.within & details and (core.mask & details).bit_count() == size:
                    yield core

    def free_cpus(self) -> Iterator[int]:
        """``freeCPUs``: each a set of one CPU."""
        if not self.spread:
            return self.sort_available_cpus_packed()
        if has(self.release, Behaviour.SPREAD_OVER_CORES):
            return self._sort_available_cpus_core_by_core()
        return self.sort_available_cpus_spread()

    def sort(self, units: Units, details: int | None = None) -> list[Unit]:
        """``sort``: those that have free CPUs, fewest free CPUs first, then lowest id.
        ``details``: the free CPUs, where those of an earlier moment are meant."""
        if details is None:
            details = self.details
        if len(units) == 1:
            return [unit for unit in units if unit.within & details]
        # The units come by ascending id, and the sort is stable.
        counted = [
            ((unit.mask & details).bit_count(), unit) for unit in units if unit.within & details
        ]
        counted.sort(key=_COUNT)
        return [unit for _, unit in counted]

    def nested(self, outer: Iterable[Unit], inside: Mapping[int, Units]) -> list[Unit]:
        """The objects inside each of ``outer``, sorted for each."""
        return [unit for each in outer for unit in self.sort(inside[each.id])]

    def sort_available_numa_nodes(self) -> list[Unit]:
        """``sortAvailableNUMANodes``."""
        return self.numa_or_sockets_first.sort_available_numa_nodes()

    def sort_available_sockets(self) -> list[Unit]:
        """``sortAvailableSockets``."""
        return self.numa_or_sockets_first.sort_available_sockets()

    def sort_available_uncore_caches(self) -> list[Unit]:
        """``sortAvailableUncoreCaches``: NUMA node by NUMA node."""
        return self.nested(self.sort_available_numa_nodes(), self.topology.uncores_of_numa)

    def sort_available_cores(self) -> Iterator[Unit]:
        """``sortAvailableCores``: socket by socket or NUMA node by NUMA node."""
        details = self.details
        for cores in self.numa_or_sockets_first.cores():
            yield from self.sort(cores, details)

    def sort_available_cpus_packed(self) -> Iterator[int]:
        """``sortAvailableCPUsPacked`` (``sortCPUsPacked``): core by core."""
        details = self.details
        for core in self.sort_available_cores():
            yield from each_cpu(core.mask & details)

    def sort_available_cpus_spread(self) -> Iterator[int]:
        """``sortAvailableCPUsSpread`` (``sortCPUsSpread``): socket by socket, by number."""
        details = self.details
        for socket in self.sort_available_sockets():
            yield from each_cpu(socket.mask & details)

    def _sort_available_cpus_core_by_core(self) -> Iterator[int]:
        """With ``Behaviour.SPREAD_OVER_CORES``: socket by socket, one CPU of each core in turn."""
        details = self.details
        for socket in self.sort_available_sockets():
            cores = self.sort(self.topology.cores_of_socket[socket.id], details)
            left = [list(each_cpu(core.within & details)) for core in cores]
            for turn in range(max(map(len, left), default=0)):
                yield from (cpus[turn] for cpus in left if turn < len(cpus))


class CPUAccumulator(FreeCPUs):
    """``cpuAccumulator`` (``newCPUAccumulator``): CPUs being taken.

    ``num_cpus_needed``: how many are still wanted. ``result``: those taken so far.
    """

    __slots__ = ("num_cpus_needed", "result")

    def __init__(
        self,
        topology: CPUTopology,
        available: int,
        num_cpus: int,
        release: AnyRelease,
        *,
        spread: bool = False,
    ) -> None:
        self.topology = topology
        self.release = release
        self.details = available & topology.mask
        self.num_cpus_needed = num_cpus
        self.result = 0
        self.spread = spread
        self.true_sizes = has(release, Behaviour.TRUE_SIZES)
        if not has(release, Behaviour.NUMA_ALLOCATION):
            self.numa_or_sockets_first = SocketsOnly(self)
        elif topology.num_sockets >= topology.num_numa_nodes:
            self.numa_or_sockets_first = NUMAFirst(self)
        else:
            self.numa_or_sockets_first = SocketsFirst(self)

    def take(self, cpus: int) -> None:
        """``take``."""
        self.result |= cpus
        self.details &= ~cpus
        self.num_cpus_needed -= cpus.bit_count()

    def take_full_numa_nodes(self) -> None:
        """``takeFullNUMANodes``."""
        if not self.needs_at_least(self.topology.smallest_numa_node):
            return
        for numa in self.free_numa_nodes():
            if self.needs_at_least(numa.size):
                self.take(numa.mask)

    def take_full_sockets(self) -> None:
        """``takeFullSockets``."""
        if not self.needs_at_least(self._smallest(self.topology.cpus_per_socket)):
            return
        for socket in self.free_sockets():
            if self.needs_at_least(socket.size):
                self.take(socket.mask)

    def take_full_uncore(self) -> None:
        """``takeFullUncore``."""
        for uncore in self.free_uncore_cache():
            if self.needs_at_least(uncore.size):
                self.take(uncore.mask)

    def take_partial_uncore(self, uncore: Unit) -> None:
        """``takePartialUncore``: the free CPUs of as many of its cores as are needed
        (``CoresNeededInUncoreCache``), if they are just as many as are still wanted."""
        self._require_known_fill(uncore)
        needed, per_core = self.num_cpus_needed, self.topology.cpus_per_core
        rounded_up = has(self.release, Behaviour.UNCORE_ROUNDED_UP)
        num_cores_needed = -(-needed // per_core) if rounded_up else needed // per_core
        cores = [
            core for core in self.topology.cores_of_uncore[uncore.id] if core.within & self.details
        ]
        free_cpus = 0
        for core in cores[:num_cores_needed]:
            free_cpus |= core.mask & self.details
        if rounded_up and needed % 2 and per_core > 1 and free_cpus.bit_count() > needed:
            free_cpus ^= 1 << free_cpus.bit_length() - 1
        if free_cpus.bit_count() == needed:
            self.take(free_cpus)

    def _require_known_fill(self, uncore: Unit) -> None:
        """Raise where a fix changes what is taken of a cache, and the model cannot tell how."""
        best_fit = has(self.release, Behaviour.UNCORE_BEST_FIT)
        if best_fit and self.free_in(uncore) >= self.num_cpus_needed:
            raise NotModelled(
                f"{self.num_cpus_needed} CPUs out of uncore cache {uncore.id}: which of its cores "
                f"a kubelet with {Behaviour.UNCORE_BEST_FIT.title} takes is not known"
            )

    def take_uncore_cache(self) -> None:
        """``takeUncoreCache``: whole uncore caches, then one that is partly used, if its free CPUs
        are just right."""
        uncores = self.sort_available_uncore_caches()
        if has(self.release, Behaviour.WHOLE_UNCORES_FIRST):
            for uncore in uncores:
                if self.is_uncore_cache_free(uncore) and self.needs_at_least(uncore.size):
                    self.take(uncore.mask)
            for uncore in uncores:
                if self.is_satisfied():
                    return
                self.take_partial_uncore(uncore)
            return
        for uncore in uncores:
            if self.needs_at_least(self.topology.cpus_per_uncore):
                self.take_full_uncore()
            if self.is_satisfied():
                return
            self.take_partial_uncore(uncore)
            if self.is_satisfied():
                return

    def take_full_cores(self) -> None:
        """``takeFullCores``."""
        smallest = self._smallest(self.topology.cpus_per_core)
        if not self.needs_at_least(smallest):
            return
        for core in self.free_cores():
            if self.needs_at_least(core.size):
                self.take(core.mask)
                if not self.needs_at_least(smallest):
                    return

    def _smallest(self, average: int) -> int:
        """The fewest CPUs of a free socket or core; by average sizes a free one has the
        ``average``."""
        return 1 if self.true_sizes else average

    def take_remaining_cpus(self) -> None:
        """``takeRemainingCPUs``."""
        for cpu in self.free_cpus():
            self.take(cpu)
            if self.is_satisfied():
                return

    def range_numa_nodes_needed_to_satisfy(self, cpu_group_size: int) -> tuple[int, int]:
        """``rangeNUMANodesNeededToSatisfy``: the fewest and the most NUMA nodes to share."""
        topology = self.topology
        available = sum(1 for numa in topology.numa_nodes if numa.mask & self.details)
        groups = _ceil(len(topology.details), cpu_group_size)
        groups_per_numa_node = _ceil(groups, topology.num_numa_nodes)
        groups_needed = _ceil(self.num_cpus_needed, cpu_group_size)
        return _ceil(groups_needed, groups_per_numa_node), min(groups_needed, available)

    def needs_at_least(self, number: int) -> bool:
        """``needsAtLeast``."""
        return self.num_cpus_needed >= number

    def is_satisfied(self) -> bool:
        """``isSatisfied``."""
        return self.num_cpus_needed < 1

    def is_failed(self) -> bool:
        """``isFailed``."""
        return self.num_cpus_needed > self.details.bit_count()


def iterate_combinations(n: Sequence[int], k: int) -> Iterator[Slice]:
    """``iterateCombinations``: all of ``k`` out of ``n``. They share memory as Go slices do, so one
    that is kept may be overwritten while the walk goes on (kubernetes/kubernetes#141237)."""

    def helper(k: int, start: int, accum: Slice) -> Iterator[Slice]:
        if k == 0:
            yield accum
            return
        for at in range(start, len(n) - k + 1):
            yield from helper(k - 1, at + 1, accum.append(n[at]))

    if k >= 1:
        yield from helper(k, 0, Slice())


# -- the packed allocator --------------------------------------------------------------------------


def take_by_topology_numa_packed(
    topology: CPUTopology,
    available: int,
    num_cpus: int,
    release: AnyRelease,
    strategy: str = "packed",
) -> int:
    """``takeByTopologyNUMAPacked``. Raises :class:`NotEnoughCPUs`, :class:`NothingFits`."""
    acc = CPUAccumulator(topology, available, num_cpus, release, spread=strategy == "spread")
    if acc.is_satisfied():
        return acc.result
    _require_enough(acc, available)
    acc.numa_or_sockets_first.take_full_first_level()
    if acc.is_satisfied():
        return acc.result
    acc.numa_or_sockets_first.take_full_second_level()
    if acc.is_satisfied():
        return acc.result
    if strategy == "uncore":
        acc.take_uncore_cache()
        if acc.is_satisfied():
            return acc.result
    if strategy != "spread":
        acc.take_full_cores()
        if acc.is_satisfied():
            return acc.result
    acc.take_remaining_cpus()
    if acc.is_satisfied():
        return acc.result
    raise NothingFits


def _require_enough(acc: CPUAccumulator, available: int) -> None:
    if acc.is_failed():
        with_numbers = has(acc.release, Behaviour.NUMBERS_IN_REFUSAL)
        raise NotEnoughCPUs(acc.num_cpus_needed, available.bit_count(), with_numbers=with_numbers)


# -- the distributed allocator ---------------------------------------------------------------------


#: A combination of NUMA nodes, and those of them that give a group more in turn.
Shares: TypeAlias = tuple[Sequence[int], Sequence[int]]


class Request(NamedTuple):
    """What NUMA nodes are to share: ``num_cpus`` in groups of ``cpu_group_size`` CPUs.

    ``sockets``: the NUMA nodes of each socket where nodes of one socket are preferred
    (align-by-socket, 1.37), else ``None``. A node that cannot give its even share then lowers the
    share instead of ruling the combination out. ``ends``: subsets are judged by whole groups, so
    dealing ends. ``kept``: the best combination is not overwritten.
    """

    num_cpus: int
    cpu_group_size: int
    sockets: Sequence[Collection[int]] | None = None
    ends: bool = False
    kept: bool = False


def take_by_topology_numa_distributed(
    topology: CPUTopology,
    available: int,
    num_cpus: int,
    cpu_group_size: int,
    release: AnyRelease,
    *,
    align_by_socket: bool = False,
    hint_nodes: int = 0,
) -> int:
    """``takeByTopologyNUMADistributed``: CPUs spread evenly over as few NUMA nodes as can do it.

    For the smallest number of nodes that can do it, the combination of that many nodes is taken
    that leaves the free CPUs of all nodes most even; the remainder of the division is dealt out in
    groups, over the best subset of the combination. Of equals, the first wins.
    """
    if num_cpus % cpu_group_size:
        return take_by_topology_numa_packed(topology, available, num_cpus, release)
    acc = CPUAccumulator(topology, available, num_cpus, release)
    _require_enough(acc, available)
    aligned = align_by_socket and has(release, Behaviour.SOCKET_ALIGNED_DISTRIBUTION)
    request = Request(
        num_cpus,
        cpu_group_size,
        topology.numa_nodes_inside_sockets if aligned else None,
        ends=has(release, Behaviour.DISTRIBUTION_ENDS),
        kept=has(release, Behaviour.COMBINATIONS_KEPT),
    )
    shares = _shares(acc, request, hint_nodes)
    if shares is None:
        return take_by_topology_numa_packed(topology, available, num_cpus, release)
    combo, remainder_combo = shares

    def give(numa: int, number: int) -> None:
        inside = acc.details & topology.numa_masks[numa]
        try:
            acc.take(take_by_topology_numa_packed(topology, inside, number, release))
        except AllocationError:
            return  # ignored, as in the kubelet; missing CPUs are an error at the end

    def left(numa: int) -> int:
        return (acc.details & topology.numa_masks[numa]).bit_count()

    distribution = _even_share(num_cpus, len(combo), cpu_group_size)
    if has(release, Behaviour.SOCKET_ALIGNED_DISTRIBUTION):
        fitting = (left(numa) // cpu_group_size * cpu_group_size for numa in combo)
        distribution = min(distribution, *fitting)
    for numa in combo:
        give(numa, distribution)
    remainder = num_cpus - distribution * len(combo)
    for numa in deal(remainder_combo, remainder, cpu_group_size, left):
        give(numa, cpu_group_size)
    error = accounting_error(acc.num_cpus_needed)
    if error:
        raise error
    return acc.result


def _shares(acc: CPUAccumulator, request: Request, hint_nodes: int) -> Shares | None:
    """How NUMA nodes share a request; ``None`` where they cannot."""
    numas = acc.sort_available_numa_nodes()
    if len(numas) == 1:
        return [numas[0].id], ()
    free = {numa.id: acc.free_in(numa) for numa in numas}
    order = [numa.id for numa in numas]
    fewest, most = acc.range_numa_nodes_needed_to_satisfy(request.cpu_group_size)
    if has(acc.release, Behaviour.NUMA_FLOOR_FROM_HINT) and fewest < hint_nodes <= most:
        fewest = hint_nodes
    combinations = (_best_combination(order, free, k, request) for k in range(fewest, most + 1))
    return next((found for found in combinations if found is not None), None)


def _best_combination(
    numas: Sequence[int], free: Mapping[int, int], k: int, request: Request
) -> Shares | None:
    """:func:`best_combination`, or for many NUMA nodes ``fast``, whose answer is the same.
    ``numas`` has a node twice that lies in two sockets, which only the plain search knows."""
    if len(numas) <= FEW_NUMA_NODES or len(free) < len(numas):
        return best_combination(numas, free, k, request)
    return fast.best_combination(numas, free, k, *request)


def best_combination(
    numas: Sequence[int], free: Mapping[int, int], k: int, request: Request
) -> Shares | None:
    """The combination of ``k`` NUMA nodes that leaves all of them most even; ``None`` where none
    can share the request.

    ``numas``: as the kubelet sorts them; ``free``: the number of free CPUs of each. Raises
    :class:`AllocationHangs` where the search meets a subset over which dealing never ends
    (kubernetes/kubernetes#140730), even where another combination is better.
    """
    best_balance = math.inf
    best_in_one_socket = False
    best: tuple[Slice, Slice | None] | None = None
    for each in iterate_combinations(numas, k):
        if best_balance == 0 and (request.sockets is None or best_in_one_socket):
            break
        combo = each.items()
        distribution = _distribution(combo, free, request)
        if distribution is None:
            continue
        left = dict(free)
        for numa in combo:
            left[numa] -= distribution
        remainder = request.num_cpus - distribution * len(combo)
        balance, subset = _best_remainder(combo, left, remainder, request)
        inside = any(set(combo) <= set(socket) for socket in request.sockets or ())
        if inside if inside != best_in_one_socket else balance < best_balance:
            best_balance, best_in_one_socket = balance, inside
            best = Slice(combo, k) if request.kept else each, subset
    if best is None:
        return None
    chosen, remainder_combo = best
    return chosen.items(), remainder_combo.items() if remainder_combo else ()


def _distribution(combo: Sequence[int], free: Mapping[int, int], request: Request) -> int | None:
    """The even share of each NUMA node; ``None`` where the nodes cannot share the request."""
    group = request.cpu_group_size
    if sum(free[numa] for numa in set(combo)) < request.num_cpus:
        return None
    if group * sum(free[numa] // group for numa in combo) < request.num_cpus:
        return None
    distribution = _even_share(request.num_cpus, len(combo), group)
    if request.sockets is not None:
        distribution = min(distribution, *(free[numa] // group * group for numa in combo))
    return None if any(free[numa] < distribution for numa in combo) else distribution


def _best_remainder(
    combo: Sequence[int], left: Mapping[int, int], remainder: int, request: Request
) -> tuple[float, Slice | None]:
    """The best balance that dealing out the remainder can leave, and the subset of the combination
    that makes for it. ``left``: free CPUs once each node has given its even share."""
    if remainder == 0:
        return standard_deviation(left.values()), None
    group = request.cpu_group_size
    best_balance, best = math.inf, None
    able = [numa for numa in combo if left[numa] >= group]
    for k in range(len(able), 0, -1):
        for each in iterate_combinations(able, k):
            subset = each.items()
            size = group if request.ends else 1
            if sum(left[numa] // size for numa in subset) < remainder // size:
                continue
            after = dict(left)
            for numa in deal(subset, remainder, group, after.__getitem__):
                after[numa] -= group
            balance = standard_deviation(after.values())
            if balance < best_balance:
                best_balance, best = balance, Slice(subset, k) if request.kept else each
    return best_balance, best


def deal(
    numas: Sequence[int], remainder: int, group: int, left: Callable[[int], int]
) -> Iterator[int]:
    """The NUMA nodes in the order in which they give a group each, until the remainder is dealt
    out. A node with less than a group ``left``, asked when its turn comes, is skipped. Raises
    :class:`AllocationHangs` where a whole turn gives nothing."""
    while remainder > 0:
        before = remainder
        for numa in numas:
            if remainder == 0:
                break
            if left(numa) >= group:
                yield numa
                remainder -= group
        if remainder == before:
            raise AllocationHangs(fast.endless_text(remainder, group))


def accounting_error(need: int) -> AllocationError | None:
    """The error where the kubelet took more or fewer CPUs than it had to; ``None`` otherwise."""
    if not need:
        return None
    which = "not enough" if need > 0 else "too many"
    return AllocationError(f"accounting error, {which} CPUs allocated, remaining: {need}")


def _even_share(num_cpus: int, nodes: int, group: int) -> int:
    return num_cpus // nodes // group * group


def each_cpu(mask: int) -> Iterator[int]:
    """Each CPU of a set, as a set of one."""
    while mask:
        cpu = mask & -mask
        yield cpu
        mask ^= cpu


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)
