"""``pinproof releases``: what changed in the CPU manager between two Kubernetes releases."""

from __future__ import annotations

import shutil
import textwrap
from typing import Annotated, Final

import typer

from conformance.subject import SubjectUsageError
from pinproof.output import print_json
from pinproof.parameters import AsJson
from reference.behaviours import Area, Behaviour
from reference.releases import Change, Release, behaviours, changes
from reports.text import wrapped

_INDENT: Final = "     "


def releases(
    before: Annotated[str, typer.Argument(help="A release: 1.31, or 1.31.5.")] = "",
    after: Annotated[str, typer.Argument(help="A release to compare with it.")] = "",
    as_json: AsJson = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table of docs/reference/releases.md.")
    ] = False,
) -> None:
    """Say what differs between two releases, with sources. With one release, say what is new
    in it; without a release, list every named behaviour."""
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
        behaviours(asked)  # raises for an unknown release
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
    """A behaviour with its releases on a line; below it what a kubelet with it does, and the
    source, which is never folded."""
    if after and not rows:
        typer.echo(f"The model knows no difference between {before} and {after}.")
        return
    width, title = shutil.get_terminal_size().columns, max(len(one.behaviour.title) for one in rows)
    area: Area | None = None
    for one in rows:
        known = one.behaviour.value
        if known.area is not area:
            typer.echo(known.area.value if area is None else f"\n{known.area.value}")
            area = known.area
        sign = ("+" if one.gained else "-") if before else " "
        typer.echo(f"{sign}  {one.behaviour.title:{title}}  {held_by(one.behaviour)}")
        typer.echo(textwrap.indent(wrapped(known.says, width - len(_INDENT)), _INDENT))
        typer.echo(f"{_INDENT}{known.source}")


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
