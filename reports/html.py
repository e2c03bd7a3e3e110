"""The run as one HTML file: no network, every picture inside.

The template's environment cleans and escapes every string on its way out, so that no template can
forget to. Only pictures and cells of the matrix, which this project draws itself, are let through
as markup. A content security policy in the page forbids the rest: nothing is loaded, and nothing
runs but the script of ``templates/report.js``, which the policy names by its digest. Without the
script everything can still be read. It copies commands, searches, and unfolds what a page says
once: the cells of a large matrix, and why a scenario was skipped.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import groupby
from operator import attrgetter
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from conformance.accounts import account
from conformance.verdict import ExitStatus, Verdict
from reports.page import OPEN, Cell, page
from reports.run import Run
from reports.text import clean, when

#: How many causes are named above the first.
NAMED: Final = 4
#: A matrix of more columns than this has columns of one width, so that a browser lays out only the
#: rows that are seen. In a table it must first measure every cell. A row of it is one text of
#: ``_SIGNS``, which the script turns into cells: as markup they would be half of the page.
MANY: Final = 12
_MARKS: Final = {
    Verdict.PASS: "✓",
    Verdict.FAIL: "✗",
    Verdict.UNKNOWN: "?",
    Verdict.SKIP: "\N{EN DASH}",
}
#: Characters that every font has with one width, so that they stand below their heads without a
#: script too.
_SIGNS: Final = {
    Verdict.PASS: "+",
    Verdict.FAIL: "x",
    Verdict.UNKNOWN: "?",
    Verdict.SKIP: "-",
    None: ".",
}
_WORDS: Final = {
    Verdict.PASS: "kept",
    Verdict.FAIL: "failed",
    Verdict.UNKNOWN: "could not tell",
    Verdict.SKIP: "skipped",
}
_TONES: Final = {
    ExitStatus.CONFORMANT: "pass",
    ExitStatus.NOT_CONFORMANT: "fail",
    ExitStatus.NOT_RESTORED: "fail",
}


def document(run: Run) -> str:
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
            signs={_WORDS[kind] if kind else "did not run": sign for kind, sign in _SIGNS.items()},
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
    environment.filters["cells"] = lambda cells: Markup("").join(map(_cell, cells))
    environment.filters["signs"] = _signs
    environment.filters["account"] = account
    environment.filters["picture"] = Markup  # of topologies.drawing only
    return environment


@lru_cache(maxsize=4096)
def _cell(cell: Cell) -> Markup:
    if cell.verdict is None:
        return Markup('<td class="n"></td>')
    mark, kind = _MARKS[cell.verdict], cell.verdict.value[0]
    return Markup('<td class="{}">{}</td>').format(kind, _linked(cell.href, mark))


def _signs(cells: Sequence[Cell]) -> Markup:
    """A row of a large matrix: one sign a cell, and one link around neighbours of one cause. There
    may be a hundred thousand cells in a page, and HTML needs no end tag here."""
    parts = groupby(cells, key=attrgetter("place"))
    text = Markup("").join(
        _linked(place, "".join(_SIGNS[cell.verdict] for cell in part)) for place, part in parts
    )
    return Markup("<td colspan={}>{}").format(len(cells), text)


def _linked(anchor: str, text: str) -> Markup:
    """An anchor of :mod:`reports.page` has letters, digits, dots and hyphens, so no quotes."""
    return Markup("<a href=#{}>{}</a>").format(anchor, text) if anchor else escape(text)


def _cleaned(value: object) -> object:
    return clean(value) if type(value) is str else value
