"""How every command writes: JSON, lines beside its result, and the folder of a report."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from conformance.records import Difference
from conformance.subject import SubjectUsageError
from conformance.verdict import ExitStatus
from topologies.errors import one_line


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))


def print_listed(
    facts: Collection[object], lines: Iterable[str], none: str, *, as_json: bool
) -> None:
    """Print what there is as JSON, or a line for each. Where there is nothing, stderr says how to
    get one."""
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
    """Print a line on stderr. A terminal's width does not break it, and nothing in it is markup."""
    console = Console(stderr=True, highlight=False, emoji=False)
    console.print(text, markup=False, soft_wrap=True)


def print_lines(console: Console, *texts: str, notes: Iterable[str] = (), most: int = 500) -> None:
    """Print lines whole, whatever the console's width; then notes of ``most`` characters."""
    for text in [*texts, *(f"note: {one_line(one, most)}" for one in notes)]:
        console.print(Text(text), soft_wrap=True)


@contextmanager
def kept_if_refused(report: Path | None) -> Iterator[None]:
    """Put back the files that an earlier run left in its report's directory, if the block, which
    begins a run there, ends with wrong usage."""
    files = [one for one in report.iterdir() if one.is_file()] if report and report.is_dir() else []
    earlier = {one: one.read_bytes() for one in files}
    try:
        yield
    except (SubjectUsageError, typer.Exit) as end:
        if getattr(end, "exit_code", ExitStatus.USAGE) == ExitStatus.USAGE:
            for one, data in earlier.items():
                one.write_bytes(data)
        raise


def prepare_folder(report: Path, also: tuple[str, ...] = (), *, resume: bool = False) -> Path:
    """Make the report's directory, remove what an earlier run left there, and return the stream's
    path. ``resume``: the stream stays, and a note says if there is none."""
    stream = report / "result.jsonl"
    if resume and not stream.exists():
        note(f"pinproof: {stream} is not there yet: the run begins")
    try:
        report.mkdir(parents=True, exist_ok=True)
        for name in ("junit.xml", "report.html", *also, *(() if resume else (stream.name,))):
            (report / name).unlink(missing_ok=True)
        with stream.open("ab"):  # fails now, not at the end of the run
            pass
        if not stream.stat().st_size:
            stream.unlink()
    except OSError as error:
        raise SubjectUsageError(f"--report {report}: {error.strerror}") from error
    return stream
