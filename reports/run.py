"""One run, read from its result stream: what every report is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from conformance import results
from conformance.accounts import account
from conformance.known import KnownFailures, Standing
from conformance.results import Footer, Header, KnownFailure, Result, ResultsError, SubjectRecord
from conformance.verdict import ExitStatus, Verdict, exit_status, tally
from reports.text import few, line

#: The verdicts, the gravest first.
GRAVITY: Final = (Verdict.FAIL, Verdict.UNKNOWN, Verdict.PASS, Verdict.SKIP)


def verdict_of(result: Result) -> Verdict:
    """The verdict of a result; an unknown word is ``UNKNOWN``, never a pass."""
    try:
        return Verdict(result.verdict)
    except ValueError:
        return Verdict.UNKNOWN


@dataclass(frozen=True)
class Run:
    """The records of a stream. If the stream ended early, ``footer`` is ``None``, ``cut_off`` says
    why, ``results`` are those that arrived, and ``ended`` is the exit status of the process that
    wrote them, if it is known. ``subjects``: those of a run on many nodes, by machine, where they
    differ from the header's."""

    header: Header
    results: tuple[Result, ...]
    footer: Footer | None
    cut_off: str = ""
    ended: ExitStatus | None = None
    subjects: Mapping[str, SubjectRecord] = field(default_factory=dict)

    @cached_property
    def counts(self) -> Mapping[Verdict, int]:
        """How often each verdict occurs, counted here; all four are present."""
        return tally(map(verdict_of, self.results))

    @cached_property
    def ordered(self) -> tuple[Result, ...]:
        """The results by gravity, area, scenario and machine, however the workers ran them."""
        places = {name: place for place, name in enumerate(self.machines)}
        return tuple(
            sorted(
                self.results,
                key=lambda r: (
                    GRAVITY.index(verdict_of(r)), r.area, r.scenario, places[r.machine.name],
                ),
            )
        )  # fmt: skip

    @cached_property
    def machines(self) -> tuple[str, ...]:
        """The names of the machines: those the header announces, then any others."""
        names = dict.fromkeys(self.header.machines)
        names.update(dict.fromkeys(result.machine.name for result in self.results))
        return tuple(names)

    @cached_property
    def by_machine(self) -> Mapping[str, tuple[Result, ...]]:
        """The results as they came, by the machine's name: all of :attr:`machines`."""
        groups: dict[str, list[Result]] = {name: [] for name in self.machines}
        for result in self.results:
            groups[result.machine.name].append(result)
        return {name: tuple(results) for name, results in groups.items()}

    @cached_property
    def known(self) -> KnownFailures:
        """The failures that were known before the run, on the day that it began."""
        return KnownFailures.at(self.header.known, self.header.started)

    @cached_property
    def standings(self) -> Mapping[Standing, tuple[Result, ...]]:
        """The results, ordered, by their standing beside the list of known failures; all standings
        are present. ``FAIL`` has the broken promises that are not listed."""
        groups: dict[Standing, list[Result]] = {standing: [] for standing in Standing}
        for result in self.ordered:
            groups[self.known.standing(result)].append(result)
        return {standing: tuple(found) for standing, found in groups.items()}

    @cached_property
    def known_results(self) -> tuple[tuple[Result, KnownFailure], ...]:
        """Every known failure that showed, and every one that passed, with its entry."""
        shown = (*self.standings[Standing.KNOWN], *self.standings[Standing.FIXED])
        entries = ((result, self.known.entry(result)) for result in shown)
        return tuple((result, entry) for result, entry in entries if entry is not None)

    @cached_property
    def idle(self) -> tuple[str, ...]:
        """The machines that were named and on which no scenario applied."""
        return tuple(map(line, self.footer.idle)) if self.footer else ()

    @cached_property
    def contradiction(self) -> str:
        """Where the footer says something else than the results do, in words; else ``""``."""
        if self.footer is None:
            return ""
        counted = {verdict.value: count for verdict, count in self.counts.items()}
        claimed = dict.fromkeys(counted, 0) | self.footer.counts
        if claimed != counted:
            return f"its footer counts {_listed(claimed)}, its results are {_listed(counted)}"
        status = self.footer.exit_status
        if status not in set(ExitStatus):
            return f"its footer has the unknown exit status {status}"
        met = {standing: len(found) for standing, found in self.standings.items()}
        possible = self.known.status(met, idle=self.idle, part=bool(self.part))
        if status == ExitStatus.CONFORMANT != possible:
            return f"its footer claims conformance, its results are {_listed(counted)}"
        return ""

    @cached_property
    def status(self) -> ExitStatus:
        """The exit status. Of a stream that is cut off or contradicts itself only a broken promise
        counts; all else is ``COULD_NOT_TELL``."""
        if self.footer is not None and not self.contradiction:
            return ExitStatus(self.footer.exit_status)
        if self.footer is None and self.ended is not None:
            return self.ended
        if self.standings[Standing.FAIL] or self.standings[Standing.FIXED]:
            return ExitStatus.NOT_CONFORMANT
        return ExitStatus.COULD_NOT_TELL

    @cached_property
    def witnesses(self) -> Mapping[str, int]:
        """What judged the results besides the promise in words, and how many each."""
        named = (line(result.witness) for result in self.results if result.witness)
        return dict(Counter(named).most_common())

    @cached_property
    def part(self) -> str:
        """Which shards these results are, where some are missing; else ``""``."""
        shard = self.header.shard
        return str(shard) if shard is not None and shard.missing else ""

    @cached_property
    def caution(self) -> str:
        """One sentence on why this run is not whole; ``""`` where it is."""
        if self.cut_off:
            return f"This run was cut off; the results up to there are shown. {self.cut_off}."
        if self.contradiction:
            return f"This result stream contradicts itself: {line(self.contradiction)}."
        return f"This is a part of a run: {self.part}." if self.part else ""

    @cached_property
    def verdict(self) -> str:
        """The verdict in words, one sentence. A promise counts once for each machine."""
        kept = self.counts[Verdict.PASS]
        parts = ["1 promise kept" if kept == 1 else f"{kept} promises kept"]
        for standing, words in _AND.items():
            if standing is Standing.FAIL:
                parts += self._failures_in_words
            elif count := len(self.standings[standing]):
                parts.append(f"{count} {words}")
        if expired := self.known.expired:
            ids = few([line(one.scenario) for one in expired])
            parts.append(f"{len(expired)} past the date in the list of known failures ({ids})")
        if self.idle:
            parts.append(f"no scenario applied on {few(self.idle)}")
        status = self._status_in_words
        if self.part and self.status is ExitStatus.CONFORMANT:
            status = f"Conformant in {self.part}"
            if not kept:
                status = f"Too few scenarios ran for a verdict in {self.part} alone"
        return f"{status}: {', '.join(parts)}."

    @property
    def _failures_in_words(self) -> list[str]:
        """How many promises are broken, and how many nodes only differ from their oracle."""
        found = self.standings[Standing.FAIL]
        differ = sum(one.failure is not None and not account(one.failure).promised for one in found)
        parts = [f"{broken} broken"] if (broken := len(found) - differ) else []
        if differ:
            parts.append(f"{differ} where the node differs from its oracle")
        return parts

    @property
    def _status_in_words(self) -> str:
        """The status. After ``NOT_RESTORED`` follows the status by the results alone."""
        if self.status is not ExitStatus.NOT_RESTORED:
            return _IN_WORDS[self.status]
        met = {
            Verdict.PASS: self.counts[Verdict.PASS],
            Verdict.FAIL: len(self.standings[Standing.FAIL]),
            Verdict.UNKNOWN: len(self.standings[Standing.UNKNOWN]),
        }
        judged = ExitStatus.COULD_NOT_TELL if self.cut_off else exit_status(met)
        return f"{_IN_WORDS[self.status]}. {_IN_WORDS[judged]}"


