"""How every command writes: JSON, and lines beside its result.

What belongs here: the form. What never does: what is said.
"""

from __future__ import annotations

import json
from typing import Annotated, TypeAlias

import typer
from rich.console import Console

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_json(value: object) -> None:
    """Print a value as indented JSON on stdout."""
    typer.echo(json.dumps(value, indent=2))


def note(text: str) -> None:
    """Print a line on stderr, whole whatever the width of a terminal; it is never markup."""
    console = Console(stderr=True, highlight=False, emoji=False)
    console.print(text, markup=False, soft_wrap=True)
