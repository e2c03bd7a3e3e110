"""From a result stream to what people and CI systems read.

A report is made from the stream alone (:mod:`conformance.results`), never from the run that wrote
it, so any report can be made again later, elsewhere. Text in a stream comes from nodes and is
trusted nowhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from reports.run import Run


def load(*paths: Path, ended: int | None = None) -> Run:
    """The run of a result stream, or of several: the shards of one run, or one run on each of many
    nodes. Every report is made from what this returns; ``ended`` is the exit status of the process
    that wrote the stream, where that is known.

    A stream that breaks off after its header gives a run whose ``cut_off`` says where. Raises
    :class:`conformance.results.ResultsError` where one has no header, or is of another schema, or
    they do not belong together. An incomplete set of shards gives a run that says which are
    there, and is never conformant.
    """
    from reports import merging
    from reports import run as reading

    runs = [reading.load(path, ended=ended) for path in paths]
    return merging.merged(runs, list(map(str, paths)))


def write_all(stream: Path, outdir: Path) -> None:
    """Write ``junit.xml`` and ``report.html`` of the stream into ``outdir``, each atomically.

    A stream that was cut off is reported as far as it goes, and says so. Raises
    :class:`conformance.results.ResultsError` where it has no header, :class:`OSError` where a
    file cannot be written.
    """
    from reports import html, junit  # slow to import, and needed here only
    from reports.files import write_atomically

    run = load(stream)
    outdir.mkdir(parents=True, exist_ok=True)
    page = outdir / "report.html"
    write_atomically(page, html.document(run))
    write_atomically(outdir / "junit.xml", junit.document(run, attached=page.absolute()))


def summarise(
    stream: Path,
    console: Console,
    *,
    ended: int | None = None,
    stories: bool = True,
    skips: bool = False,
) -> None:
    """Print the stream's summary; ``ended`` is the exit status of the run that wrote it, where that
    is known: a stream that was cut off has none. ``stories`` and ``skips`` as in
    :func:`reports.terminal.summary`. Raises :class:`conformance.results.ResultsError` as
    :func:`load` does."""
    from reports import terminal

    terminal.summary(load(stream, ended=ended), console, stories=stories, skips=skips)
