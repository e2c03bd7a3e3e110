"""From a result stream to what people and CI systems read.

A report is made from the stream alone (:mod:`conformance.results`), never from the run that wrote
it, so any report can be made again later, elsewhere. Text in a stream comes from nodes and is
trusted nowhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reports.run import Run, load, verdict_of

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Run", "load", "summarise", "verdict_of", "write_all"]


def write_all(stream: Path, outdir: Path) -> None:
    """Write ``junit.xml`` and ``report.html`` of the stream into ``outdir``, each atomically.

    A stream that was cut off is reported as far as it goes, and says so. Raises
    :class:`conformance.results.ResultsError` where it has no header, :class:`OSError` where a
    file cannot be written.
    """
    from reports import html, junit  # each costs start-up time that other uses do not owe

    run = load(stream)
    outdir.mkdir(parents=True, exist_ok=True)
    junit.write(run, outdir / "junit.xml")
    html.write(run, outdir / "report.html")


def summarise(stream: Path, console: Console, *, ended: int | None = None) -> None:
    """Print the stream's summary; ``ended`` is the exit status of the run that wrote it, where that
    is known: a stream that was cut off has none. Raises :class:`conformance.results.ResultsError`
    as :func:`load` does."""
    from reports import terminal

    terminal.summary(load(stream, ended=ended), console)