_AND: Final = {
    Standing.FIXED: "of them listed as known failures",
    Standing.FAIL: "broken",
    Standing.KNOWN: "broken as is known",
    Standing.UNKNOWN: "without an answer",
    Standing.SKIP: "skipped",
}
_IN_WORDS: Final = {
    ExitStatus.CONFORMANT: "Conformant",
    ExitStatus.NOT_CONFORMANT: "Not conformant",
    ExitStatus.USAGE: "Wrong usage, so the run did not take place as asked",
    ExitStatus.COULD_NOT_TELL: "Could not tell",
    ExitStatus.TOO_FEW: "Too few scenarios ran for a verdict",
    ExitStatus.NOT_RESTORED: "A node was not left as it was found (see `pinproof restore`)",
}


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if count) or "none"


def load(path: Path, *, ended: int | None = None) -> Run:
    """Read a result stream; ``ended`` is the exit status of the run that wrote it, if known.

    A stream that breaks off, or turns into something else, after its header gives a run whose
    ``cut_off`` says where. Raises :class:`conformance.results.ResultsError` where there is no
    header to start from.
    """
    header: Header | None = None
    footer: Footer | None = None
    arrived: list[Result] = []
    cut_off = ""
    try:
        for record in results.read(path):
            match record:
                case Header():
                    header = record
                case Result():
                    arrived.append(record)
                case Footer():
                    footer = record
    except ResultsError as error:
        if header is None:
            raise
        cut_off, footer = line(str(error)), None
    assert header is not None, "results.read raises without a header"
    known = ExitStatus(ended) if ended in set(ExitStatus) else None
    return Run(header, tuple(arrived), footer, cut_off, known)
