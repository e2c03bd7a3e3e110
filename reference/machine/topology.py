"""The CPU topology, as the kubelet's CPU manager holds it.

What belongs here: which CPU lies where, and the counts the kubelet derives from that. What never
does: how the machine is read (``discovery``), or which CPUs are free (``cpu_assignment``).

The kubelet keeps a table from CPU to (NUMA node, socket, core, uncore cache) and filters it again
for every question. Here each object is an int mask made once, since a topology never changes and
every comparison of the suite asks it thousands of questions. Sizes called *average* are the
kubelet's own integer divisions, which are wrong for uneven machines in the same way as there.
Source: ``pkg/kubelet/cm/cpumanager/topology/topology.go``, 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from reference.cpuset import CPUSet


class Place(NamedTuple):
    """Where a CPU lies: the ids of its NUMA node, socket, core and uncore cache."""

    numa: int
    socket: int
    core: int
    uncore: int


class Unit(NamedTuple):
    """A NUMA node, socket, core or uncore cache below another one.

    ``mask`` is all its CPUs and ``size`` their number; ``within`` those that also belong to the
    object it is listed under, which on ordinary machines are the same.
    """

    id: int
    mask: int
    size: int
    within: int


Units: TypeAlias = tuple[Unit, ...]


@dataclass(frozen=True)
class CPUTopology:
    """``CPUTopology``: a machine's CPUs, immutable. Make one with :meth:`of` or by discovery.

    ``cpus_per_core`` is ``CPUsPerCore``, ``cpus_per_socket`` ``CPUsPerSocket``, ``cpus_per_uncore``
    ``CPUsPerUncore``. ``num_cpus``, ``num_cores`` and ``num_sockets`` are what
    cAdvisor reports, which on odd machines is not what the table holds; ``num_numa_nodes`` counts
    nodes that have CPUs. The ``*_masks`` map an id, ascending, to the mask of its CPUs."""

    details: Mapping[int, Place]
    num_cpus: int
    num_cores: int
    num_sockets: int
    mask: int = field(init=False, repr=False, compare=False)
    numa_masks: Mapping[int, int] = field(init=False, repr=False, compare=False)
    socket_masks: Mapping[int, int] = field(init=False, repr=False, compare=False)
    core_masks: Mapping[int, int] = field(init=False, repr=False, compare=False)
    uncore_masks: Mapping[int, int] = field(init=False, repr=False, compare=False)
    #: How many NUMA nodes have CPUs, and how many CPUs the smallest of them has.
    num_numa_nodes: int = field(init=False, repr=False, compare=False)
    smallest_numa_node: int = field(init=False, repr=False, compare=False)
    #: Average numbers of CPUs, rounded down; 0 without any such object.
    cpus_per_core: int = field(init=False, repr=False, compare=False)
    cpus_per_socket: int = field(init=False, repr=False, compare=False)
    cpus_per_uncore: int = field(init=False, repr=False, compare=False)
    #: Units by the ids of what they are listed under, ascending: what the allocator walks.
    numa_nodes: Units = field(init=False, repr=False, compare=False)
    sockets: Units = field(init=False, repr=False, compare=False)
    sockets_of_numa: Mapping[int, Units] = field(init=False, repr=False, compare=False)
    numa_nodes_of_socket: Mapping[int, Units] = field(init=False, repr=False, compare=False)
    cores_of_numa: Mapping[int, Units] = field(init=False, repr=False, compare=False)
    cores_of_socket: Mapping[int, Units] = field(init=False, repr=False, compare=False)
    uncores_of_numa: Mapping[int, Units] = field(init=False, repr=False, compare=False)
    cores_of_uncore: Mapping[int, Units] = field(init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        cpus: Mapping[int, tuple[int, int, int, int]],
        *,
        num_cpus: int | None = None,
        num_cores: int | None = None,
        num_sockets: int | None = None,
    ) -> CPUTopology:
        """The topology of ``{cpu: (numa, socket, core, uncore)}``; counts follow from it unless
        they are given."""
        details = {cpu: Place(*cpus[cpu]) for cpu in sorted(cpus)}
        return cls(
            MappingProxyType(details),
            len(details) if num_cpus is None else num_cpus,
            len({place.core for place in details.values()}) if num_cores is None else num_cores,
            len({place.socket for place in details.values()})
            if num_sockets is None
            else num_sockets,
        )

    def __post_init__(self) -> None:
        masks = [_masks(self.details, column) for column in range(4)]
        numa, socket, core, uncore = masks
        everything = 0
        for mask in numa.values():
            everything |= mask
        self._set("mask", everything)
        for name, column in zip(("numa", "socket", "core", "uncore"), masks, strict=True):
            self._set(f"{name}_masks", MappingProxyType(column))
        self._set("num_numa_nodes", len(numa))
        for name, number in (
            ("core", self.num_cores),
            ("socket", self.num_sockets),
            ("uncore", len(uncore)),
        ):
            self._set(f"cpus_per_{name}", self.num_cpus // number if number else 0)
        self._set("numa_nodes", _units(numa, everything))
        self._set(
            "smallest_numa_node", min((mask.bit_count() for mask in numa.values()), default=0)
        )
        self._set("sockets", _units(socket, everything))
        self._set("sockets_of_numa", _nested(socket, numa))
        self._set("numa_nodes_of_socket", _nested(numa, socket))
        self._set("cores_of_numa", _nested(core, numa))
        self._set("cores_of_socket", _nested(core, socket))
        self._set("uncores_of_numa", _nested(uncore, numa))
        self._set("cores_of_uncore", _nested(core, uncore))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash((self.num_cpus, self.num_cores, self.num_sockets, self.mask))

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping proxy cannot be pickled; workers of a parallel run get the plain table.
        counts = (self.num_cpus, self.num_cores, self.num_sockets)
        return _rebuild, (dict(self.details), *counts)

    @property
    def cpus(self) -> CPUSet:
        return CPUSet.of_mask(self.mask)

    @property
    def num_uncore_caches(self) -> int:
        """Number of distinct uncore cache ids."""
        return len(self.uncore_masks)

    @property
    def even_cores(self) -> bool:
        """Whether every core has as many CPUs as the average says."""
        size = self.cpus_per_core
        return all(mask.bit_count() == size for mask in self.core_masks.values())

    def cpus_in_numa_nodes(self, *ids: int) -> CPUSet:
        """``CPUsInNUMANodes``: the CPUs of these; an unknown id has none."""
        return _union(self.numa_masks, ids)

    def cpus_in_sockets(self, *ids: int) -> CPUSet:
        """``CPUsInSockets``: the CPUs of these; an unknown id has none."""
        return _union(self.socket_masks, ids)

    def cpus_in_cores(self, *ids: int) -> CPUSet:
        """``CPUsInCores``: the CPUs of these; an unknown id has none."""
        return _union(self.core_masks, ids)

    def cpus_in_uncore_caches(self, *ids: int) -> CPUSet:
        """``CPUsInUncoreCaches``: the CPUs of these; an unknown id has none."""
        return _union(self.uncore_masks, ids)

    def numa_node_ids(self, cpus: CPUSet) -> list[int]:
        """``KeepOnly(cpus).NUMANodes()``: the NUMA nodes of these CPUs, ascending."""
        return _owners(self.numa_masks, cpus)

    def socket_ids(self, cpus: CPUSet) -> list[int]:
        """``KeepOnly(cpus).Sockets()``: the sockets of these CPUs, ascending."""
        return _owners(self.socket_masks, cpus)

    def core_ids(self, cpus: CPUSet) -> list[int]:
        """``KeepOnly(cpus).Cores()``: the physical cores of these CPUs, ascending."""
        return _owners(self.core_masks, cpus)

    def uncore_cache_ids(self, cpus: CPUSet) -> list[int]:
        """``KeepOnly(cpus).UncoreCaches()``: the uncore caches of these CPUs, ascending."""
        return _owners(self.uncore_masks, cpus)

    @property
    def numa_nodes_inside_sockets(self) -> list[frozenset[int]]:
        """The NUMA nodes that lie in one socket, for each socket (``AreNUMANodesInSameSocket``)."""
        return [
            frozenset(numa for numa, cpus in self.numa_masks.items() if cpus & ~socket == 0)
            for socket in self.socket_masks.values()
        ]

    def with_siblings(self, cpus: CPUSet) -> CPUSet:
        """``cpus`` and every CPU that shares a core with one of them."""
        mask = 0
        for core in self.core_masks.values():
            if core & cpus.mask:
                mask |= core
        return CPUSet.of_mask(mask)


def _rebuild(details: Mapping[int, Place], cpus: int, cores: int, sockets: int) -> CPUTopology:
    return CPUTopology.of(details, num_cpus=cpus, num_cores=cores, num_sockets=sockets)


def _masks(details: Mapping[int, Place], column: int) -> dict[int, int]:
    masks: dict[int, int] = {}
    for cpu, place in details.items():
        owner = place[column]
        masks[owner] = masks.get(owner, 0) | 1 << cpu
    return {owner: masks[owner] for owner in sorted(masks)}


def _units(masks: Mapping[int, int], parent: int) -> Units:
    return tuple(
        Unit(owner, mask, mask.bit_count(), mask & parent)
        for owner, mask in masks.items()
        if mask & parent
    )


def _nested(masks: Mapping[int, int], parents: Mapping[int, int]) -> dict[int, Units]:
    return {parent: _units(masks, mask) for parent, mask in parents.items()}


def _owners(masks: Mapping[int, int], cpus: CPUSet) -> list[int]:
    return [owner for owner, mask in masks.items() if mask & cpus.mask]


def _union(masks: Mapping[int, int], ids: Iterable[int]) -> CPUSet:
    mask = 0
    for owner in ids:
        mask |= masks.get(owner, 0)
    return CPUSet.of_mask(mask)
