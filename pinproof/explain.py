"""``pinproof explain``: scenarios and releases, in words."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

import topologies
from conformance.aliases import present
from conformance.catalogue import catalogue, find
from conformance.judge import Case, judge
from conformance.recording import PromisesOnly
from conformance.scenario import Scenario
from conformance.subject import SubjectUsageError
from conformance.subjects.reference import ReferenceSubject
from pinproof.completion import machine_names, scenario_ids
from pinproof.output import print_json
from pinproof.parameters import AsJson
from pinproof.releases import releases
from pinproof.run import unknown_scenario
from reference import NEWEST
from topologies import Machine

_RELEASE: Final = re.compile(r"[0-9]+\.[0-9.]+")


def explain(
    scenario: Annotated[
        str,
        typer.Argument(
            help="A scenario's id, or a release; without one, all ids.", autocompletion=scenario_ids
        ),
    ] = "",
    release: Annotated[str, typer.Argument(help="A release to compare with the first one.")] = "",
    machine: Annotated[
        str,
        typer.Option(
            help="The machine on which the steps are shown.", autocompletion=machine_names
        ),
    ] = "2s-2n-16c-smt2",
    as_json: AsJson = False,
) -> None:
    """Say what a scenario promises, where that is promised, and the steps it takes. Of a release,
    say what is new in it; of two, what differs between them."""
    if release or _RELEASE.fullmatch(scenario):
        releases(scenario, release, as_json=as_json)
        return
    if not scenario:
        _list_scenarios(as_json)
        return
    found = find(present(scenario))
    if found is None:
        raise SubjectUsageError(unknown_scenario(scenario, [one.id for one in catalogue()]))
    on = topologies.machine(found.machine or machine)
    steps = _steps(found, on)
    if as_json:
        print_json({**_facts(found), "machine": on.name, "steps": steps})
        return
    span = f"{found.since} to {found.until or 'today'}"
    typer.echo(f"{found.id} ({found.level.value}, {span})\n")
    typer.echo(f"  {found.title}.\n")
    for line in found.promise.splitlines():
        typer.echo(f"  {line}".rstrip())
    typer.echo(f"\n  promised in  {found.source.text}\n               {found.source.url}")
    typer.echo(f"\n  steps on {on.name}:")
    for number, step in enumerate(steps, 1):
        typer.echo(f"    {number:2}. {step}")


def _facts(scenario: Scenario) -> dict[str, str]:
    return {
        "id": scenario.id,
        "title": scenario.title,
        "level": scenario.level.value,
        "since": scenario.since,
        "until": scenario.until,
        "source": scenario.source.text,
        "url": scenario.source.url,
        "promise": scenario.promise,
    }


def _steps(scenario: Scenario, machine: Machine) -> list[str]:
    """The steps, found by letting the model take them."""
    result = judge(
        Case(scenario, machine),
        ReferenceSubject(),
        oracle=lambda *_args, **_kwargs: PromisesOnly(),
        release=NEWEST,
    ).result
    return result.steps or [f"none: {result.reason}"]


def _list_scenarios(as_json: bool) -> None:
    if as_json:
        print_json([_facts(one) for one in catalogue()])
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("scenario", overflow="fold")  # an id that is cut off cannot be given to -k
    table.add_column("promise")
    for one in catalogue():
        table.add_row(one.id, one.title)
    Console(highlight=False).print(table)
