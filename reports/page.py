"""What the HTML report shows, as plain values: anchors, groups, pictures, and what was left out.

What belongs here: choosing and arranging. What never does: markup; every string here is as it came
from the stream, and the template's environment cleans and escapes it on the way out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, TypeAlias, TypeVar

from conformance.results import MachineRecord, Result
from conformance.verdict import Verdict
from reports.holdings import drawable, drawn_on, pictures
from reports.run import GRAVITY, Run, verdict_of
from reports.text import line, tail, web_link
from topologies import drawing

#: A report stays a file that a mail carries: beyond so many characters the pictures of machines,
#: those of stories, and log excerpts are left out, and the place where they would be says so.
PICTURES: Final = 4_000_000
EVIDENCE: Final = 4_000_000
EVIDENCE_EACH: Final = 64_000
#: With more stories than this the page starts with them folded.
OPEN: Final = 12
#: Pictures of more CPUs than this stand below each other.
SIDE_BY_SIDE: Final = 64

K = TypeVar("K")
V = TypeVar("V")
#: Names by what they have in common.
Names: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
#: Errors, with how often each was given.
Errors: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Story:
    """One result that is shown in full. ``pictures`` are (caption, SVG)."""

    anchor: str
    verdict: Verdict
    result: Result
    link: str
    pictures: tuple[tuple[str, str], ...]
    undrawn: str
    evidence: str

    @property
    def wide(self) -> bool:
        """Whether its pictures need the whole width of the page each."""
        return len(drawn_on(self.result).cpus) > SIDE_BY_SIDE


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of the matrix. ``verdict`` is ``None`` where nothing ran."""

    machine: str
    verdict: Verdict | None
    href: str = ""
    seconds: float = 0.0
    times: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario: its line of the matrix, and its entry in the list of scenarios. ``steps`` are
    those of the first result that has any."""

    anchor: str
    scenario: Result
    link: str
    cells: tuple[Cell, ...]
    steps: Result | None
    skips: Names

    @property
    def verdicts(self) -> list[str]:
        """The verdicts that occur, gravest first: what the page filters by."""
        met = {cell.verdict for cell in self.cells}
        return [verdict.value for verdict in GRAVITY if verdict in met]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Errors that a kubelet gave where that was the promise. ``errors`` are (errors, with how often
    each was given; machines), those of most machines first."""

    scenario: Result
    link: str
    errors: tuple[tuple[Errors, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class MachineEntry:
    """One machine; ``record`` is ``None`` where nothing ran on it. ``witnesses``: what judged the
    results on it, and how many each."""

    anchor: str
    name: str
    record: MachineRecord | None
    totals: str
    picture: str
    witnesses: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The whole report."""

    run: Run
    areas: tuple[tuple[str, tuple[Row, ...]], ...]
    broken: tuple[Story, ...]
    unknown: tuple[Story, ...]
    refusals: tuple[Refusal, ...]
    skips: tuple[tuple[str, int, Names], ...]
    machines: tuple[MachineEntry, ...]
    folded: bool


@dataclass
class _Anchors:
    """Readable, unique ids: a link to one story still works in the next run's report."""

    _met: Counter[str] = field(default_factory=Counter)

    def make(self, *words: str) -> str:
        slug = re.sub(r"[^a-z0-9.]+", "-", "-".join(map(line, words)).lower())[:120].strip("-")
        self._met[slug] += 1
        return slug if self._met[slug] == 1 else f"{slug}--{self._met[slug]}"


@dataclass
class _Budget:
    left: int

    def allows(self, size: int) -> bool:
        """Whether there is room for ``size`` more; if so it is taken. The first that does not fit
        ends it, so that the rest is not made in vain."""
        fits = size <= self.left
        self.left = self.left - size if fits else 0
        return fits


def page(run: Run) -> Page:
    """Arrange the run."""
    anchors = _Anchors()
    drawings, logs = _Budget(PICTURES), _Budget(EVIDENCE)
    plain = _Budget(PICTURES)
    machines = tuple(_machine(run, name, anchors, plain) for name in run.machines)
    stories = [
        _story(result, anchors, drawings, logs)
        for result in run.ordered
        if verdict_of(result) in (Verdict.FAIL, Verdict.UNKNOWN)
    ]
    return Page(
        run=run,
        areas=_areas(run, stories, anchors),
        broken=tuple(story for story in stories if story.verdict is Verdict.FAIL),
        unknown=tuple(story for story in stories if story.verdict is Verdict.UNKNOWN),
        refusals=_refusals(run),
        skips=_skips(run),
        machines=machines,
        folded=len(stories) > OPEN,
    )


def _story(result: Result, anchors: _Anchors, drawings: _Budget, logs: _Budget) -> Story:
    verdict = verdict_of(result)
    drawn, undrawn = _drawn(result, drawings)
    evidence = tail(result.evidence, EVIDENCE_EACH)
    if not logs.allows(len(evidence)):
        evidence = "Left out to keep this file small: see result.jsonl."
    return Story(
        anchor=anchors.make(verdict.value, result.scenario, result.machine.name),
        verdict=verdict,
        result=result,
        link=web_link(result.source_url),
        pictures=drawn,
        undrawn=undrawn,
        evidence=evidence,
    )


def _drawn(result: Result, budget: _Budget) -> tuple[tuple[tuple[str, str], ...], str]:
    drawn = pictures(result)
    if drawn is None:
        held = result.failure and (result.failure.expected_holdings or result.failure.seen_holdings)
        return (), "This machine cannot be drawn." if held else ""
    left_out = "The picture was left out to keep this file small."
    if not budget.left:
        return (), left_out
    svgs = tuple(
        (caption, drawing.svg(drawn.cpus, owners, highlight=drawn.marked))
        for caption, owners in drawn.sides.items()
    )
    if not budget.allows(sum(len(svg) for _, svg in svgs)):
        return (), left_out
    return svgs, ""


def _machine(run: Run, name: str, anchors: _Anchors, budget: _Budget) -> MachineEntry:
    results = run.by_machine[name]
    record = results[0].machine if results else None
    picture = ""
    if record and drawable(record) and budget.left:
        picture = drawing.svg(record.cpus)
        picture = picture if budget.allows(len(picture)) else ""
    totals = _totals(record) if record else ""
    judged = Counter(line(one.witness) for one in results if one.witness)
    witnesses = tuple(judged.most_common())
    return MachineEntry(anchors.make("machine", name), name, record, totals, picture, witnesses)


def _totals(record: MachineRecord) -> str:
    places = list(record.cpus.values())
    counts = {
        "NUMA node": len({numa for numa, _, _, _ in places}),
        "socket": len({socket for _, socket, _, _ in places}),
        "physical core": len({(socket, core) for _, socket, core, _ in places}),
        "uncore cache": len({cache for _, _, _, cache in places}),
        "CPU": len(places),
    }
    return ", ".join(_many(count, kind) for kind, count in counts.items())


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    groups: dict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def _named(pairs: Iterable[tuple[str, str]]) -> Names:
    return tuple((key, tuple(names)) for key, names in _grouped(pairs).items())


def _areas(
    run: Run, stories: Iterable[Story], anchors: _Anchors
) -> tuple[tuple[str, tuple[Row, ...]], ...]:
    links = {id(story.result): story.anchor for story in stories}
    by_scenario = _grouped(((result.area, result.scenario), result) for result in run.ordered)
    rows = _grouped(
        (area, _row(anchors.make("scenario", scenario), results, run.machines, links))
        for (area, scenario), results in sorted(by_scenario.items(), key=itemgetter(0))
    )
    return tuple((area, tuple(found)) for area, found in rows.items())


def _row(anchor: str, results: list[Result], machines: Iterable[str], links: dict[int, str]) -> Row:
    by_machine = defaultdict(list, _grouped((one.machine.name, one) for one in results))
    return Row(
        anchor=anchor,
        scenario=results[0],
        link=web_link(results[0].source_url),
        cells=tuple(_cell(anchor, machine, by_machine[machine], links) for machine in machines),
        steps=next((result for result in reversed(results) if result.steps), None),
        skips=_named((_reason(one), one.machine.name) for one in _skipped(results)),
    )


def _cell(anchor: str, machine: str, here: list[Result], links: dict[int, str]) -> Cell:
    if not here:
        return Cell(machine, None)
    gravest = here[0]  # results come by gravity
    href = links.get(id(gravest), anchor)
    return Cell(machine, verdict_of(gravest), f"#{href}", gravest.seconds, len(here))


def _skipped(results: Iterable[Result]) -> Iterable[Result]:
    return (result for result in results if verdict_of(result) is Verdict.SKIP)


def _reason(result: Result) -> str:
    return line(result.reason) or "no reason given"


def _skips(run: Run) -> tuple[tuple[str, int, Names], ...]:
    reasons = _grouped((_reason(result), result) for result in _skipped(run.ordered))
    grouped = [
        (reason, len(results), _named((one.scenario, one.machine.name) for one in results))
        for reason, results in reasons.items()
    ]
    return tuple(sorted(grouped, key=lambda group: -group[1]))


def _refusals(run: Run) -> tuple[Refusal, ...]:
    scenarios = _grouped(
        (result.scenario, result)
        for result in run.ordered
        if verdict_of(result) is Verdict.PASS and result.kubelet_errors
    )
    return tuple(
        Refusal(results[0], web_link(results[0].source_url), _errors(results))
        for results in scenarios.values()
    )


def _errors(results: Iterable[Result]) -> tuple[tuple[Errors, tuple[str, ...]], ...]:
    groups = _grouped(
        (tuple(Counter(result.kubelet_errors).items()), result.machine.name) for result in results
    )
    found = ((errors, tuple(machines)) for errors, machines in groups.items())
    return tuple(sorted(found, key=lambda group: -len(group[1])))
