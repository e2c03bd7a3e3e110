"""Steps that no value of a factor names: pods of any size come and go, by chance.

What belongs here: which step is drawn next. What never does: the settings of the node
(``settings``), and the steps of a family (``hunting.families``).

How it works: what a row's values lead to is near to an empty node. Where two NUMA nodes are half
full, or where cores have lost a thread each, is met by long histories of ordinary steps alone. No
pod has the uid of an earlier one: a kubelet that still knows that uid as terminating does not admit
the pod, which is so for some seconds and is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final

from hunting.exploring.drafting import Draft, is_told_otherwise
from hunting.exploring.factors import BY_NAME, FACTORS, OF_WHAT_IS_LEFT, QUIET, Theme
from hunting.exploring.pods import pod_of
from hunting.exploring.rows import Part, Row
from hunting.families import Scene, moves_of
from reference.steps import Apply, Delete, Start

#: So many moves are drawn; those that are not possible are left out. So many come after a row's
#: story.
_MOVES: Final = 12
_MORE: Final = 6
_NAMES: Final = "abcdef"
#: What happens next, as often as it is here.
_KINDS: Final = (
    *["a pod"] * 5, *["it goes"] * 3, "restart", "kill", *["something else"] * 2
)  # fmt: skip
#: The same after the story of a row.
_PODS: Final = (*["a pod"] * 2, "it goes")
#: The families of what else happens.
_ELSE: Final = ("ends", "tampers", "refuses", "reboots", "down", "crashes", "gates", "resizes")
#: How likely a part of a pod is not plain, one that is of the theme, and that it may have all CPUs.
_VARIED: Final = 0.25
_OF_THEME: Final = 0.5
#: How likely the size of a pod is one of what is left: one CPU more or less decides then where it
#: lies, and whether it is admitted.
_TO_THE_BRIM: Final = 0.5
#: Of so many pods one is taken.
_CHOICES: Final = 8
#: The most CPUs of other pods: of these many fit.
_SMALL: Final = 4
_PARTS: Final = (
    "apps", "other apps", "init", "sidecar", "class", "size", "memory", "huge pages",
    "requested devices", "restart policy",
)  # fmt: skip
_QUIET: Final = tuple(one for one in QUIET if BY_NAME[one].part is Part.POD)


@dataclass(frozen=True, slots=True)
class RandomSteps:
    """Draws steps for a started node. ``offered``: the values of each factor; ``theme``: which of
    them pods have most often; ``new``: how much meets first in the row of a pod. ``pods``: the rows
    of those that were applied."""

    draft: Draft
    offered: Mapping[str, Sequence[str]]
    theme: Theme
    chance: Random
    new: Callable[[Row], int]
    pods: list[Row] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def take(self) -> None:
        """Let the node take steps until it hangs, or does not start."""
        for _ in range(_MOVES):
            view = self.draft.view
            if view.hangs or not (view.running or self._starts()):
                return
            self._move(_KINDS)

    def more_pods(self) -> None:
        """Let pods come and go on a node that is left as it was by a story."""
        for _ in range(_MORE):
            if self.draft.view.running and not self.draft.view.hangs:
                self._move(_PODS)

    def _starts(self) -> bool:
        return self.draft.take(Start()) and self.draft.view.running and self.draft.register()

    def _move(self, kinds: Sequence[str]) -> None:
        there = sorted(self.draft.node.granted)
        free = [name for name in _NAMES if name not in there]
        match self.chance.choice(kinds):
            case "a pod" if free:
                self._apply(self.chance.choice(free))
            case "it goes" if there:
                self.draft.take(Delete(self.chance.choice(there)))
            case "restart" | "kill" as how if there:
                self.draft.restart(kill=how == "kill")
            case "something else" if there:
                self._something_else()

    def _apply(self, name: str) -> None:
        """Apply a pod of any size, of some the one in which most meets first. What is no part of a
        pod is as in the row."""
        self.draft.measure()
        row = max((self._row() for _ in range(_CHOICES)), key=self.new)
        if is_told_otherwise(row, self.draft.task.release):
            return
        again = next(self.numbers)
        if self.draft.take(Apply(pod_of(self._sized(row), self.draft.room, name, again=again))):
            self.pods.append(row)

    def _row(self) -> Row:
        plain = {one.name: one.plain for one in FACTORS if one.part is Part.POD}
        return {**self.draft.row, **plain, **{part: self._value(part) for part in _PARTS + _QUIET}}

    def _sized(self, row: Row) -> Row:
        """A pod of plain size has any."""
        if row["size"] != BY_NAME["size"].plain:
            return row
        free = self.draft.room.free
        most = free if self.chance.random() < _VARIED else min(free, _SMALL)
        return {**row, "size": str(self.chance.randint(1, most))}

    def _value(self, part: str) -> str:
        values = self.offered[part]
        if part in _QUIET:
            return self.chance.choice(values)
        if part == "size" and self.chance.random() < _TO_THE_BRIM:
            return self.chance.choice(OF_WHAT_IS_LEFT)
        mine = [one for one in self.theme.of.get(part, ()) if one in values]
        of_theme = bool(mine) or part in self.theme.names
        if self.chance.random() < (_OF_THEME if of_theme else _VARIED):
            return self.chance.choice(mine or values)
        return values[0]

    def _something_else(self) -> None:
        task, room = self.draft.task, self.draft.room
        scene = Scene(
            self.draft.node.granted, f"late{next(self.numbers)}", room.free, task.config,
            task.release, task.machine, room.topology,
        )  # fmt: skip
        moves = list(moves_of(scene, (self.chance.choice(_ELSE),)))
        if moves:
            move = self.chance.choice(moves)
            self.draft.take(*move)
            if any(isinstance(step, Start) for step in move):
                self.draft.register()
