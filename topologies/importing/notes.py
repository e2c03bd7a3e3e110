"""What an import changed in a tree, as notes for the user."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from topologies.errors import one_line


class NoteKind(Enum):
    """Whether something was added, changed or taken away, or is still not there."""

    COMPLETED = "completed"
    REPAIRED = "repaired"
    LEFT_OUT = "left out"
    LACKING = "lacking"


@dataclass(frozen=True, slots=True)
class Note:
    """``what`` names files below ``sys/devices/system`` (or ``proc``); ``why`` says what they were
    made of, or what their lack means."""

    kind: NoteKind
    what: str
    why: str

    def __str__(self) -> str:
        return one_line(f"{self.kind.value}: {self.what}: {self.why}")
