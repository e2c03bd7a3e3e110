"""A tree while it is being completed: its texts as values, and the notes on what was done."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Final

from topologies.cpulist import bits, format_list, format_mask
from topologies.hotplug import cpu_directories
from topologies.importing.notes import Note, NoteKind
from topologies.paths import CPU, CPUINFO
from topologies.sets import Texts

_SHORT: Final = "sys/devices/system/"
_FIELD: Final = re.compile(
    r"^(processor|physical id|core id)[ \t]*:[ \t]*([0-9]{1,7})[ \t]*$", re.MULTILINE
)


class Draft(Texts):
    """The entries, to be changed in place. A value that cannot be read is ``None``."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        self.entries = dict(entries)
        super().__init__(self.entries)
        self.notes: list[Note] = []
        self.online = 0
        self.width = 1
        self._lists: dict[int, str] = {}
        self._masks: dict[tuple[int, int], str] = {}

    def note(self, kind: NoteKind, what: str, why: str) -> None:
        """Keep a note; ``what`` loses the part that all paths share."""
        self.notes.append(Note(kind, what.removeprefix(_SHORT), why))

    def complete(self, path: str, text: str, why: str) -> None:
        """Add a file, and say so."""
        self.entries[path] = text
        self.note(NoteKind.COMPLETED, path, why)

    def number(self, path: str) -> int | None:
        """An id as sysfs writes it, which may be -1."""
        found = self.text(path)
        return int(found) if found and re.fullmatch(r"-?[0-9]{1,9}", found, re.ASCII) else None

    def mask_text(self, members: int) -> str:
        """A set as this machine's kernel writes it."""
        key = members, max(self.width, members.bit_length())
        if key not in self._masks:
            self._masks[key] = format_mask(*key) + "\n"
        return self._masks[key]

    def list_text(self, members: int) -> str:
        """A set as a list, with its newline."""
        if members not in self._lists:
            self._lists[members] = format_list(members) + "\n"
        return self._lists[members]

    @property
    def folders(self) -> int:
        """The CPUs that have a folder, as a set."""
        return cpu_directories(self.entries)

    @cached_property
    def processors(self) -> dict[int, dict[str, int]]:
        """What ``/proc/cpuinfo`` says in numbers, by CPU."""
        blocks = re.split(r"\n[ \t]*\n", self.text(CPUINFO) or "")
        found = ({name: int(value) for name, value in _FIELD.findall(one)} for one in blocks)
        return {fields["processor"]: fields for fields in found if "processor" in fields}

    def has_topology(self) -> int:
        """The CPUs that have a ``topology`` folder, as a set."""
        found = re.compile(rf"{CPU}/cpu([0-9]{{1,7}})/topology/.*", re.ASCII)
        return bits(int(match[1]) for match in map(found.fullmatch, self.entries) if match)
