"""Random walks: drawn by a seed alone, and guided by what is new."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Final

from hunting.campaign import RANDOM, Campaign, Header, Shard
from hunting.families import FAMILIES
from hunting.scope import Task, drawn_tasks
from hunting.walk import Tally
from hunting.wandering import MOVES, wander
from reference import CPUSet
from reference.steps import KubeletConfig

_TASK: Final = Task("1.37", "1s-2n-8c-smt1", KubeletConfig(reserved_system_cpus=CPUSet([0])))
_EVERY: Final = tuple(FAMILIES)


def _walked(seed: str, **how: object) -> list[tuple[str, str]]:
    found = wander(_TASK, 20, seed=seed, families=_EVERY, **how)  # type: ignore[arg-type]
    return [(one.promise, repr(one.steps)) for one in found]


def test_a_seed_draws_the_same_walks() -> None:
    """And another one draws others."""
    first = _walked("1/1")
    assert first
    assert _walked("1/1") == first
    assert _walked("1/2") != first


def test_walks_are_long_and_end() -> None:
    """Longer than a search by breadth can be, and after so many moves."""
    tally = Tally()
    found = list(wander(_TASK, 20, seed="3", families=_EVERY, tally=tally))
    assert max(len(one.steps) for one in found) > 8
    assert 0 < tally.states <= MOVES
    assert len({one.promise for one in found}) > 3


def test_what_was_not_taken_is_taken_sooner() -> None:
    """In one campaign of moves nearly every family has come to its turn."""
    kinds = {
        type(step).__name__
        for seed in "123"
        for one in wander(_TASK, 20, seed=seed, families=_EVERY)
        for step in one.steps
    }
    assert {"KillContainer", "RegisterDevices", "Tamper", "KillAtRename", "Reboot"} <= kinds


def test_a_walk_stops_when_it_is_told() -> None:
    """Between two walks."""
    assert len(_walked("1/1", stop=lambda: True)) == 0


def test_searches_are_drawn_by_the_seed() -> None:
    """The same for every shard, so that shards have each once."""
    machines = ("1s-1n-2c-smt2", "1s-2n-4c-smt1")
    some = list(islice(drawn_tasks("1.37", machines, seed=7), 50))
    assert some == list(islice(drawn_tasks("1.37", machines, seed=7), 50))
    assert some != list(islice(drawn_tasks("1.37", machines, seed=8), 50))
    assert {one.machine for one in some} == set(machines)


def test_a_campaign_of_random_walks_is_resumed(tmp_path: Path) -> None:
    """What was walked is not walked again; a shard has its own numbers."""
    header = Header(
        release="1.37",
        machines=["1s-1n-2c-smt1"],
        depth=6,
        seed=2,
        shards=2,
        moves=["ends"],
        walk=RANDOM,
    )
    first = Campaign(header, Shard(2, 2), tmp_path)
    list(first.run(stop=lambda: len(first.done) >= 3))
    second = Campaign(header, Shard(2, 2), tmp_path)
    assert len(second.done) == 3
    assert all(number % 2 for number in second.done)
    assert {one.key for one in second.finds} == {one.key for one in first.finds}
