"""How long a thoroughly broken subject is waited for.

A wait is cut short only where everything that is still wrong was wrong in the same way at the end
of :data:`ENOUGH` whole waits before, with no scenario passed in between. So a short
wait accuses no subject of what a long one has not shown several times.
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
    """What a subject owed at the end of its waits, since the last scenario that passed."""

    def __init__(self) -> None:
        self._owed: Counter[tuple[str, str, str, str]] = Counter()

    def note(self, step: str, found: Iterable[Difference]) -> None:
        """A wait has ended with these differences."""
        self._owed.update(ways(step, found))

    def is_known(self, step: str, found: Iterable[Difference]) -> bool:
        """Whether each of these differences was there in this way often enough."""
        owed = ways(step, found)
        return bool(owed) and all(self._owed[way] >= ENOUGH for way in owed)

    def forget(self) -> None:
        """A scenario has passed."""
        self._owed.clear()


def ways(step: str, found: Iterable[Difference]) -> set[tuple[str, str, str, str]]:
    """Differences without names and numbers: what, and from which kind of value to which."""
    return {
        (step, _NAMES.sub("…", one.what), _kind(one.expected), _kind(one.seen)) for one in found
    }


def _kind(value: str) -> str:
    word = _WORD.match(value)
    return word[0] if word else "CPUs"
