"""``pinproof upgrade --matrix``: every upgrade between some releases, in one table.

What belongs here: which kubelets are rehearsed, what is kept, and how the table is shown. What
never does: a rehearsal and its word (:mod:`conformance.upgrade_matrix`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from rich.console import Console
from rich.table import Table

from conformance.kubelets import cached
from conformance.subject import Subject, SubjectUsageError
from conformance.subjects import open_subject
from conformance.subjects.reference import ReferenceSubject
from conformance.upgrade_matrix import MACHINE, Cell, Word, cells, pairs
from conformance.upgrading import Leg
from conformance.verdict import ExitStatus
from pinproof.progress import busy
from pinproof.simulation import require_simulated
from reference.releases import minor_of
from reports.text import clean, few
from topologies import Machine

__all__ = ["MACHINE", "facts", "matrix", "page", "read", "show"]

_CELLS: Final = "cells.jsonl"
_PAGE: Final = "matrix.html"
_NUMBERS: Final = re.compile(r"[0-9][0-9,.-]*")
#: How many pairs a terminal names for a reason; the page names all.
_SHOWN: Final = 4
#: A letter for each word, for the cells on a terminal.
_LETTERS: Final = {
    Word.REFUSES: "X",
    Word.STOPS: "S",
    Word.RESTARTS: "R",
    Word.MOVES: "M",
    Word.BREAKS: "B",
    Word.NO_VERDICT: "?",
    Word.KEEPS: "·",
}
_MEANS: Final = {
    Word.REFUSES: "does not start",
    Word.STOPS: "ends pods that run",
    Word.RESTARTS: "ends containers and starts them again",
    Word.MOVES: "moves containers to other CPUs",
    Word.BREAKS: "breaks another promise",
    Word.NO_VERDICT: "could not be rehearsed",
    Word.KEEPS: "keeps everything",
}


class Header(msgspec.Struct, frozen=True):
    """Where and when a matrix was rehearsed: the first line of what is kept."""

    machine: str
    digest: str
    date: str


def matrix(
    releases: Sequence[str],
    machine: Machine,
    *,
    model: bool,
    report: Path | None,
    resume: bool,
) -> tuple[list[Cell], ExitStatus]:
    """Rehearse each pair, on the kubelets of both where they are built, else on the models. With a
    ``report`` folder each cell is kept there as soon as it is known, and with ``resume`` those
    that it has are not rehearsed again. Raises :class:`SubjectUsageError`."""
    for release in releases:
        require_simulated(release)
    if len({minor_of(one) for one in releases}) < len(releases):
        raise SubjectUsageError("--matrix takes each minor once")
    if resume and report is None:
        raise SubjectUsageError("--resume goes on in --report DIR, which is not given")
    wanted, found = pairs(releases), list[Cell]()
    known = _kept(report, machine) if resume and report else []
    with _Subjects(releases, model=model) as subjects, busy("upgrade") as say:
        file = _begun(report, machine, known) if report else None
        for one in cells(wanted, subjects.pair, machine, known=known):
            found.append(one)
            say(f"{len(found)} of {len(wanted)} rehearsals")
            if file and one not in known:
                with file.open("ab") as stream:
                    stream.write(msgspec.json.encode(one) + b"\n")
    if report:
        (report / _PAGE).write_text(page(found, machine), encoding="utf-8")
    return found, _status(found)


class _Subjects:
    """A subject for each release: its kubelet if it is built, and its model."""

    def __init__(self, releases: Sequence[str], *, model: bool) -> None:
        self._models = {
            one: ReferenceSubject(f"the model of {one}", release=one) for one in releases
        }
        built = {} if model else {minor_of(one.version): str(one.path) for one in cached()[::-1]}
        self._paths = {one: built[minor_of(one)] for one in releases if minor_of(one) in built}
        self._kubelets: dict[str, Subject] = {}
        self._open = ExitStack()

    def __enter__(self) -> _Subjects:
        for release, path in self._paths.items():
            self._kubelets[release] = open_subject(f"kubelet:{path}")
            self._open.callback(self._kubelets[release].close)
        return self

    def __exit__(self, *of: object) -> None:
        self._open.close()

    def pair(self, old: str, new: str) -> tuple[Subject, Subject]:
        """Two kubelets, or two models where one of them is not built."""
        both = self._kubelets if {old, new} <= self._kubelets.keys() else self._models
        return both[old], both[new]


def _begun(report: Path, machine: Machine, known: Sequence[Cell]) -> Path:
    report.mkdir(parents=True, exist_ok=True)
    file = report / _CELLS
    header = Header(machine.name, machine.digest, datetime.now(UTC).strftime("%Y-%m-%d"))
    lines = [msgspec.json.encode(one) for one in (header, *known)]
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    return file


def _kept(report: Path, machine: Machine) -> list[Cell]:
    """The cells that a folder has. Raises :class:`SubjectUsageError` where they are of another
    machine, or cannot be read."""
    file = report / _CELLS
    if not file.is_file():
        return []
    try:
        of, found = _read(file)
    except msgspec.MsgspecError as error:
        raise SubjectUsageError(f"{file}: {error}") from error
    if of.digest != machine.digest:
        raise SubjectUsageError(f"{file}: is of {of.machine}, and this is {machine.name}")
    return found


def _read(file: Path) -> tuple[Header, list[Cell]]:
    """Raises :class:`msgspec.MsgspecError`."""
    header, *lines = file.read_bytes().splitlines() or [b""]
    found = [msgspec.json.decode(line, type=Cell) for line in lines]
    return msgspec.json.decode(header, type=Header), found


def read(file: Path) -> list[Cell]:
    """The cells of a file that a matrix was kept in."""
    return _read(file)[1]


def _status(found: Sequence[Cell]) -> ExitStatus:
    words = {word for one in found for word in one.words.values()}
    if words - {Word.KEEPS.value, Word.NO_VERDICT.value}:
        return ExitStatus.NOT_CONFORMANT
    return ExitStatus.COULD_NOT_TELL if Word.NO_VERDICT.value in words else ExitStatus.CONFORMANT


# -- for people --------------------------------------------------------------------------------


def show(found: Sequence[Cell], machine: Machine, console: Console) -> None:
    """A table for each setting, what the letters mean, and why each pair does what it does."""
    for each in _tables(found):
        table = Table(f"{each.setting}, from", box=None, pad_edge=False)
        for release in each.releases:
            table.add_column(f"to {release}")
        for old, row in zip(each.releases, each.rows, strict=True):
            table.add_row(old, *map(_letters, row))
        console.print(table)
        console.print()
    used = {word for one in found for word in one.words.values()}
    legend = (f"{_LETTERS[word]} {_MEANS[word]}" for word in Word if word.value in used)
    console.print(f"{', '.join(str(leg) for leg in Leg)}: {'; '.join(legend)}.", highlight=False)
    kinds = {one.kind for one in found}
    kubelets = dict.fromkeys(v for one in found if one.kind == "kubelets" for v in one.versions)
    models = dict.fromkeys(v for one in found if one.kind == "models" for v in one.versions)
    console.print(f"On {machine.name}.", highlight=False)
    if "kubelets" in kinds:
        console.print(f"Unmodified kubelets: {', '.join(kubelets)}.", highlight=False)
    if "models" in kinds:
        console.print(f"Models, where a kubelet is not built: {', '.join(models)}.")
    for reason, where in _examples(found).items():
        console.print(clean(f"\n{reason}"), markup=False, highlight=False)
        console.print(clean(f"  {few(where, _SHOWN)}"), markup=False, highlight=False)


class _Table(NamedTuple):
    """The cells of a setting: a row for each old release, and in it a cell for each new one."""

    setting: str
    releases: list[str]
    rows: list[list[Cell]]


def _tables(found: Sequence[Cell]) -> Iterator[_Table]:
    for setting in dict.fromkeys(one.setting for one in found):
        by_pair = {(one.old, one.new): one for one in found if one.setting == setting}
        releases = sorted({new for _, new in by_pair}, key=minor_of)
        rows = [[by_pair[old, new] for new in releases] for old in releases]
        yield _Table(setting, releases, rows)


def _letters(cell: Cell) -> str:
    text = "".join(_LETTERS[Word(cell.words[str(leg)])] for leg in Leg)
    return text if cell.kind == "kubelets" else f"({text})"


def _reasons(found: Sequence[Cell]) -> Mapping[str, list[str]]:
    """What was seen in place of what was promised, with the pairs that show it."""
    reasons: dict[str, list[str]] = {}
    for one in found:
        for leg, seen in one.reasons.items():
            for text in seen:
                where = f"{one.old} to {one.new} ({one.setting}, {leg})"
                reasons.setdefault(text, []).append(where)
    return reasons


def _examples(found: Sequence[Cell]) -> Mapping[str, list[str]]:
    """As :func:`_reasons`; reasons that differ in numbers alone are one."""
    alike: dict[str, str] = {}
    examples: dict[str, list[str]] = {}
    for reason, where in _reasons(found).items():
        first = alike.setdefault(_NUMBERS.sub("#", reason), reason)
        examples.setdefault(first, []).extend(where)
    return {reason: list(dict.fromkeys(where)) for reason, where in examples.items()}


# -- as a page ---------------------------------------------------------------------------------


def page(found: Sequence[Cell], machine: Machine) -> str:
    environment = Environment(
        loader=PackageLoader("pinproof"), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("upgrade-matrix.html.jinja").render(
        machine=machine.name,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        tables=list(_tables(found)),
        means={word.value: _MEANS[word] for word in Word},
        reasons=_reasons(found),
        versions=dict.fromkeys(
            f"{version} ({digest})"
            for one in found
            for version, digest in zip(one.versions, one.digests, strict=True)
            if digest
        ),
    )


def facts(found: Sequence[Cell]) -> list[Any]:
    return [msgspec.to_builtins(one) for one in found]
