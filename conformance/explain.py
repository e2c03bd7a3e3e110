"""The story of a divergence, as text: machine, steps, what was expected and seen, the promise with
its link, and one command that replays it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from conformance.accounts import Account, account
from conformance.in_effect import LABEL
from conformance.kubelets import klog
from conformance.results import Difference, Failure
from conformance.scenario import Scenario
from conformance.subject import SubjectInfo

#: How much of a log is shown in a terminal; more would hide the story.
_LOG_LINES: Final = 10
_LOG_WIDTH: Final = 300


@dataclass(frozen=True, slots=True)
class Story:
    """The contents of an explanation. ``machine`` is the name that the user gave, ``totals`` its
    size in words. ``steps`` is what was done; the failure showed after the last step. ``place`` is
    the path that the machine was read from, or ``""``."""

    scenario: Scenario
    subject: SubjectInfo
    machine: str
    totals: str
    steps: Sequence[str]
    witness: str = ""
    release: str = ""
    place: str = ""


def replay_command(story: Story) -> str:
    """One command that runs this scenario on this machine with this subject again."""
    words = ["pinproof", "run", "--subject", story.subject.name]
    if story.release and story.release != story.subject.release:
        words += ["--release", story.release]
    if not story.scenario.machine:
        words += ["--machine", story.place or story.machine]
    return shlex.join([*words, "-k", story.scenario.id])


def explanation(story: Story, failure: Failure, *, evidence: str = "") -> str:
    source = story.scenario.source
    said = account(failure)
    end = [*_account_lines(said), *difference_lines(failure.differences)]
    if story.witness:
        end.append(f"  judged by {story.witness}")
    return _whole(story, said.verdict, [source.text, source.url], end, evidence)


def _account_lines(said: Account) -> list[str]:
    if said.promised:
        return [f"  promised  {said.promised}", f"  but       {said.but}"]
    return [f"  differs   {said.but}"]


def undecided(story: Story, reason: str, *, evidence: str = "") -> str:
    """The story of a scenario with the verdict ``unknown``."""
    return _whole(story, "could not tell", [], [f"  reason    {reason}"], evidence)


def _whole(
    story: Story, what: str, source: Sequence[str], end: Sequence[str], evidence: str
) -> str:
    lines = [
        f"{story.scenario.id} on {story.machine}: {what}",
        "",
        f"  scenario  {story.scenario.title}",
        *(f"            {line}" for line in source),
        f"  subject   {_subject_text(story.subject)}",
        f"  machine   {story.machine}: {story.totals}",
        "  steps",
        *(_numbered(story.steps) or ["    (none)"]),
        *end,
        "  replay",
        f"    {replay_command(story)}",
    ]
    return "\n".join([*lines, *_log(evidence)])


def _log(evidence: str) -> list[str]:
    """The part of the evidence that matters most: the settings in effect, then the last lines of
    the managers, of errors and of calls to the runtime. A report has all of it."""
    lines = evidence.splitlines()
    if not lines:
        return []
    shown = [line for line in lines if _decides(line)] or lines
    label_lines, others = ([], shown) if not shown[0].startswith(LABEL) else (shown[:1], shown[1:])
    shown = [*label_lines, *others[-_LOG_LINES:]]
    left_out = len(lines) - len(shown)
    note = f" ({len(shown)} lines, {left_out} more in the report)" if left_out > 0 else ""
    cut = (line if len(line) <= _LOG_WIDTH else f"{line[:_LOG_WIDTH]}…" for line in shown)
    return [f"  log{note}", *(f"    {line}" for line in cut)]


def _decides(line: str) -> bool:
    of_log = klog.is_error(line) or klog.is_of_managers(line)
    return of_log or line.startswith((LABEL, "  ", "last calls to the container runtime"))


def _subject_text(subject: SubjectInfo) -> str:
    more = [text for text in (subject.version, subject.digest[:19]) if text]
    return f"{subject.name} ({', '.join(more)})" if more else subject.name


def _numbered(steps: Sequence[str]) -> list[str]:
    width = len(str(len(steps)))
    lines = [f"    {number:>{width}}. {text}" for number, text in enumerate(steps, 1)]
    if lines:
        lines[-1] += "   <-- here"
    return lines


def difference_lines(rows: Sequence[Difference]) -> list[str]:
    """What differs, with expected and seen below it."""
    lines: list[str] = []
    for row in rows:
        lines.append(f"    {row.what}")
        lines.append(f"      expected    {row.expected}")
        lines.append(f"      seen        {row.seen}")
        if row.missing:
            lines.append(f"      missing     {row.missing}")
        if row.unexpected:
            lines.append(f"      unexpected  {row.unexpected}")
    return lines
