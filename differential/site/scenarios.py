"""A page for each scenario: what it promises, and its steps, walked by the model and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import topologies
from conformance.discovered import topology_of
from conformance.judge import Case, Judgement, judge
from conformance.lockstep import Seen
from conformance.recording import PromisesOnly, shipped
from conformance.scenario import Scenario
from conformance.subjects.reference import ReferenceSubject
from conformance.verdict import Verdict
from differential.markdown import page, table
from differential.site.catching import Catches, section
from pinproof.picture import Picture
from reference import NEWEST, CPUSet
from topologies import Machine

#: Machines on which a person can follow steps, smallest first.
SMALL: Final = ("1s-1n-4c-smt2", "2s-2n-16c-smt2", "2s-4n-64c-smt2")


def scenario_files(
    scenario: Scenario, cells: dict[str, str], catches: Catches
) -> Iterator[tuple[str, str]]:
    """Path and text of a scenario's page, and of its drawing where the model can walk it.
    ``cells`` has what each recorded release shows, as :func:`differential.site.atlas.row`."""
    release = scenario.until or NEWEST
    walked = _walked(scenario, release)
    picture = _picture(walked, release) if walked else ""
    if picture:
        yield f"scenarios/{scenario.id}.svg", picture
    yield (
        f"scenarios/{scenario.id}.md",
        _page(scenario, walked, cells, catches, drawn=bool(picture)),
    )


def _walked(scenario: Scenario, release: str) -> tuple[Machine, Judgement] | None:
    """The scenario on the smallest machine on which it applies."""
    for name in (scenario.machine,) if scenario.machine else SMALL:
        on = topologies.machine(name)
        done = judge(
            Case(scenario, on),
            ReferenceSubject(release=release),
            oracle=lambda *_args, **_kwargs: PromisesOnly(),
            release=release,
        )
        if done.result.verdict == Verdict.PASS.value:
            return on, done
    return None


def _picture(walked: tuple[Machine, Judgement], release: str) -> str:
    """The machine after the step with most exclusive CPUs; ``""`` if a step has changed the
    machine."""
    on, done = walked
    fullest = max(done.history, key=lambda seen: sum(map(len, _owners(seen).values())))
    topology = topology_of(on, release=release)
    owners = _owners(fullest)
    if any(cpu not in topology.details for cpus in owners.values() for cpu in cpus):
        return ""
    if fullest.view.running:
        owners["shared pool"] = fullest.view.shared_pool
    return Picture.of(on, topology, owners, release).svg()


def _owners(seen: Seen) -> dict[str, CPUSet]:
    return {
        f"{pod}/{container}": cpus
        for pod, containers in seen.view.assignments.items()
        for container, cpus in containers.items()
    }


def _page(
    scenario: Scenario,
    walked: tuple[Machine, Judgement] | None,
    cells: dict[str, str],
    catches: Catches,
    *,
    drawn: bool,
) -> str:
    span = f"{scenario.since} to {scenario.until or 'today'}"
    parts: list[str | list[str]] = [
        f"# {scenario.title}",
        f"`{scenario.id}` · {scenario.level.value} · {span} · [atlas](../../atlas/index.md)",
        scenario.promise,
        f"Promised in [{scenario.source.text}]({scenario.source.url}).",
        "## Steps",
    ]
    if walked is None:
        parts.append(f"The model walks it on no machine of {', '.join(SMALL)}.")
    else:
        on, done = walked
        steps = [f"{number}. {step}" for number, step in enumerate(done.result.steps, 1)]
        parts += [f"On `{on.name}`:", steps]
    if drawn:
        name = scenario.id.partition("/")[2]
        parts += ["When most CPUs are exclusive:", f"![The machine]({name}.svg)"]
    command = f"pinproof run --subject kubelet:{scenario.until or NEWEST} -k {scenario.id}"
    rows = [(release, _version(release), cell) for release, cell in cells.items()]
    parts += [
        "## Run it",
        ["```sh", command, "```"],
        *section(scenario.id, catches),
        "## What recordings of unmodified kubelets show",
        table(("release", "kubelet", "recorded"), rows),
    ]
    return page(parts)


def _version(release: str) -> str:
    """The exact version of the kubelet that was recorded."""
    recording = shipped(release)
    return recording.header.version if recording else ""
