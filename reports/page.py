"""What the HTML report shows, as plain values: causes, columns, rows, and what was left out."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, TypeAlias, TypeVar

from conformance.known import Standing
from conformance.results import MachineRecord, Result
from conformance.verdict import Verdict
from reports.causes import Cause, causes
from reports.holdings import drawable, drawn_on, pictures, seen_owners
from reports.nodes import Group, groups
from reports.run import GRAVITY, Run, verdict_of
from reports.skips import Places, Skip, SkipPlace, places, skips
from reports.stories import known_as
from reports.text import line, many, tail, web_link
from topologies import drawing

#: Limits in characters, so that a mail can carry the report. Beyond them pictures (of causes, then
#: of machines), stories with replay commands, and log excerpts are left out. The place of a picture
#: or an excerpt says so.
PICTURES: Final = 30_000
STORIES: Final = 30_000
EVIDENCE: Final = 40_000
EVIDENCE_EACH: Final = 16_000
#: How many causes start unfolded.
OPEN: Final = 3
#: Pictures of more CPUs than this stand below each other.
SIDE_BY_SIDE: Final = 64
#: How many moments of an allocation are shown: the last ones.
MOMENTS: Final = 12
#: How many scenarios are named under a cause.
HITS: Final = 400

K = TypeVar("K")
V = TypeVar("V")
_LEFT_OUT: Final = "The picture was left out to keep this file small."
#: Names by what they have in common.
Names: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
#: Errors, with how often each was given.
Errors: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """A scenario that a cause hits, with the machines. ``story`` is its whole story as text;
    ``replay`` and ``story`` are ``""`` where they were left out."""

    scenario: str
    machines: tuple[str, ...]
    replay: str
    story: str


@dataclass(frozen=True, slots=True)
class CauseEntry:
    """One cause, with the story of the result that shows it most simply. ``place`` is a short
    anchor within this page; ``pictures`` are (caption, SVG); ``moments`` (step, strip of CPUs)."""

    anchor: str
    place: str
    verdict: Verdict
    cause: Cause
    link: str
    pictures: tuple[tuple[str, str], ...]
    undrawn: str
    moments: tuple[tuple[str, drawing.Strip], ...]
    evidence: str
    hits: tuple[Hit, ...]

    @property
    def result(self) -> Result:
        return self.cause.example

    @property
    def legend(self) -> tuple[tuple[str, str], ...]:
        """Tag and name of each owner of the moments."""
        parts = (part for _, strip in self.moments for part in strip.parts if part.tag)
        return tuple(dict.fromkeys((part.tag, part.owner) for part in parts))

    @property
    def wide(self) -> bool:
        """Whether its pictures need the whole width of the page each."""
        return len(drawn_on(self.result).cpus) > SIDE_BY_SIDE


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of the matrix. ``verdict`` is ``None`` where nothing ran; ``href`` and ``place``
    are the anchors of its cause, if it has one."""

    verdict: Verdict | None
    href: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario: its line of the matrix, and its entry in the list of scenarios. ``source`` is
    its place in :attr:`Page.sources`, from 1 on, 0 where its source has no link. ``steps`` are
    those of the first result that has any; ``skips`` say where it was skipped."""

    anchor: str
    scenario: Result
    source: int
    cells: tuple[Cell, ...]
    steps: Result | None
    skips: tuple[SkipPlace, ...]

    @property
    def verdicts(self) -> list[str]:
        """The verdicts that occur, gravest first: what the page filters by."""
        met = {cell.verdict for cell in self.cells}
        return [verdict.value for verdict in GRAVITY if verdict in met]

    @property
    def differs(self) -> bool:
        """Whether its verdict is not the same in every column."""
        return len({cell.verdict for cell in self.cells}) > 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Errors that a kubelet gave where that was the promise. ``errors`` are (errors, with how often
    each was given; machines), those of most machines first."""

    scenario: Result
    link: str
    errors: tuple[tuple[Errors, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class MachineEntry:
    """One machine, or several nodes of equal machine and configuration with equal verdicts
    (``nodes`` has their names); ``record`` is ``None`` where nothing ran on it. ``is_left_out``:
    there is no room for its picture. ``witnesses``: what judged the results on it, and
    how many each. ``others``: how many nodes have the same machine and configuration, and other
    verdicts."""

    anchor: str
    name: str
    nodes: tuple[str, ...]
    record: MachineRecord | None
    totals: str
    picture: str
    is_left_out: bool
    witnesses: tuple[tuple[str, int], ...]
    counts: Mapping[Verdict, int]
    kubelet: str
    others: int


@dataclass(frozen=True, slots=True)
class Page:
    """The whole report. ``sources``: the name and the link of each source of a scenario. Many
    scenarios share one, so a link stands once for all of them."""

    run: Run
    areas: tuple[tuple[str, tuple[Row, ...]], ...]
    sources: tuple[tuple[str, str], ...]
    broken: tuple[CauseEntry, ...]
    unknown: tuple[CauseEntry, ...]
    known: tuple[CauseEntry, ...]
    refusals: tuple[Refusal, ...]
    skips: tuple[Skip, ...]
    machines: tuple[MachineEntry, ...]

    @property
    def listed(self) -> Names:
        """Each entry of the list of known failures, with its results. Entries that pass come last,
        and say so."""
        said = {Standing.KNOWN: "", Standing.FIXED: "; it passes: remove it from the list"}
        pairs = (
            (f"{known_as(entry)}{more}", f"{one.scenario} on {one.machine.name}")
            for one, entry in self.run.known_results
            for more in (said[self.run.known.standing(one)],)
        )
        return tuple((key, tuple(names)) for key, names in _grouped(pairs).items())

    @property
    def of_nodes(self) -> bool:
        """Whether its machines are real nodes."""
        return self.run.header.subject.name.startswith("node:") or bool(self.run.subjects)

    @property
    def is_folded(self) -> bool:
        return len(self.machines) < len(self.run.machines)

    @property
    def broken_nodes(self) -> int:
        """How many nodes or machines broke a promise."""
        broke = (entry for entry in self.machines if entry.counts[Verdict.FAIL])
        return sum(len(entry.nodes) for entry in broke)

    @property
    def differing(self) -> bool:
        """Whether some scenario has different verdicts in two columns."""
        return any(row.differs for _, rows in self.areas for row in rows)


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
        """Whether there is room for ``size`` more, which is then taken. The first that does not fit
        ends the budget, so that the rest need not be made."""
        fits = size <= self.left
        self.left = self.left - size if fits else 0
        return fits


def page(run: Run) -> Page:
    anchors = _Anchors()
    teller = _Teller(anchors)
    broken, unknown, known = (
        tuple(map(teller.entry, causes(run.standings[standing], run.standings[Standing.PASS])))
        for standing in (Standing.FAIL, Standing.UNKNOWN, Standing.KNOWN)
    )
    everything = broken + unknown + known
    links = {id(result): it for it in everything for result in it.cause.results}
    columns, skipped = groups(run), skips(run)
    named = {(one.source, one.source_url) for one in run.ordered}
    linked = {(line(name), web_link(url)) for name, url in named}
    sources = tuple(sorted(one for one in linked if all(one)))
    return Page(
        run=run,
        areas=_areas(run, columns, links, places(skipped), sources, anchors),
        sources=sources,
        broken=broken,
        unknown=unknown,
        known=known,
        refusals=_refusals(run),
        skips=skipped,
        machines=_machines(columns, anchors, teller.drawings),
    )


class _Teller:
    """Makes the entries of causes, within what the page may hold."""

    def __init__(self, anchors: _Anchors) -> None:
        self._anchors, self._count = anchors, 0
        self.drawings, self._logs = _Budget(PICTURES), _Budget(EVIDENCE)
        self._stories = _Budget(STORIES)

    def entry(self, cause: Cause) -> CauseEntry:
        result = cause.example
        verdict = verdict_of(result)
        drawn, undrawn = _drawn(result, self.drawings)
        evidence = tail(result.evidence, EVIDENCE_EACH)
        if not self._logs.allows(len(evidence)):
            evidence = "Left out to keep this file small: see result.jsonl."
        self._count += 1
        return CauseEntry(
            place=f"c{self._count}",
            anchor=self._anchors.make(verdict.value, result.scenario, result.machine.name),
            verdict=verdict,
            cause=cause,
            link=web_link(result.source_url),
            pictures=drawn,
            undrawn=undrawn,
            moments=_moments(result) if drawn else (),
            evidence=evidence,
            hits=tuple(self._hits(cause)),
        )

    def _hits(self, cause: Cause) -> Iterable[Hit]:
        by_scenario = _grouped((result.scenario, result) for result in cause.results)
        for scenario, results in list(by_scenario.items())[:HITS]:
            first = next((one for one in results if one is cause.example), results[0])
            story = first.explanation if first is not cause.example else ""
            yield Hit(
                scenario=scenario,
                machines=tuple(dict.fromkeys(result.machine.name for result in results)),
                replay=first.replay if self._stories.allows(len(first.replay)) else "",
                story=story if self._stories.allows(len(story)) else "",
            )


def _drawn(result: Result, budget: _Budget) -> tuple[tuple[tuple[str, str], ...], str]:
    drawn = pictures(result)
    if drawn is None:
        held = result.failure and (result.failure.expected_holdings or result.failure.seen_holdings)
        return (), "" if drawable(drawn_on(result)) or not held else "This machine cannot be drawn."
    if not budget.left:
        return (), _LEFT_OUT
    svgs = tuple(
        (caption, drawing.svg(drawn.cpus, owners, highlight=drawn.marked))
        for caption, owners in drawn.sides.items()
    )
    if not budget.allows(sum(len(svg) for _, svg in svgs)):
        return (), _LEFT_OUT
    return svgs, ""


def _moments(result: Result) -> tuple[tuple[str, drawing.Strip], ...]:
    """The steps that led to the allocation; none where the first step made it."""
    moments = result.failure.moments if result.failure else []
    if len(moments) < 2:
        return ()
    machine = drawn_on(result)
    shown = moments[-MOMENTS:]
    strips = drawing.strips(machine.cpus, [seen_owners(one.holdings, result) for one in shown])
    return tuple(zip((one.step for one in shown), strips, strict=True))


def _machines(
    found: tuple[Group, ...], anchors: _Anchors, budget: _Budget
) -> tuple[MachineEntry, ...]:
    drawn = _pictures([group.first.record for group in found], budget)
    entries = []
    for group in found:
        digest = group.first.record.digest if group.first.record else ""
        is_left_out = drawn.get(digest) == ""
        entries.append(_machine(group, drawn.pop(digest, ""), is_left_out, anchors))
    return tuple(entries)


def _pictures(records: Iterable[MachineRecord | None], budget: _Budget) -> dict[str, str]:
    """The pictures by digest; ``""`` where there is no room. The smallest machines come first, so
    that many are drawn."""
    machines = {one.digest: one for one in records if one is not None and drawable(one)}
    drawn = {}
    for digest, record in sorted(machines.items(), key=lambda item: len(item[1].cpus)):
        picture = drawing.svg(record.cpus) if budget.left else ""
        drawn[digest] = picture if budget.allows(len(picture)) else ""
    return drawn


def _machine(group: Group, picture: str, is_left_out: bool, anchors: _Anchors) -> MachineEntry:
    node = group.first
    judged = Counter(line(one.witness) for one in node.results.values() if one.witness)
    kubelet = (node.subject.version or node.subject.release, node.subject.digest[:19])
    return MachineEntry(
        anchor=anchors.make("machine", node.name),
        name=node.name,
        nodes=tuple(one.name for one in group.nodes),
        record=node.record,
        totals=_totals(node.record) if node.record else "",
        picture=picture,
        is_left_out=is_left_out,
        witnesses=tuple(judged.most_common()),
        counts=node.counts,
        kubelet=" ".join(filter(None, kubelet)),
        others=group.others,
    )


def _totals(record: MachineRecord) -> str:
    places = list(record.cpus.values())
    counts = {
        "NUMA node": len({numa for numa, _, _, _ in places}),
        "socket": len({socket for _, socket, _, _ in places}),
        "physical core": len({(socket, core) for _, socket, core, _ in places}),
        "uncore cache": len({cache for _, _, _, cache in places}),
        "CPU": len(places),
    }
    return ", ".join(many(count, kind) for kind, count in counts.items())


def _grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    groups: dict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def _areas(
    run: Run,
    groups: tuple[Group, ...],
    links: Mapping[int, CauseEntry],
    skipped: Places,
    sources: Sequence[tuple[str, str]],
    anchors: _Anchors,
) -> tuple[tuple[str, tuple[Row, ...]], ...]:
    numbers = {source: number for number, source in enumerate(sources, start=1)}
    columns = [group.first.results for group in groups]
    by_scenario = _grouped(((result.area, result.scenario), result) for result in run.ordered)
    rows = _grouped(
        (area, _row(anchors.make("s", scenario), results, columns, links, skipped, numbers))
        for (area, scenario), results in sorted(by_scenario.items(), key=itemgetter(0))
    )
    return tuple((area, tuple(found)) for area, found in rows.items())


def _row(
    anchor: str,
    results: list[Result],
    columns: Sequence[Mapping[str, Result]],
    links: Mapping[int, CauseEntry],
    skipped: Places,
    sources: Mapping[tuple[str, str], int],
) -> Row:
    source = line(results[0].source), web_link(results[0].source_url)
    return Row(
        anchor=anchor,
        scenario=results[0],
        source=sources.get(source, 0),
        cells=tuple(_cell(column.get(results[0].scenario), links) for column in columns),
        steps=next((result for result in reversed(results) if result.steps), None),
        skips=skipped.get(results[0].scenario, ()),
    )


def _cell(result: Result | None, links: Mapping[int, CauseEntry]) -> Cell:
    if result is None:
        return Cell(None)
    cause = links.get(id(result))
    if cause is None:
        return Cell(verdict_of(result))
    return Cell(verdict_of(result), cause.anchor, cause.place)


def _refusals(run: Run) -> tuple[Refusal, ...]:
    scenarios = _grouped(
        (result.scenario, result)
        for result in run.ordered
        if result.kubelet_errors and verdict_of(result) is Verdict.PASS
    )
    return tuple(
        Refusal(found[0], web_link(found[0].source_url), _errors(found))
        for found in scenarios.values()
    )


def _errors(results: Iterable[Result]) -> tuple[tuple[Errors, tuple[str, ...]], ...]:
    groups = _grouped(
        (tuple(Counter(result.kubelet_errors).items()), result.machine.name) for result in results
    )
    found = ((errors, tuple(machines)) for errors, machines in groups.items())
    return tuple(sorted(found, key=lambda group: -len(group[1])))
