"""How every command writes: JSON, lines beside its result, and the folder of a report."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from conformance.records import Difference
from conformance.subject import SubjectUsageError
from topologies.errors import one_line


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))


def print_listed(
    facts: Collection[object], lines: Iterable[str], none: str, *, as_json: bool
) -> None:
    """Print what there is as JSON, or a line for each; where there is nothing, how to get one goes
    to stderr."""
    if as_json:
        print_json(facts)
        return
    for line in lines:
        typer.echo(line)
    if not facts:
        typer.echo(f"none{none}", err=True)


def difference_facts(differences: Iterable[Difference]) -> list[dict[str, str]]:
    return [{"what": d.what, "expected": d.expected, "seen": d.seen} for d in differences]


def note(text: str) -> None:
    """Print a line on stderr, whole whatever the width of a terminal; it is never markup."""
    console = Console(stderr=True, highlight=False, emoji=False)
    console.print(text, markup=False, soft_wrap=True)


def print_lines(console: Console, *texts: str, notes: Iterable[str] = (), most: int = 500) -> None:
    """Print lines whole, whatever the console's width; then notes of ``most`` characters."""
    for text in [*texts, *(f"note: {one_line(one, most)}" for one in notes)]:
        console.print(Text(text), soft_wrap=True)


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
