"""Which triples of values that decide CPUs have met.

What belongs here: counting them. What never does: the choice of values (``covering``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hunting.exploring.factors import BY_NAME
from hunting.exploring.rows import Level, Pair, Row


class Triples:
    """Triples of the values of the factors that are ``offered``. ``met``: how many have met."""

    def __init__(self, offered: Collection[str]) -> None:
        self._names = frozenset(name for name in offered if BY_NAME[name].of_cpus)
        self.met = 0
        self._bits: dict[Level, int] = {}
        #: The third values that each pair has met, as bits.
        self._third: dict[Pair, int] = {}

    def note(self, row: Row, shown: Collection[str]) -> None:
        """Note that a history shows the values of these factors."""
        for pair, thirds in self._of(row, shown):
            known = self._third.get(pair, 0)
            self.met += (thirds & ~known).bit_count()
            self._third[pair] = known | thirds

    def new(self, row: Row, shown: Collection[str]) -> int:
        """How many triples would meet first in a history that shows the values of these factors."""
        every = self._of(row, shown)
        return sum((thirds & ~self._third.get(pair, 0)).bit_count() for pair, thirds in every)

    def _of(self, row: Row, shown: Collection[str]) -> Iterator[tuple[Pair, int]]:
        """Pairs in the row, each with the values that make triples of it, as bits."""
        levels = sorted((name, row[name]) for name in shown if name in self._names)
        thirds = 0
        for number in range(len(levels) - 1, 0, -1):
            two = levels[number]
            yield from (((one, two), thirds) for one in levels[:number])
            thirds |= self._bits.setdefault(two, 1 << len(self._bits))
