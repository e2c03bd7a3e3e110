"""What a picture of a machine shows, before anything is drawn: nested boxes and owners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from topologies.cpulist import bits, format_list

RESERVED: Final = "reserved"
SHARED_POOL: Final = "shared pool"

#: Letters of pods' tags. R and S are the tags of the two above; I and O look like 1 and 0.
_LETTERS: Final = "ABCDEFGHJKLMNPQTUVWXYZ"
#: Okabe and Ito's palette without black: people with any colour vision tell these apart.
_POD_COLOURS: Final = (
    "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7",
)  # fmt: skip
_RESERVED_COLOUR: Final = "#8a8f98"
_SHARED_COLOUR: Final = "#dfe3e8"

#: The NUMA node, socket, core and uncore cache of each CPU.
Placed = Mapping[int, tuple[int, int, int, int]]


class Level(Enum):
    """What a box stands for, in the words of its label."""

    MACHINE = "machine"
    SOCKET = "socket"
    NUMA = "NUMA node"
    CACHE = "uncore cache"
    CORE = "core"
    MEMORY = "NUMA node without CPUs"
    NOWHERE = "in no NUMA node"


@dataclass(frozen=True, slots=True)
class Box:
    """A part of the machine: boxes in it, or the CPUs of a core. ``memory`` in bytes is that of a
    NUMA node without CPUs."""

    level: Level
    number: int
    inside: tuple[Box, ...] = ()
    cpus: tuple[int, ...] = ()
    memory: int = 0

    def label(self) -> str:
        """The text at the box."""
        if self.level is Level.MEMORY:
            return f"NUMA node {self.number}: no CPUs, {_size(self.memory)}"
        if self.level is Level.NOWHERE:
            return "CPUs in no NUMA node"
        return f"{self.level.value} {self.number}"

    def all_cpus(self) -> Iterator[int]:
        """Every CPU in the box, by place."""
        yield from self.cpus
        for box in self.inside:
            yield from box.all_cpus()


@dataclass(frozen=True, slots=True)
class Beside:
    """What a machine has that its CPU topology lacks: the memory, in bytes, of each NUMA node
    without CPUs, and the CPUs that lie in no NUMA node."""

    nodes: Mapping[int, int] = field(default_factory=dict)
    cpus: frozenset[int] = frozenset()

    def summary(self) -> list[str]:
        """One text for the NUMA nodes and one for the CPUs, each where there are any."""
        said = []
        if self.nodes:
            count, listed = len(self.nodes), format_list(bits(self.nodes))
            said.append(f"{count} NUMA node{'s' * (count > 1)} without CPUs ({listed})")
        if self.cpus:
            noun = "CPUs" if len(self.cpus) > 1 else "CPU"
            said.append(f"in no NUMA node: {noun} {format_list(bits(self.cpus))}")
        return said


@dataclass(frozen=True, slots=True)
class Owner:
    """A holder of CPUs: ``tag`` marks each of them, ``missing`` lists those the machine lacks."""

    name: str
    tag: str
    colour: str
    cpus: int
    missing: str = ""

    def listed(self) -> str:
        """Its CPUs as a list, and those that the machine lacks."""
        held = format_list(self.cpus) or "none"
        return f"{held} (not on this machine: {self.missing})" if self.missing else held

    def count(self) -> int:
        """How many CPUs of this machine it holds."""
        return self.cpus.bit_count()


def _size(memory: int) -> str:
    if not memory:
        return "no memory"
    unit, name = (1 << 30, "GiB") if memory >= 1 << 30 else (1 << 20, "MiB")
    return f"{memory / unit:.4g} {name}"


@dataclass(frozen=True, slots=True)
class Scene:
    """All that a picture shows. ``held`` gives the owners of each CPU that has one; ``beside`` are
    the boxes of what the CPU topology lacks."""

    machine: Box
    beside: tuple[Box, ...]
    owners: tuple[Owner, ...]
    held: Mapping[int, tuple[Owner, ...]]
    highlight: int

    def all_cpus(self) -> list[int]:
        return [cpu for box in (self.machine, *self.beside) for cpu in box.all_cpus()]

    def summary(self) -> str:
        """The scene as one text, for readers who cannot see the picture."""
        parts = [f"{sum(1 for _ in self.machine.all_cpus())} CPUs"]
        for box in self.beside:
            cpus = format_list(bits(box.all_cpus()))
            parts.append(f"{box.label()}: {cpus}" if cpus else box.label())
        parts += [f"{owner.name}: {owner.listed()}" for owner in self.owners]
        if self.highlight:
            parts.append(f"marked: {format_list(self.highlight)}")
        return "; ".join(parts)


def arrange(
    cpus: Placed,
    owners: Mapping[str, Iterable[int]],
    highlight: Iterable[int],
    beside: Beside | None = None,
) -> Scene:
    """The scene: boxes by ascending number, pods in the order given, then reserved and shared."""
    others = beside or Beside()
    known = [*cpus, *sorted(others.cpus - cpus.keys())]
    all_owners = _owners(owners, bits(known))
    held = {cpu: holders for cpu in known if (holders := _holders(cpu, all_owners))}
    return Scene(
        _machine(cpus), tuple(_beside(others)), all_owners, held, bits(highlight) & bits(known)
    )


def _beside(beside: Beside) -> Iterator[Box]:
    for node, memory in sorted(beside.nodes.items()):
        yield Box(Level.MEMORY, node, memory=memory)
    if beside.cpus:
        alone = tuple(Box(Level.CORE, cpu, cpus=(cpu,)) for cpu in sorted(beside.cpus))
        yield Box(Level.NOWHERE, 0, inside=alone)


def _machine(cpus: Placed) -> Box:
    places = cpus.values()
    order = [Level.SOCKET, Level.NUMA]
    sockets_share = _several((numa, socket) for numa, socket, _, _ in places)
    if sockets_share and not _several((socket, numa) for numa, socket, _, _ in places):
        order.reverse()
    if _several(((numa, socket), cache) for numa, socket, _, cache in places):
        order.append(Level.CACHE)
    return Box(Level.MACHINE, 0, _split(cpus, sorted(cpus), (*order, Level.CORE)))


#: The index of a level in the values of :data:`Placed`.
_PLACE: Final = {Level.NUMA: 0, Level.SOCKET: 1, Level.CORE: 2, Level.CACHE: 3}


def _several(pairs: Iterable[tuple[object, int]]) -> bool:
    """Whether one first member is paired with several second members."""
    first: dict[object, int] = {}
    return any(first.setdefault(outer, inner) != inner for outer, inner in pairs)


def _split(cpus: Placed, members: list[int], levels: tuple[Level, ...]) -> tuple[Box, ...]:
    level, rest = levels[0], levels[1:]
    groups: dict[int, list[int]] = {}
    for cpu in members:
        groups.setdefault(cpus[cpu][_PLACE[level]], []).append(cpu)
    if level is Level.CORE:
        return tuple(Box(level, number, cpus=tuple(groups[number])) for number in sorted(groups))
    return tuple(
        Box(level, number, inside=_split(cpus, groups[number], rest)) for number in sorted(groups)
    )


def _owners(owners: Mapping[str, Iterable[int]], machine: int) -> tuple[Owner, ...]:
    special = {RESERVED: ("R", _RESERVED_COLOUR), SHARED_POOL: ("S", _SHARED_COLOUR)}
    pods = [name for name in owners if name not in special]
    found = [
        _owner(name, _tag(index), _POD_COLOURS[index % len(_POD_COLOURS)], owners[name], machine)
        for index, name in enumerate(pods)
    ]
    found += [
        _owner(name, *special[name], owners[name], machine) for name in special if name in owners
    ]
    return tuple(found)


def _owner(name: str, tag: str, colour: str, cpus: Iterable[int], machine: int) -> Owner:
    held = bits(cpus)
    return Owner(name, tag, colour, held & machine, format_list(held & ~machine))


def _tag(index: int) -> str:
    """A, B … Z, AA, AB …"""
    tag = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, len(_LETTERS))
        tag = _LETTERS[digit] + tag
    return tag


def _holders(cpu: int, owners: tuple[Owner, ...]) -> tuple[Owner, ...]:
    """The owners of ``cpu``. The shared pool is not one where the CPU is reserved."""
    holders = [owner for owner in owners if owner.cpus >> cpu & 1]
    if any(owner.name == RESERVED for owner in holders):
        holders = [owner for owner in holders if owner.name != SHARED_POOL]
    return tuple(holders)
