"""Shorter waits for a subject with many failures.

A wait is cut short only if all remaining differences were there in the same way at the end of
:data:`ENOUGH` earlier whole waits, and no scenario has passed since. So a short wait shows only
failures that whole waits have shown several times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from conformance.results import Difference

#: Seconds; a kubelet shows an effect within 1 to 3.
SHORT: Final = 5.0
ENOUGH: Final = 3

_NAMES: Final = re.compile(r"\S+/\S+|(?<=pod )\S+")
_WORD: Final = re.compile(r"\(?[a-z]+")


class Waiting:
    """The differences at the end of a subject's waits, since the last scenario that passed."""

    def __init__(self) -> None:
        self._owed: Counter[tuple[str, str, str, str]] = Counter()

    def note(self, step: str, found: Iterable[Difference]) -> None:
        """Note a whole wait that ended with these differences."""
        self._owed.update(ways(step, found))

    def is_known(self, step: str, found: Iterable[Difference]) -> bool:
        """Whether each of these differences was there in this way often enough."""
        owed = ways(step, found)
        return bool(owed) and all(self._owed[way] >= ENOUGH for way in owed)

    def forget(self) -> None:
        """Forget all waits, since a scenario has passed."""
        self._owed.clear()


def ways(step: str, found: Iterable[Difference]) -> set[tuple[str, str, str, str]]:
    """Differences without names and numbers: step, what differs, and both kinds of values."""
    return {
        (step, _NAMES.sub("…", one.what), _kind(one.expected), _kind(one.seen)) for one in found
    }


def _kind(value: str) -> str:
    word = _WORD.match(value)
    return word[0] if word else "CPUs"
