"""The run as one HTML file: no network, no script, every picture inside.

The template's environment cleans and escapes every string on its way out, so that no template can
forget to; only pictures, which this project draws itself, pass as markup. A content security
policy in the page forbids the rest: nothing is loaded and nothing runs, whatever it holds.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from conformance.verdict import ExitStatus, Verdict
from reports.files import write_atomically
from reports.page import page
from reports.run import Run
from reports.text import clean, when

_MARKS: Final = {
    Verdict.PASS: "✓",
    Verdict.FAIL: "✗",
    Verdict.UNKNOWN: "?",
    Verdict.SKIP: "\N{EN DASH}",
}
_WORDS: Final = {
    Verdict.PASS: "kept",
    Verdict.FAIL: "broken",
    Verdict.UNKNOWN: "could not tell",
    Verdict.SKIP: "skipped",
}
_TONES: Final = {
    ExitStatus.CONFORMANT: "pass",
    ExitStatus.NOT_CONFORMANT: "fail",
    ExitStatus.NOT_RESTORED: "fail",
}


def write(run: Run, path: Path) -> None:
    """Write the run to ``path``, atomically. Raises :class:`OSError`."""
    write_atomically(path, document(run))


def document(run: Run) -> str:
    """The run as the text of one HTML document."""
    template = environment().get_template("report.html.jinja")
    return template.render(
        page=page(run), run=run, tone=_TONES.get(run.status, "unknown"), verdicts=tuple(Verdict)
    )


@cache
def environment() -> Environment:
    """The templates' environment: cleans and escapes every string."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["mark"] = _MARKS.__getitem__
    environment.filters["in_words"] = _WORDS.__getitem__
    environment.filters["when"] = when
    environment.filters["picture"] = Markup  # of topologies.drawing only
    return environment


def _cleaned(value: object) -> object:
    return clean(value) if type(value) is str else value
