"""Mutants that no scenario could catch, each with the reason: ``equivalent.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from differential.mutants.planting import Mutant

_FILE: Final = Path(__file__).with_suffix(".toml")


class Equivalent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mutants whose id matches ``id`` (with ``*`` and ``?``), and whose ``before`` and ``source``
    are these where they are not empty. ``kind``: ``equivalent`` (the program does the same) or
    ``not visible`` (it does something else, and nothing outside of the program shows it)."""

    id: str
    kind: str
    reason: str
    before: str = ""
    source: str = ""

    def covers(self, mutant: Mutant) -> bool:
        return (
            fnmatchcase(mutant.id, self.id)
            and self.before in ("", mutant.before)
            and self.source in ("", mutant.source)
        )


class _Equivalents(msgspec.Struct, forbid_unknown_fields=True):
    mutant: list[Equivalent] = []


def known_equivalents(path: Path = _FILE) -> list[Equivalent]:
    return msgspec.convert(tomllib.loads(path.read_text()), _Equivalents).mutant


def reason_of(mutant: Mutant, known: Sequence[Equivalent]) -> Equivalent | None:
    """Why no scenario has to catch this mutant; ``None``: one has to."""
    return next((one for one in known if one.covers(mutant)), None)
