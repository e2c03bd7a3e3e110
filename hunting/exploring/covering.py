"""Which row is drawn next: pairs of values that have not met come first, then triples.

How it works: one pair that has not met is wanted, and every other factor gets the value that makes
most new pairs with those chosen so far (a greedy covering array, as AETG makes one). What a history
shows is known only once it is drafted, so several rows are drawn, and the one is taken whose
history shows most. A pair that no history shows in :data:`_TRIES` tries counts as not possible.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final

from hunting.exploring.factors import BY_NAME, FACTORS, PLAIN, QUIET, TAKES, THEMES, Theme
from hunting.exploring.rows import Level, Pair, Part, Row
from hunting.exploring.triples import Triples
from reference.cpumanager.policy_options import OPTIONS

#: A pair counts as impossible once this many rows were drawn for it and none has shown it.
_TRIES: Final = 3
#: One row in ``_BY_CHANCE`` is drawn by chance, so that values also meet in combinations that no
#: rule has chosen. None is from ``_MOST_PAIRS`` of all pairs on, until all have met.
_BY_CHANCE: Final = 3
_MOST_PAIRS: Final = 0.9
#: One history in this number has random steps.
_RANDOM: Final = 5
#: How likely each setting is not plain on a node with random steps. The likeliest is the topology
#: policy, which decides the admission of pods.
_SETTINGS: Final = {
    **{one.name: 0.2 for one in FACTORS if one.part is Part.SETTINGS}, "topology policy": 0.7,
}  # fmt: skip
#: How likely a factor of the row's theme is not plain. It is less likely for an option: several of
#: them exclude each other.
_VARIED: Final = 0.75
_OPTION: Final = 0.3
#: How likely the theme of pods is one that suits the settings of their node and does not suit plain
#: settings, where there is one.
_OWN: Final = 0.7
#: How many rows are drawn by chance at a time. The one with most new triples is taken.
_CHOICES: Final = 4
#: How many rows are drawn for a pair, or for another story. The one with most new pairs is taken.
#: With one row alone all pairs would take twice as many histories; with twenty, a twentieth fewer.
_DRAWN_FOR_PAIRS: Final = 14
#: The parts of a row that a second story on the same node has.
_OF_STORIES: Final = (Part.POD, Part.EVENT)


class Covering:
    """What has met among the ``offered`` values. The same seed draws the same rows."""

    def __init__(self, offered: Mapping[str, tuple[str, ...]], seed: object) -> None:
        self.offered = offered
        self._chance = random.Random(f"{seed}")  # noqa: S311
        levels = [(name, value) for name, values in offered.items() for value in values]
        every = (_pair(one, two) for one, two in combinations(levels, 2) if one[0] != two[0])
        self._left = dict.fromkeys(every)
        self.total = len(self._left)
        self._bits: dict[Level, int] = {}
        #: ``_left`` as bits, to count in: the levels that each level has yet to meet.
        self._to_meet = dict.fromkeys(levels, 0)
        for one, two in self._left:
            self._to_meet[one] |= self._bit(two)
            self._to_meet[two] |= self._bit(one)
        self._tries: Counter[Pair] = Counter()
        self._given_up: dict[Pair, None] = {}
        self.triples = Triples(offered)
        self._drawn = self._turns = 0

    @property
    def met(self) -> int:
        return self.total - len(self._left) - len(self._given_up)

    @property
    def possible(self) -> int:
        """How many pairs may meet, as far as the rows so far show."""
        return self.total - len(self._given_up)

    @property
    def left(self) -> list[Pair]:
        """The pairs that may meet and have not met."""
        return list(self._left)

    @property
    def given_up(self) -> list[Pair]:
        """The pairs that no history showed though it was drawn for them."""
        return list(self._given_up)

    def draw(self) -> list[tuple[Row, Pair | None]]:
        """Rows of which one is to be taken, each with the pair that it is drawn for, if any."""
        self._drawn += 1
        few_are_left = self.met >= _MOST_PAIRS * self.possible
        if not self._left or (self._drawn % _BY_CHANCE == 0 and not few_are_left):
            rows = [self._by_chance() for _ in range(_CHOICES)]
            return [(max(rows, key=lambda row: self.triples.new(row, row)), None)]
        return [self._for_a_pair() for _ in range(_DRAWN_FOR_PAIRS)]

    def _for_a_pair(self) -> tuple[Row, Pair]:
        wanted = next(itertools.islice(self._left, self._chance.randrange(len(self._left)), None))
        row = self._filled(self._with_taken(dict(wanted)), list(self.offered))
        return self._with_taken(row, dict(wanted)), wanted

    def _filled(self, row: Row, names: Sequence[str]) -> dict[str, str]:
        """The row with a value for each of these factors that it lacks: the one that makes most
        new pairs."""
        filled = dict(row)
        for name in self._chance.sample(names, len(names)):
            if name not in filled:
                filled[name] = self._best(name, filled)
        return filled

    def is_for_random_steps(self) -> bool:
        """Whether the next history has a row of settings alone, and random steps."""
        self._turns += 1
        return self._turns % _RANDOM == 0

    def settings(self) -> tuple[Row, Theme, random.Random]:
        """A random row of settings alone, its theme, and the random numbers for the steps on its
        node."""
        theme = self._chance.choice(THEMES)
        row = self._varied({**_SETTINGS, **_likely(theme)}, theme)
        plain = {one.name: one.plain for one in FACTORS if one.part is not Part.SETTINGS}
        return {**row, **plain}, theme, random.Random(self._chance.random())  # noqa: S311

    def theme_for(self, row: Row) -> tuple[Theme, random.Random]:
        """A theme that suits the row's settings, most often one that does not suit plain ones, and
        the random numbers for the steps on its node."""
        suiting = [one for one in THEMES if one.suits(row)]
        own = [one for one in suiting if not one.suits(PLAIN)]
        theme = self._chance.choice(own if own and self._chance.random() < _OWN else suiting)
        return theme, random.Random(self._chance.random())  # noqa: S311

    def stories_for(self, settings: Row) -> list[Row]:
        """Rows with these settings, whose pods and events make most new pairs. All events are
        equally likely: most pairs are left of those events that the settings do not permit."""
        names = [name for name in self.offered if BY_NAME[name].part in _OF_STORIES]
        kept = {name: value for name, value in settings.items() if name not in names}
        events = [self._chance.choice(self.offered["event"]) for _ in range(_DRAWN_FOR_PAIRS)]
        return [
            self._with_taken(self._filled({**kept, "event": event}, names), kept)
            for event in events
        ]

    def simpler(self, row: Row, wanted: Pair | None, left: float) -> Row:
        """The row with the wanted values, and with this part of its other values ``left``: the rest
        are plain."""
        kept = self._with_taken(dict(wanted or ()))
        return {
            name: kept.get(name) or (value if self._chance.random() < left else values[0])
            for (name, values), value in zip(
                self.offered.items(), (row[one] for one in self.offered), strict=True
            )
        }

    def _with_taken(self, row: dict[str, str], kept: Row | None = None) -> dict[str, str]:
        """The row with the values that its own need to show (:data:`TAKES`), where no other value
        was chosen. Factors in ``kept`` stay as they are."""
        for level in list(row.items()):
            for name, value in TAKES.get(level, {}).items():
                is_free = name not in (kept or row) and row.get(name) in (None, BY_NAME[name].plain)
                if is_free and value in self.offered[name]:
                    row[name] = value
        return row

    def _by_chance(self) -> Row:
        """A row in which only factors of one theme are not plain, so that their values meet with
        few others."""
        theme = self._chance.choice(THEMES)
        return self._varied(_likely(theme), theme)

    def _varied(self, likely: Mapping[str, float], theme: Theme) -> Row:
        """A row of the theme; ``likely``: how likely each other factor is not plain."""
        row: dict[str, str] = {}
        for name, values in self.offered.items():
            of_theme = [one for one in theme.of.get(name, ()) if one in values]
            varied = name in likely and self._chance.random() < likely[name]
            others = of_theme or (values[1:] if varied else ())
            row[name] = self._chance.choice(others or values[:1])
        for name in QUIET:
            row[name] = self._best(name, row)
        return self._with_taken(row, {})

    def _best(self, name: str, row: Row) -> str:
        chosen = self._mask(self._levels(row, row))
        counts = [
            ((self._to_meet[name, value] & chosen).bit_count(), value)
            for value in self.offered[name]
        ]
        most = max(count for count, _ in counts)
        return self._chance.choice([value for count, value in counts if count == most])

    def new(self, row: Row, shown: Iterable[str]) -> int:
        """How many pairs would meet first in a history that shows the values of these factors."""
        levels = self._levels(row, shown)
        mask = self._mask(levels)
        return sum((self._to_meet.get(one, 0) & mask).bit_count() for one in levels) // 2

    def note(self, row: Row, shown: Collection[str]) -> None:
        """Note that a history shows the values of these factors."""
        for pair in itertools.starmap(_pair, combinations(self._levels(row, shown), 2)):
            self._given_up.pop(pair, None)
            if pair in self._left:
                self._cross_out(pair)
        self.triples.note(row, shown)

    def failed(self, wanted: Pair) -> None:
        """Note that no history showed the pair that it was drawn for."""
        if wanted in self._left:
            self._tries[wanted] += 1
            if self._tries[wanted] >= _TRIES:
                self._cross_out(wanted)
                self._given_up[wanted] = None

    def _cross_out(self, pair: Pair) -> None:
        one, two = pair
        del self._left[pair]
        self._to_meet[one] &= ~self._bit(two)
        self._to_meet[two] &= ~self._bit(one)

    def _mask(self, levels: Iterable[Level]) -> int:
        return sum(map(self._bit, levels))

    def _bit(self, level: Level) -> int:
        """The bit of a level; random steps also have values that are not offered."""
        return self._bits.setdefault(level, 1 << len(self._bits))

    def _levels(self, row: Row, shown: Iterable[str]) -> list[Level]:
        return [(name, row[name]) for name in shown if name in self.offered]


def _likely(theme: Theme) -> dict[str, float]:
    """How likely each factor of a theme is not plain."""
    return {name: _OPTION if name in OPTIONS else _VARIED for name in theme.names}


def _pair(one: Level, two: Level) -> Pair:
    return (one, two) if one <= two else (two, one)
