"""``pinproof explain`` and ``machines``: what there is, in words."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import topologies
from conformance.describe import topology_text
from conformance.discovered import topology_of
from conformance.judge import Case, judge
from conformance.recording import PromisesOnly
from conformance.scenario import Scenario, catalogue, find
from conformance.subject import SubjectUsageError
from conformance.subjects.reference import ReferenceSubject
from pinproof.completing import machine_names, scenario_ids
from pinproof.run import unknown_scenario
from reference import NEWEST, DiscoveryError
from topologies import Machine
from topologies.errors import one_line


def explain(
    scenario: Annotated[
        str,
        typer.Argument(help="A scenario's id; without one, all ids.", autocompletion=scenario_ids),
    ] = "",
    machine: Annotated[
        str,
        typer.Option(
            help="The machine on which the steps are shown.", autocompletion=machine_names
        ),
    ] = "2s-2n-16c-smt2",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a scenario promises, where that is promised, and the steps it takes."""
    if not scenario:
        _list_scenarios(as_json)
        return
    found = find(scenario)
    if found is None:
        raise SubjectUsageError(unknown_scenario(scenario, [one.id for one in catalogue()]))
    on = topologies.machine(found.machine or machine)
    steps = _steps(found, on)
    if as_json:
        typer.echo(json.dumps({**_facts(found), "machine": on.name, "steps": steps}, indent=2))
        return
    typer.echo(f"{found.id} ({found.level.value}, {_span(found)})\n")
    typer.echo(f"  {found.title}.\n")
    for line in found.promise.splitlines():
        typer.echo(f"  {line}".rstrip())
    typer.echo(f"\n  promised in  {found.source.text}\n               {found.source.url}")
    typer.echo(f"\n  steps on {on.name}:")
    for number, step in enumerate(steps, 1):
        typer.echo(f"    {number:2}. {step}")


def _span(scenario: Scenario) -> str:
    return f"{scenario.since} to {scenario.until or 'today'}"


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
        typer.echo(json.dumps([_facts(one) for one in catalogue()], indent=2))
        return
    table = Table("scenario", "promise", box=None, pad_edge=False)
    for one in catalogue():
        table.add_row(one.id, one.title)
    Console(highlight=False).print(table)


def machines(
    pattern: Annotated[str, typer.Argument(help="A name or glob, or a path.")] = "all",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="List machines before and after a change.")
    ] = False,
    lint: Annotated[
        bool, typer.Option("--lint", help="Say where a machine contradicts itself.")
    ] = False,
) -> None:
    """List machines: their totals, and why they are here."""
    if pairs and lint:
        raise typer.BadParameter("--pairs and --lint are two questions")
    if pairs:
        _list_pairs(pattern, as_json)
    elif lint:
        _list_findings(pattern, as_json)
    else:
        _list_machines(pattern, as_json)


def _list_machines(pattern: str, as_json: bool) -> None:
    rows = [(machine, _totals(machine)) for machine in topologies.find(pattern)]
    if as_json:
        facts = [
            {"name": one.name, "totals": text, "why": one.why, "source": one.source,
             "digest": one.digest, **_said(one)}
            for one, text in rows
        ]  # fmt: skip
        typer.echo(json.dumps(facts, indent=2))
        return
    table = Table("machine", "totals", "why", box=None, pad_edge=False)
    for one, text in rows:
        table.add_row(*map(Text, map(one_line, (one.name, text, one.why))))
    Console(highlight=False).print(table)


def _said(machine: Machine) -> dict[str, str]:
    """What the catalogue says of kernel and kubelet."""
    if machine.name not in topologies.entry_names():
        return {}
    entry = topologies.catalogue_entry(machine.name)
    return {"kernel": entry.kernel, "kubelet": entry.kubelet} if entry.kernel else {}


def _list_pairs(pattern: str, as_json: bool) -> None:
    wanted = {machine.name for machine in topologies.find(pattern)}
    found = [pair for pair in topologies.pairs() if {pair.before, pair.after} & wanted]
    if as_json:
        facts = [
            {"before": pair.before, "after": pair.after, "change": pair.change.value}
            for pair in found
        ]
        typer.echo(json.dumps(facts, indent=2))
        return
    table = Table("change", "before", "after", box=None, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for pair in found:
        table.add_row(pair.change.value, pair.before, pair.after)
    Console(highlight=False).print(table)


def _list_findings(pattern: str, as_json: bool) -> None:
    found = [
        (machine.name, finding)
        for machine in topologies.find(pattern)
        for finding in topologies.lint(machine.tree)
    ]
    if as_json:
        facts = [{"machine": name, "path": one.path, "message": one.message} for name, one in found]
        typer.echo(json.dumps(facts, indent=2))
        return
    for name, finding in found:
        typer.echo(one_line(f"{name}: {finding}"))


def _totals(machine: Machine) -> str:
    try:
        return topology_text(topology_of(machine, release=NEWEST))
    except DiscoveryError as error:
        return f"the kubelet would not start: {error}"
