"""The run as one HTML file: no network, every picture inside.

The template's environment cleans and escapes every string on its way out, so that no template can
forget to. As markup pass only pictures and cells of the matrix, which this project draws itself. A
content security policy in the page forbids the rest: nothing is loaded, and nothing runs but the
script of ``templates/report.js``, which the policy names by its digest. Without it everything can
still be read; it copies commands and searches.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from conformance.verdict import ExitStatus, Verdict
from reports.files import write_atomically
from reports.page import OPEN, Cell, page
from reports.run import Run
from reports.text import clean, when

#: So many causes are named above the first.
NAMED: Final = 4
#: A matrix of more columns than this has columns of one width, so that a browser lays out only the
#: rows that are seen. In a table it must first measure every cell.
MANY: Final = 60
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
    script, shown = _script(), page(run)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        environment()
        .get_template("report.html.jinja")
        .render(
            page=shown,
            run=run,
            nodes="nodes" if shown.of_nodes else "machines",
            tone=_TONES.get(run.status, "unknown"),
            verdicts=tuple(Verdict),
            open=OPEN,
            named=NAMED,
            many_columns=MANY,
            script=Markup(script),  # noqa: S704 of this project
            script_digest=f"sha256-{digest}",
        )
    )


@cache
def _script() -> str:
    return files("reports").joinpath("templates/report.js").read_text(encoding="utf-8")


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
    environment.filters["cells"] = _cells
    environment.filters["picture"] = Markup  # of topologies.drawing only
    return environment


def _cells(cells: Iterable[Cell]) -> Markup:
    """A row of the matrix. There may be a hundred thousand, so each is as short as can be; a link
    is an anchor, which has no character that means anything in HTML."""
    return Markup("").join(map(_cell, cells))


@lru_cache(maxsize=4096)
def _cell(cell: Cell) -> Markup:
    if cell.verdict is None:
        return Markup('<td class="n"></td>')
    mark, kind = _MARKS[cell.verdict], cell.verdict.value[0]
    text = Markup('<a href="#{}">{}</a>').format(cell.href, mark) if cell.href else mark
    return Markup('<td class="{}">{}</td>').format(kind, text)


def _cleaned(value: object) -> object:
    return clean(value) if type(value) is str else value
