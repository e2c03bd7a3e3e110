"""Random steps, which no value of a factor names: pods of any size come and go.

What belongs here: which step is drawn next. What never does: the settings of the node
(``settings``), and the steps of a family (``hunting.families``).

How it works: a row's values lead to a node that is nearly empty. Only long histories of ordinary
steps lead to one with two half full NUMA nodes, or with cores that have lost a thread each. No pod
has the uid of an earlier one: for some seconds a kubelet still knows that uid as terminating, and
does not admit the pod, which is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final

from hunting.exploring.drafting import Draft, has_other_class
from hunting.exploring.factors import BY_NAME, FACTORS, OF_WHAT_IS_LEFT, QUIET, Theme
from hunting.exploring.pods import pod_of
from hunting.exploring.rows import Part, Row
from hunting.families import Scene, moves_of
from reference.steps import Apply, Delete, Start

#: How many moves are drawn, and how many after a row's story. Impossible ones are left out.
_MOVES: Final = 12
_MORE: Final = 6
_NAMES: Final = "abcdef"
#: What may happen next; a kind that is here more often is likelier.
_KINDS: Final = (
    *["a pod"] * 5, *["it goes"] * 3, "restart", "kill", *["something else"] * 2
)  # fmt: skip
#: The same after the story of a row.
_PODS: Final = (*["a pod"] * 2, "it goes")
#: The families whose moves are "something else".
_ELSE: Final = ("ends", "tampers", "refuses", "reboots", "down", "crashes", "gates", "resizes")
#: How likely a factor of a pod is not plain, and how likely a pod may have all CPUs; and how likely
#: a factor of the theme is not plain.
_VARIED: Final = 0.25
_OF_THEME: Final = 0.5
#: How likely the size of a pod is measured by what is left. One CPU more or less then decides on
#: which CPUs it is, and whether it is admitted.
_TO_THE_BRIM: Final = 0.5
#: How many pods are drawn, of which one is applied.
_CHOICES: Final = 8
#: The most CPUs of other pods, so that many of them fit.
_SMALL: Final = 4
_PARTS: Final = (
    "apps", "other apps", "init", "sidecar", "class", "size", "memory", "huge pages",
    "requested devices", "restart policy",
)  # fmt: skip
_QUIET: Final = tuple(one for one in QUIET if BY_NAME[one].part is Part.POD)


@dataclass(frozen=True, slots=True)
class RandomSteps:
    """Draws steps for a started node. ``offered``: the values of each factor; ``theme``: which of
    them pods have most often; ``new``: how many new pairs and triples the row of a pod has;
    ``pods``: the rows of the pods that were applied."""

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
        """Let pods come and go on the node that a story has left."""
        for _ in range(_MORE):
            if self.draft.view.running and not self.draft.view.hangs:
                self._move(_PODS)

    def _starts(self) -> bool:
        return self.draft.take(Start()) and self.draft.view.running and self.draft.register()

    def _move(self, kinds: Sequence[str]) -> None:
        pods = sorted(self.draft.node.granted)
        unused = [name for name in _NAMES if name not in pods]
        match self.chance.choice(kinds):
            case "a pod" if unused:
                self._apply(self.chance.choice(unused))
            case "it goes" if pods:
                self.draft.take(Delete(self.chance.choice(pods)))
            case "restart" | "kill" as kind if pods:
                self.draft.restart(kill=kind == "kill")
            case "something else" if pods:
                self._something_else()

    def _apply(self, name: str) -> None:
        """Apply the pod that shows most new pairs and triples, of some that are drawn. Factors that
        are not of a pod are as in the row of the draft."""
        self.draft.measure()
        row = max((self._row() for _ in range(_CHOICES)), key=self.new)
        if has_other_class(row, self.draft.task.release):
            return
        again = next(self.numbers)
        if self.draft.take(Apply(pod_of(self._sized(row), self.draft.room, name, again=again))):
            self.pods.append(row)

    def _row(self) -> Row:
        plain = {one.name: one.plain for one in FACTORS if one.part is Part.POD}
        return {**self.draft.row, **plain, **{part: self._value(part) for part in _PARTS + _QUIET}}

    def _sized(self, row: Row) -> Row:
        """The row with a random size in place of the plain one."""
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
        own = [one for one in self.theme.of.get(part, ()) if one in values]
        of_theme = bool(own) or part in self.theme.names
        if self.chance.random() < (_OF_THEME if of_theme else _VARIED):
            return self.chance.choice(own or values)
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
