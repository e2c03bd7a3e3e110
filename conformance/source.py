"""Where a promise is made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """Where a promise is made: a document, KEP, issue or source file, with its address."""

    text: str
    url: str
