"""Two runs compared, case by case: what broke, what was fixed, what is new, and what is gone.

A case is a scenario on a machine. A *regression* is a promise that is broken, is not a known
failure, and was not broken before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final, TypeAlias

from conformance.known import Standing
from conformance.results import Result
from conformance.verdict import ExitStatus
from reports.run import Run
from reports.stories import message
from reports.text import line, markdown, when, wrapped

Case: TypeAlias = tuple[str, str]
#: Columns of a terminal; a log has no width of its own.
_WIDTH: Final = 80


class Kind(Enum):
    """What became of a case; the value is its heading."""

    REGRESSION = "Regressions"
    UNCLEAR = "No longer clear"
    FIX = "Fixes"
    NEW = "New"
    GONE = "Gone"
    STILL = "Still broken"


@dataclass(frozen=True, slots=True)
class Change:
    """One case. ``old`` or ``new`` is ``None`` where that run does not have it."""

    kind: Kind
    machine: str
    scenario: str
    old: Result | None
    new: Result | None

    @property
    def was(self) -> str:
        """The verdict before; ``"absent"`` if there is none."""
        return line(self.old.verdict) if self.old else "absent"

    @property
    def now(self) -> str:
        """The verdict now; ``"absent"`` if there is none."""
        return line(self.new.verdict) if self.new else "absent"


_APPLIED: Final = (Standing.PASS, Standing.FIXED, Standing.FAIL, Standing.KNOWN)
_BROKEN: Final = (Standing.FAIL, Standing.KNOWN)


@dataclass(frozen=True)
class Comparison:
    """The old run and the new one."""

    old: Run
    new: Run

    @cached_property
    def changes(self) -> Mapping[Kind, tuple[Change, ...]]:
        """By kind, and then by machine and scenario; all kinds are present."""
        old, new = _cases(self.old), _cases(self.new)
        found: dict[Kind, list[Change]] = {kind: [] for kind in Kind}
        for case in sorted(old.keys() | new.keys()):
            kind = self._kind(old.get(case), new.get(case))
            if kind is not None:
                found[kind].append(Change(kind, *case, old.get(case), new.get(case)))
        return {kind: tuple(changes) for kind, changes in found.items()}

    def _kind(self, old: Result | None, new: Result | None) -> Kind | None:
        was = self.old.known.standing(old) if old else Standing.SKIP
        now = self.new.known.standing(new) if new else Standing.SKIP
        if was is now is Standing.SKIP:
            return None
        if now is Standing.UNKNOWN:
            return Kind.UNCLEAR if was in _APPLIED or was is Standing.SKIP else None
        if now is Standing.SKIP:
            return Kind.GONE
        if old is None:
            return Kind.NEW
        if now is Standing.FAIL:
            return Kind.STILL if was in _BROKEN else Kind.REGRESSION
        if now is Standing.KNOWN:
            return Kind.STILL
        return Kind.FIX if was in _BROKEN else Kind.NEW if was is Standing.SKIP else None

    @cached_property
    def compared(self) -> bool:
        """Whether a case that applies is in both runs."""
        old, new = _cases(self.old), _cases(self.new)
        return any(
            self.old.known.standing(old[case]) is not Standing.SKIP
            or self.new.known.standing(new[case]) is not Standing.SKIP
            for case in old.keys() & new.keys()
        )

    @cached_property
    def status(self) -> ExitStatus:
        """``NOT_CONFORMANT`` for a regression alone; ``COULD_NOT_TELL`` where the new run has no
        verdict on what the old one had, or was cut off; ``TOO_FEW`` where nothing applied, or
        nothing that both runs have."""
        if self.changes[Kind.REGRESSION]:
            return ExitStatus.NOT_CONFORMANT
        if self._lacks_a_part or self.new.cut_off or self.new.contradiction:
            return ExitStatus.COULD_NOT_TELL
        applied = any(self.new.standings[standing] for standing in _APPLIED)
        return ExitStatus.CONFORMANT if applied and self.compared else ExitStatus.TOO_FEW

    @property
    def _lacks_a_part(self) -> bool:
        """Whether a case has no verdict now, or may be in a shard that is missing."""
        gone = any(one.new is None for one in self.changes[Kind.GONE])
        return bool(self.changes[Kind.UNCLEAR]) or (bool(self.new.part) and gone)

    @cached_property
    def verdict(self) -> str:
        counts = {kind: len(changes) for kind, changes in self.changes.items()}
        regressions = counts.pop(Kind.REGRESSION)
        words = f"{regressions} regression{'s' * (regressions != 1)}" if regressions else ""
        rest = ", ".join(
            f"{count} {_WORDS[kind][count != 1]}" for kind, count in counts.items() if count
        )
        if not self.compared:
            words = "Nothing was compared: the two runs share no case that applies"
        return f"{words or 'No regression'}{': ' * bool(rest)}{rest}."

    @property
    def notes(self) -> list[str]:
        """What makes the two runs hard to compare, and what is wrong with either."""
        found = [f"The {name} run: {run.caution}" for name, run in self._runs if run.caution]
        old, new = self.old.header, self.new.header
        if (old.pinproof, old.catalogue) != (new.pinproof, new.catalogue):
            found.append("The two runs had different scenarios, or different versions of pinproof.")
        other = sorted(
            name for name, digest in new.digests.items() if old.digests.get(name, digest) != digest
        )
        found += [f"Another machine has the name {line(name)} now." for name in other]
        return found

    @property
    def _runs(self) -> tuple[tuple[str, Run], ...]:
        return (("old", self.old), ("new", self.new))

    @property
    def about(self) -> list[str]:
        """Both runs, a line each."""
        return [
            f"{name}  {line(f'{run.header.subject.name} {run.header.subject.version}').strip()}, "
            f"{when(run.header.started)}. {run.verdict}"
            for name, run in self._runs
        ]


_WORDS: Final = {
    Kind.UNCLEAR: ("case no longer clear", "cases no longer clear"),
    Kind.FIX: ("fix", "fixes"),
    Kind.NEW: ("new case", "new cases"),
    Kind.GONE: ("case gone", "cases gone"),
    Kind.STILL: ("case still broken", "cases still broken"),
}


def _cases(run: Run) -> dict[Case, Result]:
    """The gravest result of each case."""
    found: dict[Case, Result] = {}
    for result in run.ordered:
        found.setdefault((line(result.machine.name), line(result.scenario)), result)
    return found


def text(comparison: Comparison) -> str:
    """For a terminal or a log, folded; the last line is the verdict with the exit status. That line
    and commands stay one line each, however long: logs are searched, commands copied."""
    head = (wrapped(one, _WIDTH) for one in (*comparison.about, *comparison.notes))
    end = f"{comparison.verdict} Exit status {comparison.status.value}."
    return "\n".join([*head, *_lines(comparison), "", end])


def _lines(comparison: Comparison) -> Iterator[str]:
    for kind, changes in comparison.changes.items():
        if changes:
            yield from ("", f"{kind.value} ({len(changes)})")
        machine = ""
        for change in changes:
            if change.machine != machine:
                machine = change.machine
                yield wrapped(f"  {machine}", _WIDTH)
            yield wrapped(f"    {change.scenario}: {change.was}, now {change.now}", _WIDTH)
            if change.new and kind in (Kind.REGRESSION, Kind.UNCLEAR):
                yield wrapped(f"      {message(change.new)}", _WIDTH)
                yield f"      {line(change.new.replay)}"


def as_markdown(comparison: Comparison) -> str:
    """For a pull request or a job's summary."""
    return "\n".join([*_markdown(comparison), ""])


