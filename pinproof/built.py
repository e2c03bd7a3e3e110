"""What was built and is kept, as a list: kubelets and drivers alike.

What belongs here: how such a list is printed. What never does: how anything is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer

from conformance.kubelets.workshop import Built
from pinproof.output import print_json


def print_built(found: Sequence[Built], *, as_json: bool, none: str) -> None:
    """A line for each on stdout, or JSON. If nothing is built, ``none`` (the command that builds)
    goes to stderr."""
    if as_json:
        print_json([_facts(one) for one in found])
        return
    for one in found:
        typer.echo(_line(one))
    if not found:
        typer.echo(f"none yet: {none}", err=True)


def print_all_built(found: Mapping[str, Sequence[Built]], *, as_json: bool) -> None:
    """The same for several kinds: each line, or JSON object, begins with its kind."""
    if as_json:
        print_json([{"kind": kind, **_facts(one)} for kind in found for one in found[kind]])
        return
    for kind, ones in found.items():
        for one in ones:
            typer.echo(f"{kind:<9}  {_line(one)}")
    if not any(found.values()):
        typer.echo("none yet: pinproof build kubelet 1.36", err=True)


def _facts(one: Built) -> dict[str, str]:
    return {"version": one.version, "digest": one.digest, "path": str(one.path)}


def _line(one: Built) -> str:
    return f"{one.version:<8} {one.digest[:19]}  {one.path}"
