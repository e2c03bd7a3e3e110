"""Known failures: broken promises that the owners of a subject know of and have given a date.

A file lists them (TOML, docs/reference/results.md). A failure that is listed keeps its verdict and
is shown in every report, but does not make a run fail. The list is strict: a listed scenario that
passes, and an entry past its date, make the run fail, so that no entry outlives its reason.
"""

from __future__ import annotations

import difflib
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from conformance.records import KnownFailure, Result
from conformance.verdict import ExitStatus, Verdict, exit_status

_FIELDS: Final = {"scenario": str, "machine": str, "reason": str, "link": str, "expires": date}
_KINDS: Final[Mapping[type, str]] = {
    str: "a text",
    bool: "true or false",
    list: "a list",
    dict: "a table",
    date: "a date like 2027-01-31",
}
_REQUIRED: Final = ("scenario", "reason", "expires")
#: A list of every case of a fork would have a few MB.
_LONGEST: Final = 32 << 20


class KnownFailuresError(Exception):
    """A file of known failures, or of what a fork changes, cannot be used; ``str()`` is one line
    that names file and entry."""


class Standing(Enum):
    """What a result means beside the list of known failures."""

    PASS = "pass"
    FAIL = "fail"  # broken, and not listed, or past its date
    KNOWN = "known"  # broken, as the list says
    FIXED = "fixed"  # kept, although the list says that it is broken
    SKIP = "skip"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class KnownFailures:
    """The entries that hold in a run, which began on the day ``today``."""

    entries: Sequence[KnownFailure]
    today: date

    @classmethod
    def at(cls, entries: Sequence[KnownFailure], started: str) -> KnownFailures:
        """The entries on the day of this ISO 8601 time; nothing expires if it is not one."""
        try:
            moment = datetime.fromisoformat(started)
        except ValueError:
            return cls(entries, date.min)
        return cls(entries, (moment.astimezone(UTC) if moment.tzinfo else moment).date())

    def entry(self, result: Result) -> KnownFailure | None:
        """The entry about this result: the first that has its scenario and machine, and in which
        it differs if it fails."""
        name = result.machine.name
        return next(
            (
                one
                for one in self.entries
                if one.scenario == result.scenario
                and fnmatchcase(name, one.machine)
                and _differs(result, one.differs)
            ),
            None,
        )

    def standing(self, result: Result) -> Standing:
        """What a result means. An unknown verdict is ``UNKNOWN``, never a pass."""
        try:
            verdict = Verdict(result.verdict)
        except ValueError:
            return Standing.UNKNOWN
        entry = self.entry(result) if verdict in (Verdict.PASS, Verdict.FAIL) else None
        if entry is None or (verdict is Verdict.FAIL and self.is_expired(entry)):
            return Standing(verdict.value)
        return Standing.KNOWN if verdict is Verdict.FAIL else Standing.FIXED

    def is_expired(self, entry: KnownFailure) -> bool:
        """Whether the entry's date has passed: from the day after it on. A text that is not a date
        has passed. A change that a fork names may have no date."""
        if entry.name and not entry.expires:
            return False
        try:
            return date.fromisoformat(entry.expires) < self.today
        except ValueError:
            return True

    @property
    def expired(self) -> list[KnownFailure]:
        """The entries past their date."""
        return [one for one in self.entries if self.is_expired(one)]

    def status(
        self,
        met: Mapping[Standing, int],
        *,
        floor: int = 1,
        idle: Collection[str] = (),
        part: bool = False,
    ) -> ExitStatus:
        """The exit status of a run, by the number of results of each standing. Whether enough
        scenarios ran is not judged for a ``part``: the parts together decide that."""
        if met.get(Standing.FIXED, 0) or self.expired:
            return ExitStatus.NOT_CONFORMANT
        counts = {verdict: met.get(Standing(verdict.value), 0) for verdict in Verdict}
        status = exit_status(counts, floor=floor, idle=idle)
        return ExitStatus.CONFORMANT if part and status is ExitStatus.TOO_FEW else status


def _differs(result: Result, part: str) -> bool:
    """Whether a failure differs in what ``part`` names."""
    if result.failure is None or not part:
        return True
    return any(part in one.what for one in result.failure.differences)


def tally(standings: Iterable[Standing]) -> dict[Standing, int]:
    """How often each standing occurs; all are present."""
    return dict.fromkeys(Standing, 0) | Counter(standings)


def read(path: Path, ids: Collection[str]) -> list[KnownFailure]:
    """The entries of a file; ``ids`` are those of all scenarios. Raises
    :class:`KnownFailuresError`."""
    found = loaded(path)
    tables = found.pop("known", [])
    if found or not isinstance(tables, list):
        raise KnownFailuresError(f"{path}: only tables [[known]] are accepted")
    return [_entry(one, f"{path}: entry {number}", ids) for number, one in enumerate(tables, 1)]


def loaded(path: Path) -> dict[str, Any]:
    """A TOML file. Raises :class:`KnownFailuresError`."""
    try:
        with path.open("rb") as file:
            data = file.read(_LONGEST + 1)
        if len(data) > _LONGEST:
            raise KnownFailuresError(f"{path}: longer than {_LONGEST} bytes")
        return tomllib.loads(data.decode())
    except OSError as error:
        raise KnownFailuresError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise KnownFailuresError(f"{path}: not TOML: {error}") from error


def checked(
    table: Any, kinds: Mapping[str, type], required: Sequence[str], where: str
) -> dict[str, Any]:
    """The table, if its fields are of these kinds and the required ones are present. Raises
    :class:`KnownFailuresError` otherwise."""
    if not isinstance(table, dict):
        raise KnownFailuresError(f"{where}: not a table")
    for name, value in table.items():
        kind = kinds.get(name)
        if kind is None:
            raise KnownFailuresError(f"{where}: unknown field {name!r}")
        if type(value) is not kind or value == "":
            raise KnownFailuresError(f"{where}: {name} is {_KINDS[kind]}")
    if lacking := [name for name in required if name not in table]:
        raise KnownFailuresError(f"{where}: {lacking[0]} is missing")
    return table


def require_known(kind: str, name: str, known: Collection[str], where: str) -> None:
    """Raises :class:`KnownFailuresError` for a name that is not one of those known."""
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise KnownFailuresError(f"{where}: unknown {kind} {name!r}{hint}")


def _entry(given: Any, where: str, ids: Collection[str]) -> KnownFailure:
    table = checked(given, _FIELDS, _REQUIRED, where)
    require_known("scenario", table["scenario"], ids, where)
    return KnownFailure(**{**table, "expires": table["expires"].isoformat()})


def write(entries: Iterable[KnownFailure]) -> str:
    """The text of a file with these entries."""
    return "\n".join(map(_table, entries))


def _table(entry: KnownFailure) -> str:
    values = {
        "scenario": _quoted(entry.scenario),
        "machine": _quoted(entry.machine),
        "reason": _quoted(entry.reason),
        "link": _quoted(entry.link),
        "expires": entry.expires,
    }
    rows = (f"{name} = {value}\n" for name, value in values.items() if value != '""')
    return f"[[known]]\n{''.join(rows)}"


def _quoted(text: str) -> str:
    """A basic string of TOML; a character that is not printable is escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"' + "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in escaped) + '"'
    )