def _markdown(comparison: Comparison) -> Iterator[str]:
    yield f"## {markdown(comparison.verdict)}"
    yield ""
    for about in (*comparison.about, *comparison.notes):
        yield f"- {markdown(about)}"
    for kind, changes in comparison.changes.items():
        if not changes:
            continue
        folded = kind not in (Kind.REGRESSION, Kind.UNCLEAR)
        yield ""
        heading = f"{kind.value} ({len(changes)})"
        yield f"<details><summary>{heading}</summary>" if folded else f"### {heading}"
        yield ""
        yield "| machine | scenario | was | now | why |"
        yield "| --- | --- | --- | --- | --- |"
        for one in changes:
            why = message(one.new) if one.new and one.now != "pass" else ""
            cells = (one.machine, one.scenario, one.was, one.now, why)
            yield f"| {' | '.join(map(markdown, cells))} |"
        if folded:
            yield ""
            yield "</details>"


def as_json(comparison: Comparison) -> str:
    """For a program: the changes by kind."""
    value = {
        "verdict": comparison.verdict,
        "exit_status": comparison.status.value,
        "notes": comparison.notes,
        **{
            kind.name.lower(): [
                {
                    "machine": one.machine,
                    "scenario": one.scenario,
                    "was": one.was,
                    "now": one.now,
                    "why": message(one.new) if one.new and one.now != "pass" else "",
                    "replay": line(one.new.replay) if one.new else "",
                }
                for one in changes
            ]
            for kind, changes in comparison.changes.items()
        },
    }
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
