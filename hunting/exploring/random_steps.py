"""Steps that no value of a factor names: pods of any size come and go, by chance.

What belongs here: which step is drawn next. What never does: the settings of the node
(``settings``), and the steps of a family (``hunting.families``).

How it works: what a row's values lead to is near to an empty node. Where two NUMA nodes are half
full, or where cores have lost a thread each, is met by long histories of ordinary steps alone. No
pod has the uid of an earlier one: a kubelet that still knows that uid as terminating does not admit
the pod, which is so for some seconds and is not modelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final

from hunting.exploring.drafting import Draft, is_told_otherwise
from hunting.exploring.factors import BY_NAME
from hunting.exploring.pods import pod_of
from hunting.families import Scene, moves_of
from reference.steps import Apply, Delete, Start

#: So many moves are drawn; those that are not possible are left out.
_MOVES: Final = 12
_NAMES: Final = "abcdef"
#: What happens next, as often as it is here.
_KINDS: Final = (
    *["a pod"] * 5, *["it goes"] * 3, "restart", "kill", *["something else"] * 2
)  # fmt: skip
#: The families of what else happens.
_ELSE: Final = ("ends", "tampers", "refuses", "reboots", "down", "crashes", "gates", "resizes")
#: How likely a part of a pod is not plain, and that it may have all CPUs.
_VARIED: Final = 0.3
#: The most CPUs of other pods: of these many fit.
_SMALL: Final = 4
_PARTS: Final = (
    "apps", "other apps", "init", "sidecar", "class", "size", "memory", "requested devices",
    "restart policy",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RandomSteps:
    """Draws steps for a started node. ``offered``: the values of each factor."""

    draft: Draft
    offered: Mapping[str, Sequence[str]]
    chance: Random
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def take(self) -> None:
        """Let the node take steps until it hangs, or does not start."""
        for _ in range(_MOVES):
            view = self.draft.view
            if view.hangs or not (view.running or self._starts()):
                return
            self._move()

    def _starts(self) -> bool:
        return self.draft.take(Start()) and self.draft.view.running and self.draft.register()

    def _move(self) -> None:
        there = sorted(self.draft.node.granted)
        free = [name for name in _NAMES if name not in there]
        match self.chance.choice(_KINDS):
            case "a pod" if free:
                self._apply(self.chance.choice(free))
            case "it goes" if there:
                self.draft.take(Delete(self.chance.choice(there)))
            case "restart" | "kill" as how if there:
                self.draft.restart(kill=how == "kill")
            case "something else" if there:
                self._something_else()

    def _apply(self, name: str) -> None:
        """Apply a pod of any size, mostly of one container; all else is as in the row."""
        row, free = dict(self.draft.row), self.draft.room.free
        for part in _PARTS:
            if self.chance.random() < _VARIED:
                row[part] = self.chance.choice(self.offered[part])
        if row["size"] == BY_NAME["size"].plain:
            most = free if self.chance.random() < _VARIED else min(free, _SMALL)
            row["size"] = str(self.chance.randint(1, most))
        if is_told_otherwise(row, self.draft.task.release):
            return
        self.draft.take(Apply(pod_of(row, self.draft.room, name, again=next(self.numbers))))

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
