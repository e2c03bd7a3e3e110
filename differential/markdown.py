"""Pages of Markdown, and tables in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def page(parts: Iterable[str | Sequence[str]]) -> str:
    """A page of these parts with an empty line between them: a heading or a paragraph each, or the
    lines of a list or of a table."""
    return "\n\n".join(one if isinstance(one, str) else "\n".join(one) for one in parts) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table. A cell is Markdown; its bars are escaped, and it has no line end."""
    return [_line(head), _line(["---"] * len(head)), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(' '.join(one.split()).replace('|', chr(92) + '|') for one in cells)} |"
