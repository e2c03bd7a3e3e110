"""``pinproof releases``: what changed in the CPU manager between two Kubernetes releases."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from conformance.subject import SubjectUsageError
from pinproof.output import AsJson, print_json
from reference.behaviours import Area, Behaviour
from reference.releases import Change, Release, behaviours, changes


def releases(
    before: Annotated[str, typer.Argument(help="A release: 1.31, or 1.31.5.")] = "",
    after: Annotated[str, typer.Argument(help="A release to compare with it.")] = "",
    as_json: AsJson = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table of docs/releases.md.")
    ] = False,
) -> None:
    """Say what differs between two releases, with sources. With one release, what it brought;
    with none, every named behaviour."""
    try:
        rows = _rows(before, after)
    except ValueError as error:
        raise SubjectUsageError(str(error)) from error
    if as_json:
        print_json([_facts(one) for one in rows])
    elif markdown:
        typer.echo(_markdown(rows), nl=False)
    else:
        _print(rows, before, after)


def _rows(before: str, after: str) -> list[Change]:
    if after:
        return changes(before, after)
    if before:
        asked = Release.parse(before)
        behaviours(asked)  # known at all
        earlier = Release(asked.minor - 1)
        if not earlier.known:
            return [Change(one, gained=True) for one in Behaviour if one in behaviours(asked)]
        return changes(earlier, asked)
    return [Change(one, gained=True) for one in Behaviour]


def _facts(change: Change) -> dict[str, object]:
    known = change.behaviour.value
    return {
        "name": change.behaviour.title,
        "area": known.area.value,
        "gained": change.gained,
        "releases": held_by(change.behaviour),
        "says": known.says,
        "source": known.source,
    }


def held_by(behaviour: Behaviour) -> str:
    """Which releases have it, in words: ``1.22 to 1.31``."""
    known = behaviour.value
    if known.since is None:
        return "no release"
    until = f" to {known.until}" if known.until else " on"
    return ", ".join([f"{known.since}{until}", *known.backports])


def _print(rows: list[Change], before: str, after: str) -> None:
    console = Console(highlight=False)
    if after and not rows:
        console.print(f"The model knows no difference between {before} and {after}.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "behaviour", "releases", "what a kubelet with it does"):
        table.add_column(heading, overflow="fold", ratio=1 if "what" in heading else None)
    area: Area | None = None
    for one in rows:
        known = one.behaviour.value
        if known.area is not area:
            area = known.area
            table.add_row("", f"[bold]{area.value}[/bold]", "", "")
        sign = ("+" if one.gained else "-") if before else ""
        table.add_row(
            sign, one.behaviour.title, held_by(one.behaviour), f"{known.says}\n{known.source}"
        )
    console.print(table)


def _markdown(rows: list[Change]) -> str:
    lines: list[str] = []
    for area in Area:
        mine = [one.behaviour for one in rows if one.behaviour.value.area is area]
        if mine:
            lines += ["", f"### {area.value[0].upper()}{area.value[1:]}", ""]
            lines += ["| behaviour | releases | what a kubelet that has it does |"]
            lines += ["| --- | --- | --- |"]
            lines += [
                f"| `{one.title}` | {held_by(one)} | {one.value.says} "
                f"[source]({one.value.source}) |"
                for one in mine
            ]
    return "\n".join(lines[1:]) + "\n"
