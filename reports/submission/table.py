"""The table of all submissions, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reports.certificate import Statement
from reports.submission.document import Submission
from reports.text import line


@dataclass(frozen=True, slots=True)
class Row:
    """One submission and where its folder is, relative to the page."""

    place: str
    submission: Submission
    statement: Statement


def table(rows: Iterable[Row]) -> str:
    """Newest release first, then by vendor and product."""
    lines = [
        "| release | product | machine | verdict | core profile | certified | valid until |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_line(row) for row in sorted(rows, key=_order)]
    return "\n".join(lines) + "\n"


def _order(row: Row) -> tuple[int, str]:
    return -int(row.statement.facts.kubelet.release.partition(".")[2] or 0), row.place


def _line(row: Row) -> str:
    one, facts = row.submission, row.statement.facts
    core = next((each for each in facts.profiles if each.name == "core"), None)
    kept = f"{core.kept} of {core.apply}" if core else ""
    kind = "" if facts.kind == "certificate" else f" ({facts.kind})"
    cells = (
        facts.kubelet.release,
        f"[{one.vendor} {one.product} {one.version}]({row.place})",
        line(facts.machine.name),
        f"{facts.verdict}{kind}",
        kept,
        facts.finished[:10],
        facts.expires[:10],
    )
    return f"| {' | '.join(each.replace('|', ' ') for each in cells)} |"
