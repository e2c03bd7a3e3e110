"""Pages that show commands: their blocks, and whether what a command writes is what a page shows.

The standard library alone: :mod:`tests.support.typed_pages` runs where nothing is installed yet.
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BLOCK: Final = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n+)?"
    r"```(?P<language>\w+)(?: (?P<name>\S+))?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_HEADING: Final = re.compile(r"^(#+) (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A block between fences. ``line``: where its text begins; ``name``: what stands behind the
    language, as ``kubelet.yaml`` in ``yaml kubelet.yaml``; ``mark``: the comment above it."""

    line: int
    language: str
    name: str
    mark: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a ``console`` block, its line of the page, and the output that is shown."""

    line: int
    words: str
    output: str


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def blocks(page: Path, section: str = "") -> Iterator[Block]:
    """The blocks of a page, or of the section that has this anchor. ValueError: it has none."""
    text = page.read_text(encoding="utf-8")
    begin, end = _section(text, section) if section else (0, len(text))
    for found in _BLOCK.finditer(text, begin, end):
        line = text.count("\n", 0, found.start("text")) + 1
        mark, name = found["mark"] or "", found["name"] or ""
        yield Block(line, found["language"], name, mark, found["text"])


def _section(text: str, name: str) -> tuple[int, int]:
    """Where the section begins and ends, with the sections below it."""
    # A comment of a shell script is not a heading.
    plain = _BLOCK.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    headings = list(_HEADING.finditer(plain))
    for place, one in enumerate(headings):
        if anchor(one[2]) == name:
            after = (later for later in headings[place + 1 :] if len(later[1]) <= len(one[1]))
            following = next(after, None)
            return one.start(), following.start() if following else len(text)
    raise ValueError(f"no section {name!r}")


def commands(block: Block) -> Iterator[Command]:
    """The commands of a ``console`` block: lines that begin with ``$``, and with ``>`` where a
    command goes on. What stands above the first one is left out."""
    line = block.line
    for piece in re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE):
        if piece.startswith("$ "):
            typed, *rest = piece.splitlines()
            words = [typed[2:]]
            while rest and (rest[0] == ">" or rest[0].startswith("> ")):
                words.append(rest.pop(0)[2:])
            yield Command(line, "\n".join(words), "".join(f"{one}\n" for one in rest))
        line += piece.count("\n")


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"


def matches(shown: str, written: str) -> bool:
    """Whether a command wrote what a page shows. ``...`` stands for what differs from run to run;
    spaces at the end of a line do not count."""
    checker = doctest.OutputChecker()
    return checker.check_output(_trimmed(shown), _trimmed(written), doctest.ELLIPSIS)
