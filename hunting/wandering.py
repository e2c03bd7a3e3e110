"""A random walk: long histories on one machine, drawn by chance and guided by what is new.

What belongs here: which state a walk goes on from, and which move it takes. What never does: the
moves (``moves``, ``families``), and taking one (``walk``).

How it works: a state that shows something new is kept, and walks begin at those that are kept. New
is a kind of move together with the phases of the pods, the reasons of refusals and the errors after
it, without their numbers. A walk ends where it meets only states that were met before. Of two kinds
of moves, the one that was taken less often is taken. The same seed draws the same walks.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Final

from conformance.promises import Violation
from hunting.families import Move
from hunting.finds import kind_of, without_numbers
from hunting.scope import Task
from hunting.walk import Broken, Ground, State, Tally, begun, counted, key_of, moves_from
from reference import DiscoveryError, NotModelled
from reference.steps import Apply

#: How many moves are taken on one machine with one configuration.
MOVES: Final = 400
#: How many states in a row that were met before, or moves that were not possible, end a walk.
_STALE: Final = 6
#: The most pods of a node: the model follows every order in which a start may admit them.
_MOST_PODS: Final = 4


def wander(
    task: Task,
    depth: int,
    *,
    seed: str,
    tally: Tally | None = None,
    ignored: Collection[str] = (),
    families: tuple[str, ...] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Broken]:
    """Every promise that the walks break. A walk ends once its history has ``depth`` steps."""
    tally = tally if tally is not None else Tally()
    try:
        ground, started = begun(task, tally)
    except (DiscoveryError, NotModelled):
        return
    for new, wrong in started:
        yield from (Broken(task, new.steps, one) for one in counted(wrong, ignored))
    walks = _Walks(ground, families, random.Random(seed))  # noqa: S311
    walks.kept = [new for new, _ in started if new.seen is not None]
    while walks.kept and walks.taken < MOVES and not stop():
        state = walks.chance.choice(walks.kept)
        for broken, end in walks.walk(state, depth, tally, ignored):
            yield Broken(task, end.steps, broken)


class _Walks:
    """What the walks of one search have met."""

    def __init__(self, ground: Ground, families: tuple[str, ...], chance: random.Random) -> None:
        self.kept: list[State] = []
        self.taken = 0
        self.chance = chance
        self._ground, self._families = ground, families
        self._counts: Counter[Hashable] = Counter()
        self._shown: set[Hashable] = set()
        self._met: set[Hashable] = set()

    def walk(
        self, state: State, depth: int, tally: Tally, ignored: Collection[str]
    ) -> Iterator[tuple[Violation, State]]:
        """One walk from this state: each broken promise, with the state that breaks it."""
        stale = 0
        while len(state.steps) < depth and stale < _STALE and self.taken < MOVES:
            self.taken += 1
            move = self._draw_move(state)
            alive = []
            for new, wrong in self._ground.taken(state, move, tally):
                broken = counted(wrong, ignored)
                yield from ((one, new) for one in broken)
                if not broken and new.seen is not None:
                    alive.append(new)
            if not alive:
                stale += 1
                continue
            state = self.chance.choice(alive)
            stale = stale + 1 if self._meet_again(state, tally) else 0
            shown = _shown(move, state)
            if shown not in self._shown:
                self._shown.add(shown)
                self.kept.append(state)

    def _draw_move(self, state: State) -> Move:
        """A move of the kind that was taken less often, of two kinds that are drawn."""
        by_kind: dict[Hashable, list[Move]] = {}
        full = len(state.pods) >= _MOST_PODS
        for move in moves_from(state, self._ground, self._families):
            if full and any(isinstance(step, Apply) for step in move):
                continue
            by_kind.setdefault(tuple(map(kind_of, move)), []).append(move)
        kinds = sorted(by_kind, key=str)
        two = [self.chance.choice(kinds) for _ in range(2)]
        kind = min(two, key=self._counts.__getitem__)
        self._counts[kind] += 1
        return self.chance.choice(by_kind[kind])

    def _meet_again(self, state: State, tally: Tally) -> bool:
        """Note the state as met; returns whether it was met before."""
        key = key_of(state, self._families)
        if key in self._met:
            tally.again += 1
            return True
        self._met.add(key)
        tally.states += 1
        return False


def _shown(move: Move, state: State) -> Hashable:
    view = state.node.seen()
    pods = sorted(
        (one.phase.value, one.reason, without_numbers(one.message)) for one in view.pods.values()
    )
    return (
        tuple(map(kind_of, move)),
        tuple(dict.fromkeys(pods)),
        without_numbers(view.error),
        bool(view.hangs),
        bool(view.shared_pool),
    )
