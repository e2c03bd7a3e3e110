"""What cAdvisor tells the kubelet of a machine, and what the CPU manager makes of it.

What belongs here: the facts, and the step from them to a CPU topology (``topology.Discover``).
What never does: how the facts are found (``discovery``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from reference.behaviours import Behaviour
from reference.cpuset import CPUSet
from reference.errors import DiscoveryError
from reference.machine.topology import CPUTopology
from reference.releases import NEWEST, Release, has

# A machine has hundreds of cores and caches, and frozen dataclasses take three times as long to
# make and to compare.


class Cache(NamedTuple):
    """A CPU cache; ``size`` in bytes, ``type`` as the kernel names it (``Unified``). ``id`` is 0
    where the kubelet does not read it: up to 1.22, and on s390x."""

    id: int
    size: int
    level: int
    type: str


class Core(NamedTuple):
    """A physical core of one node. ``core_id`` is the kernel's, unique in its package only;
    ``socket_id`` the package's, up to 1.18 the node's; ``thread_ids`` are its CPUs in the order
    they were found. On s390x ``book`` and ``drawer`` tell cores apart as well, as text."""

    core_id: int
    socket_id: int
    thread_ids: tuple[int, ...]
    caches: tuple[Cache, ...] = ()
    uncore_caches: tuple[Cache, ...] = ()
    book: str = ""
    drawer: str = ""


@dataclass(frozen=True, slots=True)
class NUMANode:
    """A NUMA node, which may have no core; up to 1.18 a package, by its ``physical id``. ``memory``
    in bytes, ``distances`` in the order of the kernel's nodes (from 1.26 on). ``huge_pages``: how
    much of the memory is huge pages of each size, by the name of the resource (from 1.19 on)."""

    node_id: int
    memory: int
    cores: tuple[Core, ...]
    caches: tuple[Cache, ...] = ()
    distances: tuple[int, ...] = ()
    huge_pages: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class MachineInfo:
    """What cAdvisor tells the kubelet, and what the kubelet reads beside it.

    ``num_cores`` is cAdvisor's name for the number of CPUs. Up to 1.18 it counts no physical cores
    and no sockets: ``None``. ``fault`` is the text with which cAdvisor gave up on the topology,
    ``""`` if it did not; the kubelet logs it and goes on with an empty one, of 0 CPUs, or of -1
    where ``/proc/cpuinfo`` was at fault.

    ``own_nodes``: from 1.16 to 1.19.8 the kubelet reads the CPUs of the NUMA nodes itself; ``None``
    where it does not, or where ``/sys/devices/system/node/online`` is missing. ``refusal`` is the
    text with which the kubelet ends before it has a CPU manager, under any policy: it could not
    make out those NUMA nodes, or a name in a node's ``hugepages`` folder made it panic.

    ``by_chance`` names, in words, what depends on Go's map order; the model then shows one of the
    possible outcomes, the same each time.
    """

    num_cores: int
    num_physical_cores: int | None
    num_sockets: int | None
    nodes: tuple[NUMANode, ...]
    fault: str = ""
    release: Release = field(default_factory=lambda: Release.parse(NEWEST))
    own_nodes: tuple[tuple[int, CPUSet], ...] | None = None
    refusal: str = ""
    by_chance: tuple[str, ...] = ()

    @property
    def numa_node_ids(self) -> tuple[int, ...]:
        """The NUMA nodes that the Topology Manager knows, ascending, those without CPUs too; none
        before 1.16."""
        if has(self.release, Behaviour.NUMA_NODES_FROM_CADVISOR):
            return tuple(sorted(node.node_id for node in self.nodes))
        return tuple(sorted(node for node, _ in self.own_nodes or ()))

    @property
    def huge_pages(self) -> Mapping[str, int]:
        """The bytes of huge pages of all NUMA nodes, by the name of the resource."""
        return sum((Counter(dict(node.huge_pages)) for node in self.nodes), Counter())

    def cpu_topology(self) -> CPUTopology:
        """``Discover``: what the CPU manager makes of it, made once.

        A core has the id of its lowest CPU (``getUniqueCoreID``); the id of its uncore cache
        (``getUncoreCacheID``) is its socket's where it has none, as always before 1.32. Before 1.16
        every CPU lies in NUMA node 0. A CPU that two nodes claim lies in the later one. Raises
        :class:`DiscoveryError`.
        """
        return self._topology

    @cached_property
    def _topology(self) -> CPUTopology:
        if self.refusal:
            raise DiscoveryError(self.refusal)
        if not self.num_cores:
            raise DiscoveryError("could not detect number of cpus")
        node_is_socket = not has(self.release, Behaviour.NUMA_NODES_FROM_CADVISOR)
        uncore_known = has(self.release, Behaviour.UNCORE_CACHES_KNOWN)
        cpus: dict[int, tuple[int, int, int, int]] = {}
        for node in self.nodes:
            for core in node.cores:
                if len(set(core.thread_ids)) != len(core.thread_ids):
                    raise DiscoveryError("cpus provided are not unique")
                socket = node.node_id if node_is_socket else core.socket_id
                known = uncore_known and core.uncore_caches
                uncore = core.uncore_caches[0].id if known else socket
                first = min(core.thread_ids)
                for cpu in core.thread_ids:
                    numa = self._own_node_of(cpu) if node_is_socket else node.node_id
                    cpus[cpu] = (numa, socket, first, uncore)
        return CPUTopology.of(
            cpus,
            num_cpus=self.num_cores,
            num_cores=sum(len(node.cores) for node in self.nodes),
            num_sockets=self._sockets(),
        )

    def _own_node_of(self, cpu: int) -> int:
        # Of several the kubelet takes the one that its random walk meets last.
        return max((node for node, cpus in self.own_nodes or () if cpu in cpus), default=0)

    def _sockets(self) -> int:
        if self.num_sockets is None or not has(self.release, Behaviour.SOCKETS_COUNTED_BY_ID):
            return len(self.nodes)
        return self.num_sockets
