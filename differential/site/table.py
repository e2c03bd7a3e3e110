"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table. A cell is Markdown; its bars and line ends are made harmless."""
    return [_line(head), _line(["---"] * len(head)), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(' '.join(one.split()).replace('|', chr(92) + '|') for one in cells)} |"
