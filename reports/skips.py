"""What was skipped and why: each reason once, with its machines and scenarios."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from conformance.verdict import Verdict
from reports.run import Run, verdict_of
from reports.text import line


@dataclass(frozen=True, slots=True)
class SkipPlace:
    """Scenarios that one reason keeps off the same machines; ``anchor`` is unique in a run."""

    anchor: str
    machines: tuple[str, ...]
    scenarios: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skip:
    """A reason, with how many results it skipped."""

    reason: str
    count: int
    places: tuple[SkipPlace, ...]


#: The places of each scenario, by its id.
Places: TypeAlias = Mapping[str, tuple[SkipPlace, ...]]


def skips(run: Run) -> tuple[Skip, ...]:
    """Every reason of the run, those of most results first."""
    machines: dict[tuple[str, str], list[str]] = defaultdict(list)
    for result in run.ordered:
        if verdict_of(result) is Verdict.SKIP:
            reason = line(result.reason) or "no reason given"
            machines[reason, result.scenario].append(result.machine.name)
    grouped: dict[str, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for (reason, scenario), names in machines.items():
        grouped[reason][tuple(names)].append(scenario)
    found, before = [], 0
    for reason, alike in grouped.items():
        kept_off = tuple(
            SkipPlace(f"k{number}", names, tuple(scenarios))
            for number, (names, scenarios) in enumerate(alike.items(), before + 1)
        )
        before += len(kept_off)
        count = sum(len(one.machines) * len(one.scenarios) for one in kept_off)
        found.append(Skip(reason, count, kept_off))
    return tuple(sorted(found, key=lambda skip: -skip.count))


def places(skipped: Iterable[Skip]) -> Places:
    """The places of each scenario that was skipped, by its id."""
    by_scenario: dict[str, list[SkipPlace]] = defaultdict(list)
    for skip in skipped:
        for place in skip.places:
            for scenario in place.scenarios:
                by_scenario[scenario].append(place)
    return {scenario: tuple(found) for scenario, found in by_scenario.items()}
