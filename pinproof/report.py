"""``pinproof report``, ``compare`` and ``known``: what is made from result streams."""

from __future__ import annotations

import json
from dataclasses import dataclass
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
from pinproof.parameters import Output, argument, option, with_options
from reports.formats import FORMATS, formatted
from reports.merging import as_stream

if TYPE_CHECKING:
    from reports.run import Run

#: Days that an entry of a list of known failures holds.
_DAYS: Final = 90
_STREAMS: Final = "result.jsonl of one run, of its shards, or of one run on each of many nodes."
_KNOWN: Final = "known"
Format = Enum("Format", {name: name for name in ("text", "stream", *FORMATS, _KNOWN)})  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Asked:
    streams: list[Path] | None = argument(_STREAMS, None)
    format: Format = option(
        Format.text,  # type: ignore[attr-defined]
        "What to make.",
        *("--format", "-f"),
    )
    output: Output = None
    days: int = option(_DAYS, "How long the entries of --format known hold.", min=1)
    gate: bool = option(False, "Exit with the status of the run or the merged runs.", "--gate")
    skips: bool = option(False, "List why scenarios were skipped.", "--skips")
    schema: bool = option(False, "Print the JSON Schema of a line of a stream.", "--schema")
    witnesses: str = option(
        "",
        "List the recordings of real kubelets that judge the subject reference: of one release "
        "(1.36) by machine, or of all releases (all).",
        metavar="RELEASE",
    )


@with_options
def report(asked: Asked) -> None:
    """Make a report from result streams.

    ``--format known`` writes a list of known failures for ``run --known``: an entry for each
    promise that these results break.
    """
    import reports
    from reports import terminal

    if asked.witnesses:
        from pinproof import witnesses as listed

        listed.witnesses("" if asked.witnesses == "all" else asked.witnesses)
        return
    if asked.schema:
        typer.echo(json.dumps(stream_schema(), indent=1))
        return
    if not asked.streams:
        raise SubjectUsageError("name a result stream (result.jsonl)")
    run, output = reports.load(*asked.streams), asked.output
    name = str(asked.format.value)
    if name == _KNOWN:
        _put(_known_failures(run, asked.days), output)
    elif name == "stream":
        _put(as_stream(run), output)
    elif name != "text":
        _put(formatted(run, name), output)
    elif output is None:
        terminal.summary(run, Console(highlight=False), skips=asked.skips)
    else:
        raise SubjectUsageError("--output is for a --format other than text")
    if asked.gate:
        raise typer.Exit(_gate(run).value)


def _gate(run: Run) -> ExitStatus:
    """The status of the run. A part of a run can show that a promise is broken, not that all are
    kept."""
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
    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


def compare(
    old: Annotated[Path, typer.Argument(help="result.jsonl of the run before.")],
    new: Annotated[list[Path], typer.Argument(help=_STREAMS)],
    format: Annotated[  # noqa: A002
        Form, typer.Option("--format", "-f", help="How to print it.")
    ] = Form.TEXT,
    output: Output = None,
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
    output: Output = None,
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
    today = datetime.now(UTC).date()
    expires = today + timedelta(days=min(days, (date.max - today).days))
    listed = [
        one
        for one in run.standings[Standing.KNOWN]
        if (entry := run.known.entry(one)) and not entry.name  # the file of a fork has the others
    ]
    failures = (*run.standings[Standing.FAIL], *listed)
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


def _literal(name: str) -> str:
    """A glob that matches this name alone."""
    return "".join(f"[{one}]" if one in "*?[" else one for one in name)
