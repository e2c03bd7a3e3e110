"""The named faults, and putting them into Go source: ``faults.toml``, ``slips.toml``.

What belongs here: reading the lists, and the text of a file with all of its faults. What never
does: building programs (``programs``), and trying faults (``trials``, ``slips``).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from conformance.subject import SubjectSetupError
from differential.mutants.planting import SWITCH
from differential.mutants.witness import CaseName

FAULTS: Final = Path(__file__).with_name("faults.toml")
SLIPS: Final = Path(__file__).with_name("slips.toml")
#: The package of the switch.
SWITCH_SOURCE: Final = Path(__file__).with_name("mutant.go")
#: The machine of a scenario that names none, where the fault names none either.
MACHINE: Final = "2s-2n-8c-smt2"
_PACKAGE: Final = re.compile(r"^package \w+", re.MULTILINE)


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``find`` stands just once in the released ``file``, and ``put`` takes its place."""

    file: str
    find: str
    put: str


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an author of a fork breaks by accident. ``caught_by``: scenarios, each of which must
    catch it by itself, as ``SCENARIO`` or ``SCENARIO@MACHINE``. ``allowed``: it breaks no promise,
    and no scenario may accuse it."""

    name: str
    does: str
    edit: tuple[Edit, ...]
    caught_by: tuple[str, ...] = ()
    allowed: bool = False

    def cases(self, machine_of: Callable[[str], str]) -> list[CaseName]:
        """What must catch it. ``machine_of`` names the machine that a scenario is about, or is
        ``""``."""
        named = [each.partition("@") for each in self.caught_by]
        return [
            CaseName(scenario, machine or machine_of(scenario) or MACHINE)
            for scenario, _, machine in named
        ]


#: Why tests miss a slip: ``slips.toml`` says what each means.
Kind = Literal["meeting", "size", "time", "output", "machine"]


class Slip(Fault, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A fault that no scenario has to catch: what catches it is measured (``slips``).
    ``shown_by``: where a user would see it."""

    kind: Kind
    shown_by: str


class _Lists(msgspec.Struct, forbid_unknown_fields=True):
    fault: tuple[Fault, ...] = ()
    slip: tuple[Slip, ...] = ()


def known_faults(path: Path = FAULTS) -> tuple[Fault, ...]:
    return _lists(path).fault


def known_slips(path: Path = SLIPS) -> tuple[Slip, ...]:
    return _lists(path).slip


def _lists(path: Path) -> _Lists:
    return msgspec.convert(tomllib.loads(path.read_text()), _Lists)


@dataclass(frozen=True, slots=True)
class _Change:
    """``text`` in the place of what lies from ``at`` to ``end``."""

    at: int
    end: int
    text: str
    fault: str


def planted(faults: Sequence[Fault], pristine: Callable[[str], str]) -> dict[str, str]:
    """The changed files by their paths in the module, each with all of its faults behind the
    switch. ``pristine`` reads a released file. Raises :class:`SubjectSetupError` where a file does
    not have the text of an edit just once, or where two faults change the same text."""
    by_file: dict[str, list[_Change]] = {}
    texts: dict[str, str] = {}
    for fault in faults:
        for edit in fault.edit:
            if edit.file not in texts:
                texts[edit.file] = pristine(edit.file)
            change = _change(fault, edit, texts[edit.file])
            by_file.setdefault(edit.file, []).append(change)
    return {path: _applied(path, texts[path], changes) for path, changes in by_file.items()}


def sources(faults: Sequence[Fault], pristine: Callable[[str], str]) -> Mapping[str, str]:
    """The changed files and the package of the switch, by their paths in the module."""
    return {**planted(faults, pristine), "pkg/pinproofmutant/mutant.go": SWITCH_SOURCE.read_text()}


def _change(fault: Fault, edit: Edit, text: str) -> _Change:
    count = text.count(edit.find)
    if count != 1:
        raise SubjectSetupError(
            f"fault {fault.name}: {edit.file} has this text {count} times: {edit.find.strip()}"
        )
    put = edit.put.replace("$ON", f'mutant_.On("{fault.name}")')
    # Only the text that differs is replaced, so that several faults may change one line.
    first = _common(edit.find, put)
    last = _common(edit.find[first:][::-1], put[first:][::-1])
    at = text.index(edit.find)
    return _Change(at + first, at + len(edit.find) - last, put[first : len(put) - last], fault.name)


def _common(one: str, other: str) -> int:
    """How many first characters both texts have in common."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _applied(path: str, text: str, changes: Iterable[_Change]) -> str:
    out: list[str] = []
    last = _Change(0, 0, "", "")
    for each in sorted(changes, key=lambda one: (one.at, one.end)):
        if each.at < last.end:
            raise SubjectSetupError(
                f"faults {last.fault} and {each.fault} change the same text of {path}"
            )
        operators = {one.text.strip()[:2] for one in (last, each)}
        if each.at == last.at and operators == {"&&", "||"}:
            raise SubjectSetupError(
                f"faults {last.fault} and {each.fault} add && and || to one condition of {path}"
            )
        out += [text[last.end : each.at], each.text]
        last = each
    whole = "".join([*out, text[last.end :]])
    imported = _PACKAGE.sub(lambda found: f'{found[0]}; import mutant_ "{SWITCH}"', whole, count=1)
    return f"{imported}\nvar _ = mutant_.On\n"
