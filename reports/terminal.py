"""The run as a person reads it in a terminal, a log or a pipe.

Text of the stream is put into :class:`rich.text.Text` only, never into markup, after
:func:`reports.text.clean`. Colour only repeats what words say.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from conformance.known import Standing
from conformance.results import Result
from conformance.verdict import ExitStatus, Verdict, tally
from reports.causes import Cause
from reports.holdings import Owners, Pictures, pictures
from reports.run import Run, verdict_of
from reports.stories import Finding, findings, known_as
from reports.text import clean, line, when, wrapped
from topologies import drawing

_STYLES: Final = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.SKIP: "dim",
    Verdict.UNKNOWN: "bold yellow",
}
#: From this width on two pictures stand side by side.
_WIDE: Final = 120
#: How many failures of one cause are named.
_NAMED: Final = 30
_URL: Final = re.compile(r"https?://\S+$")


def summary(run: Run, console: Console, *, stories: bool = True, skips: bool = False) -> None:
    """Print the whole summary; its last line is the verdict in words with the exit status.

    ``stories``: with the story of each cause, unless it was printed before. ``skips``: with the
    reasons for skipping, a line each.
    """
    _subject(run, console)
    console.print(_counts(run))
    _witnesses(run, console)
    found = [one for one in findings(run) if one.standing in (Standing.FAIL, Standing.UNKNOWN)]
    if stories:
        for finding in found:
            print_story(finding.cause.example, console)
    _listed(run, console)
    _skipped(run, console, skips)
    _failed(found, console)
    _verdict(run, console)


def named(result: Result) -> str:
    """``qos/whole [2s-4n-64c-smt2]``."""
    return f"{line(result.scenario)} [{line(result.machine.name)}]"


def briefly(result: Result, why: str, console: Console) -> None:
    """Print a line for a result that is not as it should be, with ``why``."""
    verdict = verdict_of(result)
    text = f"{verdict.value.upper()}  {named(result)}: {why}"
    console.print(
        Text(
            wrapped(text, console.width),
            _STYLES[verdict] if verdict is not Verdict.PASS else "bold red",
        )
    )


def _subject(run: Run, console: Console) -> None:
    header, subject = run.header, run.header.subject
    title = Text(line(subject.name), "bold")
    for word in (f"release {subject.release}", subject.version):
        if word.strip():
            title.append(f"  {line(word)}", "not bold")
    console.print(title)
    judged = header.environment.get("judged by release", subject.release)
    if judged != subject.release:
        console.print(Text(f"judged by release {line(judged)}"))
    if subject.digest:
        console.print(Text(line(subject.digest), "dim"))
    shard = header.shard
    if shard is not None and not shard.missing:
        console.print(Text(f"put together from {shard}", "dim"))
    took = f", {run.footer.seconds:.1f} s" if run.footer else ""
    console.print(Text(f"pinproof {line(header.pinproof)}, {when(header.started)}{took}", "dim"))
    console.print()


def _counts(run: Run) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("machine", overflow="fold")
    for verdict in Verdict:
        table.add_column(verdict.value, justify="right", no_wrap=True)
    for machine, results in run.by_machine.items():
        counts = tally(map(verdict_of, results))
        table.add_row(Text(line(machine)), *(_count(v, n) for v, n in counts.items()))
    if len(run.machines) > 1:
        table.add_section()
        table.add_row(Text("all"), *(_count(v, n) for v, n in run.counts.items()), style="bold")
    return table


def _witnesses(run: Run, console: Console) -> None:
    """What judged the run, where that is not the model alone."""
    if all(name.startswith("the model of ") for name in run.witnesses):
        return
    judges = "; ".join(f"{name} ({count})" for name, count in run.witnesses.items())
    console.print(Text(wrapped(f"\nJudged by {judges}", console.width), "dim"))


def _count(verdict: Verdict, count: int) -> Text:
    return Text(str(count), _STYLES[verdict] if count else "dim")


def print_story(result: Result, console: Console) -> None:
    verdict = verdict_of(result)
    heading = f"{verdict.value.upper()}  {named(result)}"
    console.print()
    console.print(Rule(style="dim", characters="-"))
    console.print(Text(heading, _STYLES[verdict]))
    console.print()
    story = clean(result.explanation).strip("\n") or _bare(result)
    _print_text(story, line(result.replay), console)
    if drawn := pictures(result):
        for picture in _pictures(drawn, console.width):
            console.print()
            console.print(picture)
    evidence = clean(result.evidence).strip()
    if evidence and evidence.splitlines()[-1] not in story:
        lines = evidence.count("\n") + 1
        note = f"Evidence ({lines} line{'s' * (lines > 1)}): in report.html and result.jsonl."
        console.print(Text(f"\n{note}", "dim"))


def _bare(result: Result) -> str:
    """What is shown if there is no explanation."""
    words = (result.title, result.source, result.source_url, result.reason)
    return "\n".join(filter(None, map(line, words)))


def _print_text(story: str, replay: str, console: Console) -> None:
    if replay and replay not in story:
        story = f"{story}\n\nreplay\n  {replay}"
    for text in story.split("\n"):
        if (replay and replay in text) or _URL.search(text):
            # Never wrapped: a command or a link that was broken in two cannot be copied.
            console.print(Text(text), soft_wrap=True)
        else:
            console.print(Text(wrapped(text.expandtabs(4), console.width)))


def _pictures(drawn: Pictures, width: int) -> Iterator[RenderableType]:
    if width < _WIDE or len(drawn.sides) < 2:
        for title, owners in drawn.sides.items():
            yield _picture(drawn, title, owners, width)
        return
    table = Table.grid(padding=(0, 4, 0, 0))
    half = width // 2 - 4
    table.add_row(*(_picture(drawn, title, owners, half) for title, owners in drawn.sides.items()))
    yield table


def _picture(drawn: Pictures, title: str, owners: Owners, width: int) -> RenderableType:
    return drawing.text(drawn.cpus, owners, title=title, highlight=drawn.marked, width=width)


def _listed(run: Run, console: Console) -> None:
    """Print known failures, a line each, and the entries that the list should no longer have."""
    for standing, heading in _LISTED.items():
        found = [
            (one, entry) for one, entry in run.known_results if run.known.standing(one) is standing
        ]
        if found:
            console.print()
            console.print(Text(heading, "bold"))
        for result, entry in found:
            text = f"  {named(result)}: {known_as(entry)}"
            console.print(Text(wrapped(text, console.width)))
    for entry in run.known.expired:
        text = f"Past its date: {line(entry.scenario)} [{line(entry.machine)}] {known_as(entry)}"
        console.print()
        console.print(Text(wrapped(text, console.width), "bold red"))


_LISTED: Final = {
    Standing.KNOWN: "Known failures",
    Standing.FIXED: "Listed as known failures, but they pass: remove them from the list",
}


def _skipped(run: Run, console: Console, each: bool) -> None:
    """How many scenarios were skipped, or a line for each reason."""
    reasons = Counter(
        line(result.reason) or "no reason given" for result in run.standings[Standing.SKIP]
    )
    if not reasons:
        return
    console.print()
    if not each:
        words = f"{len(reasons)} reasons" if len(reasons) > 1 else "one reason"
        many = f"{reasons.total()} skipped, for {words} (-rs lists them)."
        console.print(Text(wrapped(many, console.width), "dim"))
        return
    console.print(Text("Skipped", "bold"))
    for reason, count in reasons.most_common():
        console.print(Text(wrapped(f"{count:5} x {reason}", console.width)))


def _failed(found: Sequence[Finding], console: Console) -> None:
    """The ids of what failed, by cause, each cause with one command that replays it."""
    for standing, heading in _FAILED.items():
        some = [one.cause for one in found if one.standing is standing]
        if some:
            console.print()
            console.print(Text(heading, "bold"))
        for cause in some:
            for text in _sentences(cause):
                console.print(Text(wrapped(f"  {text}", console.width), "italic"))
            names = list(dict.fromkeys(map(named, cause.results)))
            for name in names[:_NAMED]:
                console.print(Text(f"  {name}"), soft_wrap=True)
            if len(names) > _NAMED:
                console.print(Text(f"  and {len(names) - _NAMED} more of the same cause", "dim"))
            if replay := line(cause.example.replay):
                console.print(Text(f"    {replay}", "dim"), soft_wrap=True)


def _sentences(cause: Cause) -> Iterator[str]:
    """What is wrong, and what sets the results apart."""
    yield f"{cause.headline}."
    if cause.is_common or cause.contrast:
        yield cause.detail


_FAILED: Final = {Standing.FAIL: "Failed", Standing.UNKNOWN: "Without an answer"}


def _verdict(run: Run, console: Console) -> None:
    console.print()
    if run.caution:
        console.print(Text(wrapped(run.caution, console.width), "bold yellow"))
    style = "bold green" if run.status is ExitStatus.CONFORMANT else "bold red"
    # The last line stays one line, whatever the width: logs are searched for it.
    console.print(Text(f"{run.verdict} Exit status {run.status.value}.", style), soft_wrap=True)
