"""What a scenario is, and the registry of them.

A scenario is one promise: an id, a fact in the present tense, where that fact is promised, and a
function that drives a node and states the promise in words. The function is written for any
machine that has what the scenario ``needs``; it reads CPU numbers off the machine's topology and
never knows them beforehand, unless the scenario names its own machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from conformance.discovered import first_core
from conformance.subject import Capability
from reference import CPUTopology

if TYPE_CHECKING:
    from conformance.lockstep import LockstepNode

Body = Callable[["LockstepNode"], None]

_ID: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*")


class Level(Enum):
    """Whether a conformant node must keep the promise, or it is told apart but not required."""

    CORE = "core"
    EXTENDED = "extended"


@dataclass(frozen=True, slots=True)
class Source:
    """Where the promise is made: a document, KEP, issue or source file, with its address."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What a machine must have. ``free`` is CPUs beside the physical core of the lowest one, which
    scenarios reserve; ``smt`` is threads on *every* physical core; ``numa_cores`` is physical
    cores in *every* NUMA node; ``even`` that all cores, all NUMA nodes and all sockets have equally
    many CPUs; ``caches_in_nodes`` that no uncore cache has several NUMA nodes and only a part of
    their socket: whole NUMA nodes are taken before whole caches; ``far_siblings`` that the CPUs of
    each socket, by rising number, come to every core once before they come to any core
    twice."""

    free: int = 1
    cores: int = 1
    smt: int = 1
    numa_nodes: int = 1
    sockets: int = 1
    numa_cores: int = 1
    uncore_caches: int = 1
    even: bool = False
    caches_in_nodes: bool = False
    far_siblings: bool = False

    def missing(self, topology: CPUTopology) -> str:
        """What the machine lacks, in words; ``""`` if nothing."""
        if not topology.details:
            return "needs CPUs, the kubelet finds none on the machine"
        wanted = (
            ("CPUs beside its first core", self.free, _free(topology)),
            ("physical cores", self.cores, topology.num_cores),
            ("threads on every core", self.smt, _smallest(topology, 2)),
            ("NUMA nodes with CPUs", self.numa_nodes, topology.num_numa_nodes),
            ("sockets", self.sockets, len({row[1] for row in topology.details.values()})),
            ("physical cores in every NUMA node", self.numa_cores, _fewest_cores(topology)),
            ("uncore caches", self.uncore_caches, topology.num_uncore_caches),
        )
        for what, least, has in wanted:
            if has < least:
                return f"needs {least} {what}, the machine has {has}"
        counted, there = topology.num_cpus, len(topology.details)
        if self.even and counted != there:
            return f"needs each CPU counted once, a kubelet counts {counted} here for {there}"
        if self.even and not _even(topology):
            return "needs cores, NUMA nodes and sockets of one size, the machine's differ"
        if self.caches_in_nodes and not _caches_in_nodes(topology):
            return "needs uncore caches within one NUMA node or as large as a socket"
        if self.far_siblings and not _far_siblings(topology):
            return "needs CPUs numbered core by core before thread by thread"
        return ""


def _sizes(topology: CPUTopology, level: int) -> list[int]:
    """How many CPUs each NUMA node (0), socket (1) or core (2) has."""
    counts: dict[int, int] = {}
    for row in topology.details.values():
        counts[row[level]] = counts.get(row[level], 0) + 1
    return list(counts.values())


def _free(topology: CPUTopology) -> int:
    return len(topology.details) - len(first_core(topology))


def _smallest(topology: CPUTopology, level: int) -> int:
    return min(_sizes(topology, level), default=0)


def _fewest_cores(topology: CPUTopology) -> int:
    return min(map(len, topology.cores_of_numa.values()), default=0)


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


def _even(topology: CPUTopology) -> bool:
    return all(len(set(_sizes(topology, level))) == 1 for level in (0, 1, 2))


@dataclass(frozen=True, slots=True)
class Scenario:
    """One promise. ``since`` and ``until`` are the first and last minor it is made for (``""``:
    still is); ``machine`` names the only machine it is about, or is ``""``."""

    id: str
    title: str
    source: Source
    body: Body
    level: Level = Level.CORE
    since: str = "1.18"
    until: str = ""
    needs: Needs = Needs()
    capabilities: frozenset[Capability] = frozenset()
    machine: str = ""

    @property
    def area(self) -> str:
        """The part of the id before the slash."""
        return self.id.partition("/")[0]

    @property
    def promise(self) -> str:
        """The promise at length: the docstring of the scenario's function."""
        lines = (self.body.__doc__ or "").strip().splitlines()
        return "\n".join(line.strip() for line in lines)


_BASE: Final = frozenset({Capability.PODS, Capability.STATE_FILE})
_REGISTRY: dict[str, Scenario] = {}


def scenario(
    id: str,  # noqa: A002
    title: str,
    source: Source,
    *,
    level: Level = Level.CORE,
    since: str = "1.18",
    until: str = "",
    needs: Needs = Needs(),
    capabilities: Iterable[Capability] = (),
    machine: str = "",
) -> Callable[[Body], Body]:
    """Enter the decorated function into the catalogue. Every scenario needs a subject that can
    apply pods and show its state file; ``capabilities`` are those beyond."""

    def enter(body: Body) -> Body:
        made = Scenario(
            id=id,
            title=title,
            source=source,
            body=body,
            level=level,
            since=since,
            until=until,
            needs=needs,
            capabilities=_BASE | frozenset(capabilities),
            machine=machine,
        )
        if not _ID.fullmatch(id):
            raise ValueError(f"a scenario's id is area/words-like-these, not {id!r}")
        if id in _REGISTRY:
            raise ValueError(f"two scenarios have the id {id!r}")
        _REGISTRY[id] = made
        return body

    return enter


def registered() -> tuple[Scenario, ...]:
    """Every scenario that was entered so far, in the order of entering. Only
    :mod:`conformance.catalogue` has them all."""
    return tuple(_REGISTRY.values())
