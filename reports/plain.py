"""The run as Markdown for a job's summary, as JSON lines for a program, and as a badge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape

import msgspec

from conformance.known import Standing
from conformance.verdict import ExitStatus, Verdict, tally
from reports.run import Run, verdict_of
from reports.stories import findings, story
from reports.text import clean, code, line, markdown, when

#: Stories, and characters of each: together far below the 1 MB that GitHub takes as a summary.
_STORIES: Final = 20
_STORY: Final = 8000
_HEADINGS: Final = {
    Standing.FAIL: "Failures",
    Standing.UNKNOWN: "Without an answer",
    Standing.FIXED: "Listed as known failures, but they pass",
    Standing.KNOWN: "Known failures",
}


def as_markdown(run: Run) -> str:
    """Verdict, each cause once with its story folded, known failures, counts by machine."""
    return "\n".join([*_markdown(run), ""])


def _markdown(run: Run) -> Iterator[str]:
    subject = run.header.subject
    yield f"## {markdown(run.verdict)}"
    yield ""
    version = f" {markdown(subject.version)}" if subject.version else ""
    yield f"{markdown(subject.name)}{version}, {markdown(when(run.header.started))}"
    if run.caution:
        yield f"\n**{markdown(run.caution)}**"
    found = findings(run)
    for standing, heading in _HEADINGS.items():
        some = [one for one in found if one.standing is standing]
        if some:
            yield f"\n### {heading}"
        for number, one in enumerate(some):
            yield f"\n**{markdown(one.title)}**  \n{markdown(one.why)}"
            if standing in (Standing.FAIL, Standing.UNKNOWN) and number < _STORIES:
                yield "\n<details><summary>steps, expected and seen, replay</summary>\n"
                yield code(story(one.cause.example, _STORY))
                yield "\n</details>"
    yield "\n### Machines\n"
    yield "| machine | pass | fail | skip | unknown |"
    yield "| --- | --: | --: | --: | --: |"
    for machine, results in run.by_machine.items():
        counts = tally(map(verdict_of, results))
        yield f"| {markdown(machine)} | {' | '.join(str(counts[one]) for one in Verdict)} |"


def as_json(run: Run) -> str:
    """Each result as one JSON object a line, whole: with its scenario, its machine's name, and its
    ``standing`` beside the list of known failures."""
    return "".join(_objects(run))


def _objects(run: Run) -> Iterator[str]:
    for result in run.ordered:
        value = msgspec.to_builtins(result)
        value |= {"machine": result.machine.name, "machine_digest": result.machine.digest}
        value["standing"] = run.known.standing(result).value
        value["subject"] = run.header.subject.name
        yield json.dumps(value, ensure_ascii=True) + "\n"


_COLOURS: Final = {
    ExitStatus.CONFORMANT: "#2a7d2e",
    ExitStatus.NOT_CONFORMANT: "#b3261e",
    ExitStatus.NOT_RESTORED: "#b3261e",
}
_WORDS: Final = {ExitStatus.CONFORMANT: "conformant", ExitStatus.NOT_CONFORMANT: "not conformant"}


def badge(run: Run) -> str:
    """An SVG for a README: the subject's release, and what the run says."""
    left = f"CPU pinning {line(run.header.subject.release)}"[:40]
    right = _WORDS.get(run.status, "could not tell")
    widths = [7 * len(text) + 12 for text in (left, right)]
    whole, middle = sum(widths), widths[0]
    colour = _COLOURS.get(run.status, "#7a5c00")
    title = escape(clean(f"{left}: {right}"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img" '
        f'aria-label="{escape(title, {chr(34): "&quot;"})}"><title>{title}</title>'
        f'<rect width="{middle}" height="20" fill="#444"/>'
        f'<rect x="{middle}" width="{widths[1]}" height="20" fill="{colour}"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,sans-serif" font-size="11">'
        f'<text x="{middle / 2}" y="14">{escape(left)}</text>'
        f'<text x="{middle + widths[1] / 2}" y="14">{right}</text></g></svg>\n'
    )
