"""Who held which CPUs over time: for each moment one strip, the CPUs by their place in the machine.

A strip is plain values, without markup: neighbouring CPUs of one owner are one part of it. Colours
and tags of an owner are the same in every strip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from topologies.boxes import Owner, Placed, arrange
from topologies.cpulist import bits, format_list
from topologies.picture import ink


@dataclass(frozen=True, slots=True)
class Part:
    """CPUs side by side with one owner, or with none (``owner`` is ``""``). ``ink`` is the colour
    of text that stands out on ``colour``; ``cpus`` is a CPU list."""

    owner: str
    tag: str
    colour: str
    ink: str
    cpus: str
    count: int


@dataclass(frozen=True, slots=True)
class Strip:
    """One moment. ``summary`` says in words who holds what."""

    parts: tuple[Part, ...]
    summary: str


def strips(cpus: Placed, moments: Sequence[Mapping[str, Iterable[int]]]) -> tuple[Strip, ...]:
    """A strip for each moment; each is owners by name with their CPUs, as for a picture. Of a CPU
    with several owners the first is shown."""
    names = dict.fromkeys(name for moment in moments for name in moment)
    return tuple(_strip(cpus, {name: moment.get(name, ()) for name in names}) for moment in moments)


def _strip(cpus: Placed, owners: Mapping[str, Iterable[int]]) -> Strip:
    scene = arrange(cpus, owners, ())
    placed = [(cpu, next(iter(scene.held.get(cpu, ())), None)) for cpu in scene.all_cpus()]
    parts = tuple(
        _part(owner, [cpu for cpu, _ in run]) for owner, run in groupby(placed, itemgetter(1))
    )
    held = [f"{owner.name}: {format_list(owner.cpus)}" for owner in scene.owners if owner.cpus]
    return Strip(parts, "; ".join(held))


def _part(owner: Owner | None, cpus: list[int]) -> Part:
    listed = format_list(bits(cpus))
    if owner is None:
        return Part("", "", "#ffffff", ink("#ffffff"), listed, len(cpus))
    return Part(owner.name, owner.tag, owner.colour, ink(owner.colour), listed, len(cpus))
