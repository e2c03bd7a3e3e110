"""The atlas: which release kept which promise, as the recordings of unmodified kubelets have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from conformance.recording import recorded_releases, shipped
from conformance.scenario import Scenario
from differential import markdown
from differential.markdown import table
from hunting.advising.known import MARK
from reference.releases import NEWEST, Release

FIRST: Final = 17
NOT_PROMISED: Final = "not promised"
NO_RECORDING: Final = "no recording"


def releases() -> list[str]:
    """Every minor from 1.17 on."""
    return [f"1.{minor}" for minor in range(FIRST, Release.parse(NEWEST).minor + 1)]


def row(scenario: Scenario, counts: dict[str, Counter[str]]) -> dict[str, str]:
    """By recorded release, what its recording has of a scenario. A recording holds only cases that
    passed: the release has kept the promise of each."""
    return {release: _cell(scenario, release, counts[release]) for release in counts}


def _cell(scenario: Scenario, release: str, kept: Counter[str]) -> str:
    minor = Release.parse(release).minor
    last = Release.parse(scenario.until).minor if scenario.until else minor
    if scenario.of_fork or not Release.parse(scenario.since).minor <= minor <= last:
        return NOT_PROMISED
    machines = kept[scenario.id]
    if not machines:
        return NO_RECORDING
    word = "shown" if is_defect(scenario) else "kept"
    return f"{word} on {machines} machine{'s' if machines > 1 else ''}"


def is_defect(scenario: Scenario) -> bool:
    """Whether the scenario states what a release does wrong."""
    return scenario.promise.startswith(MARK)


def counts() -> dict[str, Counter[str]]:
    """By recorded release, how many machines each scenario was recorded on."""
    return {
        release: Counter(scenario for scenario, _ in recording.cases)
        for release in recorded_releases()
        if (recording := shipped(release))
    }


def page(scenarios: Sequence[Scenario]) -> str:
    """The atlas as one page: defects first, then promises, a row for each."""
    known = counts()
    absent = [release for release in releases() if release not in known]
    recorded = [
        (release, recording.header.version, f"`{recording.header.digest}`")
        for release in known
        if (recording := shipped(release))
    ]
    parts = [
        "# Atlas",
        "What unmodified kubelets did, as this project recorded them on machines of the "
        "catalogue. A recording holds only cases that passed in the same way each time. "
        f"`{NO_RECORDING}` means that nothing was recorded there; it says nothing of the kubelet. "
        f"`{NOT_PROMISED}` means that the scenario is made for other releases.",
        f"No recording was made of {', '.join(absent)}.",
        table(("release", "kubelet", "digest of the binary"), recorded),
        "A recording has no date of its own.",
        "## Defects",
        "Stories and commands: [found in the wild](../tables/found-in-the-wild.md).",
        _table([one for one in scenarios if is_defect(one)], known),
        "## Promises",
        _table([one for one in scenarios if not is_defect(one)], known),
    ]
    return markdown.page(parts)


def _table(scenarios: Sequence[Scenario], known: dict[str, Counter[str]]) -> list[str]:
    rows = (
        (f"[{one.title}](../scenarios/{one.id}.md)", *row(one, known).values()) for one in scenarios
    )
    return table(("scenario", *known), rows)
