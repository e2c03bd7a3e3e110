"""How every command writes: JSON, lines beside its result, and the folder of a report.

What belongs here: the form. What never does: what is said.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console

from conformance.subject import SubjectUsageError

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_json(value: object) -> None:
    """Print a value as indented JSON on stdout."""
    typer.echo(json.dumps(value, indent=2))


def note(text: str) -> None:
    """Print a line on stderr, whole whatever the width of a terminal; it is never markup."""
    console = Console(stderr=True, highlight=False, emoji=False)
    console.print(text, markup=False, soft_wrap=True)


def prepare_folder(report: Path, also: tuple[str, ...] = (), *, resume: bool = False) -> Path:
    """Make the report's directory, without what an earlier run left there; the stream's path.
    ``resume``: the stream stays, and a line says if there is none."""
    stream = report / "result.jsonl"
    if resume and not stream.exists():
        note(f"pinproof: {stream} is not there yet: the run begins")
    try:
        report.mkdir(parents=True, exist_ok=True)
        for name in ("junit.xml", "report.html", *also, *(() if resume else (stream.name,))):
            (report / name).unlink(missing_ok=True)
        with stream.open("ab"):  # whether it can be written is better known now than at the end
            pass
        if not stream.stat().st_size:
            stream.unlink()
    except OSError as error:
        raise SubjectUsageError(f"--report {report}: {error.strerror}") from error
    return stream
