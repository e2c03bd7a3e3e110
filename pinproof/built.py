"""What was built and is kept, as a list: kubelets and drivers alike.

What belongs here: how such a list is printed. What never does: how anything is built.
"""

from __future__ import annotations

from collections.abc import Sequence

import typer

from conformance.kubelets.workshop import Built
from pinproof.output import print_json


def print_built(found: Sequence[Built], *, as_json: bool, none: str) -> None:
    """A line for each on stdout, or JSON. If nothing is built, ``none`` (the command that builds)
    goes to stderr."""
    if as_json:
        rows = [
            {"version": one.version, "digest": one.digest, "path": str(one.path)} for one in found
        ]
        print_json(rows)
        return
    for one in found:
        typer.echo(f"{one.version:<8} {one.digest[:19]}  {one.path}")
    if not found:
        typer.echo(f"none yet: {none}", err=True)
