"""The result file: one JSON object a line, a header first, the newest line of a mutant counts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from conformance.subject import SubjectUsageError, usable
from differential.mutants.hunt import CAUGHT, NOT_REACHED, SURVIVED, UNTOLD, Outcome
from differential.mutants.planting import Mutant
from topologies.capturing.saving import write_whole

#: The statuses of mutants that need no further trial.
FINAL: Final = frozenset({CAUGHT, SURVIVED, UNTOLD, NOT_REACHED})


class Header(msgspec.Struct, tag="header", tag_field="kind", frozen=True):
    """What was tried. ``planted`` stands for the list of mutants, ``catalogue`` for the scenarios
    at that time."""

    release: str
    planted: str
    catalogue: str
    machines: list[str]
    mutants: int


class Row(msgspec.Struct, tag="mutant", tag_field="kind", frozen=True):
    """One mutant and its outcome."""

    mutant: Mutant
    outcome: Outcome


class Ledger:
    """Outcomes by mutant id, kept in a file as they come. If the file is about other scenarios or
    machines, only its caught mutants count: the others are tried again. ``reading`` leaves the file
    as it is."""

    def __init__(self, path: Path, header: Header, *, reading: bool = False) -> None:
        self._path = path
        self._reading = reading
        self.rows: dict[str, Row] = {}
        if path.exists() and path.stat().st_size:
            self._read(header)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(msgspec.json.encode(header) + b"\n")

    def _read(self, header: Header) -> None:
        found, rows = read(self._path)
        if found.release != header.release or found.planted != header.planted:
            raise SubjectUsageError(
                f"{self._path} is about {found.release} with other mutants: take another file"
            )
        if found != header and not self._reading:
            rows = [row for row in rows if row.outcome.status == CAUGHT]
        self.rows = {row.mutant.id: row for row in rows}
        if not self._reading:
            # Without older lines of the same mutants, and without a line that was cut off.
            lines = [msgspec.json.encode(one) for one in (header, *self.rows.values())]
            write_whole(self._path, b"\n".join(lines) + b"\n", mode=0o644)

    def note(self, rows: Iterable[Row]) -> None:
        with self._path.open("ab") as stream:
            for row in rows:
                self.rows[row.mutant.id] = row
                stream.write(msgspec.json.encode(row) + b"\n")

    def is_final(self, mutant: Mutant) -> bool:
        """Whether the mutant needs no further trial."""
        row = self.rows.get(mutant.id)
        return row is not None and row.outcome.status in FINAL


def read(path: Path) -> tuple[Header, list[Row]]:
    """The header and the newest row of each mutant; a last line that was cut off is ignored. Raises
    :class:`SubjectUsageError` where the file is not a result file."""
    with usable(path):
        lines = path.read_bytes().split(b"\n")
    try:
        header = msgspec.json.decode(lines[0], type=Header)
        # What lies behind the last newline was cut off, or is empty.
        rows = [msgspec.json.decode(line, type=Row) for line in lines[1:-1] if line]
    except msgspec.DecodeError as error:
        raise SubjectUsageError(f"{path} is not a result file: {error}") from error
    newest = {row.mutant.id: row for row in rows}
    return header, list(newest.values())
