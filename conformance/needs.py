"""What a scenario needs of a machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from conformance.discovered import first_core
from reference import CPUTopology


class DoesNotApply(Exception):
    """Raised by a scenario that finds out that it does not apply to its machine and release;
    ``str()`` says in one line what is missing. The verdict is then ``skip``."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a machine must have. ``free`` is CPUs beside the physical core of the lowest one, which
    scenarios reserve; ``smt`` is threads on *every* physical core; ``numa_cores`` is physical
    cores in *every* NUMA node; ``even`` that all cores, all NUMA nodes and all sockets have equally
    many CPUs; ``counted_once`` that the kubelet counts no CPU twice; ``caches_in_nodes`` that no
    uncore cache has several NUMA nodes and only a part of their socket: whole NUMA nodes are taken
    before whole caches; ``far_siblings`` that the CPUs of each socket, by rising number, come to
    every core once before they come to any core twice."""

    free: int = 1
    cores: int = 1
    smt: int = 1
    numa_nodes: int = 1
    sockets: int = 1
    numa_cores: int = 1
    uncore_caches: int = 1
    even: bool = False
    counted_once: bool = False
    caches_in_nodes: bool = False
    far_siblings: bool = False

    def missing(self, topology: CPUTopology) -> str:
        """What the machine lacks, in words; ``""`` if nothing."""
        if not topology.details:
            return "needs CPUs, the kubelet finds none on the machine"
        there, per_node = len(topology.details), map(len, topology.cores_of_numa.values())
        wanted = (
            ("CPUs beside its first core", self.free, there - len(first_core(topology))),
            ("physical cores", self.cores, topology.num_cores),
            ("threads on every core", self.smt, min(_sizes(topology, 2))),
            ("NUMA nodes with CPUs", self.numa_nodes, topology.num_numa_nodes),
            ("sockets", self.sockets, len({row[1] for row in topology.details.values()})),
            ("physical cores in every NUMA node", self.numa_cores, min(per_node, default=0)),
            ("uncore caches", self.uncore_caches, topology.num_uncore_caches),
        )
        for what, least, has in wanted:
            if has < least:
                return f"needs {least} {what}, the machine has {has}"
        counted = topology.num_cpus
        if (self.even or self.counted_once) and counted != there:
            return f"needs each CPU counted once, a kubelet counts {counted} here for {there}"
        if self.even and any(len(_sizes(topology, level)) > 1 for level in (0, 1, 2)):
            return "needs cores, NUMA nodes and sockets of one size, the machine's differ"
        if self.caches_in_nodes and not _caches_in_nodes(topology):
            return "needs uncore caches within one NUMA node or as large as a socket"
        if self.far_siblings and not _far_siblings(topology):
            return "needs CPUs numbered core by core before thread by thread"
        return ""


@lru_cache(maxsize=1024)
def _sizes(topology: CPUTopology, level: int) -> frozenset[int]:
    """The numbers of CPUs that NUMA nodes (0), sockets (1) or cores (2) have. Cached, because every
    scenario asks on every machine."""
    return frozenset(Counter(row[level] for row in topology.details.values()).values())


def _far_siblings(topology: CPUTopology) -> bool:
    for socket, cores in topology.cores_of_socket.items():
        first = [topology.details[cpu].core for cpu in topology.cpus_in_sockets(socket)]
        if len(set(first[: len(cores)])) < len(cores):
            return False
    return True


def _caches_in_nodes(topology: CPUTopology) -> bool:
    nodes, sockets = topology.numa_masks.values(), topology.socket_masks.values()
    return all(
        cache in sockets or any(not cache & ~node for node in nodes)
        for cache in topology.uncore_masks.values()
    )
