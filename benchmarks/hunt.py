"""How many model steps a second a hunt takes, with all that it makes of what it finds.

    python -m benchmarks.hunt [SEARCHES]

A fixed sample of searches (25 unless told) of three moves, out of all on machines of at most 8
CPUs with options behind alpha feature gates (1.37, seed 7). Prints, by processor time, steps a
second of the walk alone and with finds made of broken promises (shrunk, matched, placed), and how
many steps the walk takes in the time of a million turns of a plain loop, which varies less from
machine to machine. The first finds cost most: causes that are known are not shrunk again.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from itertools import islice

from hunting.campaign import machines_named
from hunting.finds import Collection
from hunting.scope import Task, tasks
from hunting.walk import Tally, search

_RELEASE, _CPUS, _DEPTH, _SEED = "1.37", 8, 3, 7
_TURNS = 1_000_000


def seconds(action: Callable[[], object]) -> float:
    """The processor time of one ``action``."""
    began = time.process_time()
    action()
    return time.process_time() - began


def sample(searches: int) -> list[Task]:
    """So many of all searches, as ``pinproof hunt --alpha --seed 7`` shuffles them."""
    every = list(tasks(_RELEASE, tuple(machines_named([], most=_CPUS)), alpha=True))
    random.Random(_SEED).shuffle(every)
    return every[:searches]


def walk(chosen: list[Task], tally: Tally, finds: Collection | None) -> None:
    """Every search; ``finds`` are made of what breaks a promise."""
    for task in chosen:
        for broken in search(task, _DEPTH, tally=tally):
            if finds is not None:
                finds.add(broken)


def main() -> None:
    searches = int(next(islice(sys.argv, 1, None), "25"))
    chosen, alone, whole, finds = sample(searches), Tally(), Tally(), Collection()
    loop = seconds(lambda: sum(range(_TURNS)))
    walking = seconds(lambda: walk(chosen, alone, None))
    hunting = seconds(lambda: walk(chosen, whole, finds))
    print(f"{len(chosen)} searches of {_DEPTH} moves: {alone.steps} steps, {alone.states} states")
    print(f"the walk alone: {alone.steps / walking:.0f} steps a second")
    print(f"with {len(finds)} finds: {whole.steps / hunting:.0f} steps a second")
    print(f"a loop of {_TURNS} turns takes as long as {alone.steps / walking * loop:.0f} steps")


if __name__ == "__main__":
    main()
