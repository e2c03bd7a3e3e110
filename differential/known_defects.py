"""Defects of released kubelets, each shown by one command: docs/tables/found-in-the-wild.md.

    python -m differential.known_defects > docs/tables/found-in-the-wild.md

A scenario whose promise begins with "A known defect" says what a release does. Here each is walked
on the model of a release that has it, and the page names the recording of a real kubelet that did
the same. ``hunting.defects`` recognises the defects by which a history breaks a promise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from conformance.catalogue import catalogue
from conformance.judge import Case, Judgement, judge
from conformance.kubelets.releases import KNOWN_GOOD
from conformance.lockstep import Seen
from conformance.oracle import ModelOracle
from conformance.recording import Recording, shipped
from conformance.scenario import Scenario
from conformance.subjects.reference import ReferenceSubject
from differential import markdown
from differential.markdown import table
from hunting.advising.known import MARK
from hunting.telling import capitalised, held_text
from reference.releases import Release
from reference.view import View
from topologies import Machine, machine

#: Machines on which a person can follow a story, in the order in which they are tried. The last
#: one has cores of one CPU and of two.
_SMALL: Final = ("1s-1n-4c-smt2", "2s-2n-16c-smt2", "1s-1n-4c-smt2-off7")


@dataclass(frozen=True, slots=True)
class Shown:
    """A defect, the release and machine that show it, how the kubelet was configured, what
    happened, and the kubelet whose recording did the same (``""``: none was recorded there)."""

    scenario: Scenario
    release: str
    machine: str
    setting: str
    story: tuple[Seen, ...]
    kubelet: str

    @property
    def command(self) -> str:
        """The command that shows it on a kubelet of the release."""
        where = "" if self.scenario.machine else f" --machine {self.machine}"
        return f"pinproof run --subject kubelet:{self.release}{where} -k {self.scenario.id}"


def defects() -> list[Scenario]:
    """The scenarios that state a defect, in the order of the catalogue."""
    return [one for one in catalogue() if one.promise.startswith(MARK)]


def shown(scenario: Scenario) -> Shown:
    """The defect on the newest kubelet that can be built and has it, preferably a recorded one."""
    found = sorted(_candidates(scenario), key=lambda one: not one.kubelet)
    if not found:
        raise LookupError(f"{scenario.id}: no release that can be built has it")
    return found[0]


def _candidates(scenario: Scenario) -> Iterator[Shown]:
    for minor in sorted(KNOWN_GOOD, reverse=True):
        release = f"1.{minor.minor}"
        if not has_defect(scenario, minor.minor):
            continue
        recording = shipped(release)
        for name in (scenario.machine,) if scenario.machine else _SMALL:
            walked = _walked(scenario, machine(name), release)
            if walked.result.verdict == "pass":
                kubelet = _witness(recording, scenario, machine(name))
                setting = walked.result.steps[0]
                yield Shown(scenario, release, name, setting, walked.history, kubelet)


def has_defect(scenario: Scenario, minor: int) -> bool:
    """Whether 1.``minor`` has the defect."""
    last = Release.parse(scenario.until).minor if scenario.until else minor
    return Release.parse(scenario.since).minor <= minor <= last


def _walked(scenario: Scenario, on: Machine, release: str) -> Judgement:
    oracle = partial(ModelOracle, release=release)
    subject = ReferenceSubject(release=release)
    return judge(Case(scenario, on), subject, oracle=oracle, release=release)


def _witness(recording: Recording | None, scenario: Scenario, on: Machine) -> str:
    if recording is None or recording.case(scenario.id, on) is None:
        return ""
    return recording.header.version


def page() -> str:
    every = [shown(one) for one in defects() if _can_be_built(one)]
    parts = [
        "# Found in the wild",
        "Each section is a defect of Kubernetes releases that the suite shows on an unmodified "
        "kubelet. It has the command that shows the defect on a kubelet that pinproof builds, and "
        "what happens in each step. `python -m differential.known_defects` writes this page.",
        table(("defect", "releases", "shown on"), map(_row, every)),
        *(part for one in every for part in _section(one)),
    ]
    return markdown.page(parts)


def _can_be_built(scenario: Scenario) -> bool:
    return any(has_defect(scenario, minor.minor) for minor in KNOWN_GOOD)


def _row(one: Shown) -> tuple[str, str, str]:
    scenario, seen = one.scenario, f"the model of {one.release}"
    if one.kubelet:
        seen = f"kubelet {one.kubelet}"
    return f"[`{scenario.id}`](#{scenario.id.replace('/', '')})", _releases(scenario), seen


def _releases(scenario: Scenario) -> str:
    if scenario.since == scenario.until:
        return scenario.since
    return f"{scenario.since} to {scenario.until}" if scenario.until else f"{scenario.since} on"


def _section(one: Shown) -> Iterator[str | list[str]]:
    scenario = one.scenario
    promise = scenario.promise.removeprefix(MARK).lstrip(":. ").replace("\n", " ")
    yield f"## {scenario.id}"
    yield (
        f"**{scenario.title}** ({_releases(scenario)}). {capitalised(promise)} "
        f"[{scenario.source.text}]({scenario.source.url})."
    )
    yield ["```console", one.command, "```"]
    yield f"{capitalised(one.setting)}:"
    yield [
        f"{number}. {capitalised(seen.step)}. {_state(seen.view)}".rstrip()
        for number, seen in enumerate(one.story, start=1)
    ]


def _state(view: View) -> str:
    if view.hangs:
        return "**The kubelet hangs.**"
    if view.error:
        return f"The kubelet refuses to start: `{view.error}`"
    return held_text(view)


if __name__ == "__main__":
    sys.stdout.write(page())
