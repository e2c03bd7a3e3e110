"""``pinproof report``, ``compare`` and ``known``: what is made from result streams."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from conformance.known import Standing
from conformance.lines import schema as stream_schema
from conformance.results import KnownFailure, ResultsError
from conformance.subject import SubjectUsageError
from conformance.verdict import ExitStatus
from reports.formats import FORMATS, formatted
from reports.merging import as_stream

if TYPE_CHECKING:
    from reports import Run

#: Days that an entry of a list of known failures holds.
_DAYS: Final = 90
_STREAMS: Final = "result.jsonl of one run, of its shards, or of one run on each of many nodes."
_KNOWN: Final = "known"
Format = Enum("Format", {name: name for name in ("text", "stream", *FORMATS, _KNOWN)})  # type: ignore[misc]


def report(
    streams: Annotated[list[Path] | None, typer.Argument(help=_STREAMS)] = None,
    format: Annotated[  # noqa: A002
        Format, typer.Option("--format", "-f", help="What to make.")
    ] = Format.text,  # type: ignore[attr-defined]
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, help="How long the entries of --format known hold.")
    ] = _DAYS,
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit with the status of the run or the merged runs.")
    ] = False,
    skips: Annotated[
        bool, typer.Option("--skips", help="List why scenarios were skipped.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of a line of a stream.")
    ] = False,
    witnesses: Annotated[
        str,
        typer.Option(
            "--witnesses",
            metavar="RELEASE",
            help="List the recordings of real kubelets that judge the subject reference: of one "
            "release (1.36) by machine, or of all releases (all).",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Make a report from result streams.

    ``--format known`` writes a list of known failures for ``run --known``: an entry for each
    promise that these results break.
    """
    import reports
    from reports import terminal

    if witnesses:
        from pinproof import witnesses as listed

        listed.witnesses("" if witnesses == "all" else witnesses)
        return
    if schema:
        typer.echo(json.dumps(stream_schema(), indent=1))
        return
    if not streams:
        raise SubjectUsageError("name a result stream (result.jsonl)")
    run = reports.load(*streams)
    name = str(format.value)
    if name == _KNOWN:
        _put(_known_failures(run, days), output)
    elif name == "stream":
        _put(as_stream(run), output)
    elif name != "text":
        _put(formatted(run, name), output)
    elif output is None:
        terminal.summary(run, Console(highlight=False), skips=skips)
    else:
        raise SubjectUsageError("--output is for a --format other than text")
    if gate:
        raise typer.Exit(_gate(run).value)


def _gate(run: Run) -> ExitStatus:
    """The status of the run; a part of one can say that a promise is broken, and nothing better."""
    unclear = run.part and run.status is ExitStatus.CONFORMANT
    return ExitStatus.COULD_NOT_TELL if unclear else run.status


def _put(text: str, output: Path | None) -> None:
    from reports.files import write_atomically

    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        write_atomically(output, text)
    except OSError as error:
        raise SubjectUsageError(f"--output {output}: {error.strerror}") from error


class Form(Enum):
    """How a comparison is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


def compare(
    old: Annotated[Path, typer.Argument(help="result.jsonl of the run before.")],
    new: Annotated[list[Path], typer.Argument(help=_STREAMS)],
    format: Annotated[  # noqa: A002
        Form, typer.Option("--format", "-f", help="How to print it.")
    ] = Form.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")
    ] = None,
) -> None:
    """Compare two runs, machine by machine: regressions, fixes, new and gone cases.

    The exit status is 1 for regressions only, so a subject with failures can be gated. It is 3 if
    the new run has no verdict where the old one has, and 4 if no scenario applied or the two runs
    share none.
    """
    import reports
    from reports import comparison

    forms = {
        Form.TEXT: lambda found: comparison.text(found) + "\n",
        Form.MARKDOWN: comparison.as_markdown,
        Form.JSON: comparison.as_json,
    }
    found = comparison.Comparison(reports.load(old), reports.load(*new))
    _put(forms[format](found), output)
    raise typer.Exit(found.status.value)


def known(
    streams: Annotated[list[Path], typer.Option("--from", help=_STREAMS)],
    days: Annotated[int, typer.Option(min=1, help="How long the entries hold.")] = _DAYS,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")
    ] = None,
) -> None:
    """Write a list of known failures: an entry for each promise that these results break."""
    import reports

    _put(_known_failures(reports.load(*streams), days), output)


def _known_failures(run: Run, days: int) -> str:
    """The list for ``run --known``. Raises :class:`ResultsError` where the run was cut off."""
    from conformance.known import write
    from reports.causes import causes

    if run.footer is None:
        raise ResultsError(run.cut_off or run.caution)
    expires = datetime.now(UTC).date() + _span(days)
    failures = (*run.standings[Standing.FAIL], *run.standings[Standing.KNOWN])
    found = causes(failures, run.standings[Standing.PASS])
    reasons = {id(one): cause.headline for cause in found for one in cause.results}
    entries = []
    for result in failures:
        entry = run.known.entry(result)
        live = entry is not None and not run.known.is_expired(entry)
        entries.append(
            entry
            if entry is not None and live
            else KnownFailure(
                scenario=result.scenario,
                machine=_literal(result.machine.name),
                reason=reasons[id(result)],
                expires=expires.isoformat(),
            )
        )
    return write(dict.fromkeys(entries))


def _span(days: int) -> timedelta:
    return timedelta(days=min(days, (date.max - datetime.now(UTC).date()).days))


def _literal(name: str) -> str:
    """A glob that this name alone fits."""
    return "".join(f"[{one}]" if one in "*?[" else one for one in name)
