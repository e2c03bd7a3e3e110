"""The first page of each shelf: its pages, with what each begins with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from differential.markdown import page, table

#: What is on a shelf.
SAYS: Final = {
    "tutorials": "A first success, from the first command to the last.",
    "how-to": "One task a page.",
    "reference": "What there is. The last pages of the list are made of the code.",
    "explanation": "How it works, and why.",
    "facts": "What each release of the kubelet does, with sources.",
    "tables": "Pages that programs wrote: each names its program.",
}
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def pages_of(docs: Path, shelf: str) -> list[str]:
    """The pages of a shelf that are in docs/, the one that is its own first page first."""
    found = sorted((docs / shelf).glob("*.md"), key=lambda one: (one.name != "README.md", one.name))
    return [f"{shelf}/{one.name}" for one in found]


def first_page(docs: Path, shelf: str, made: Iterable[tuple[str, str, str]] = ()) -> str:
    """The list of a shelf. ``made`` are title, place and beginning of pages not in docs/."""
    rows = [_row(docs / place) for place in pages_of(docs, shelf)]
    rows += [(f"[{title}]({place.removeprefix(f'{shelf}/')})", says) for title, place, says in made]
    return page([f"# {shelf.capitalize()}", SAYS[shelf], table(("page", "how it begins"), rows)])


def _row(path: Path) -> tuple[str, str]:
    title, *more = _paragraphs(path.read_text(encoding="utf-8"))
    begins = next((one for one in more if re.match(r"[A-Z`*\[]", one)), "")
    sentence = re.split(r"(?<=[.:?]) ", _LINK.sub(r"\1", begins))[0].replace("**", "")
    return f"[{title.removeprefix('# ')}]({path.name})", sentence


def _paragraphs(text: str) -> Iterator[str]:
    yield from (" ".join(one.split()) for one in re.split(r"\n{2,}", text.strip()))
