"""Where a promise is made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A document, KEP, issue or source file that makes a promise, with its address."""

    text: str
    url: str
