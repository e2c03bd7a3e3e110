"""One history again: on the model of any release, on any machine, with any configuration."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.promises import promise_of
from hunting.scope import Task
from hunting.walk import Broken, Ground, State, Tally
from reference import DiscoveryError, NotModelled, Release
from reference.releases import LATEST, OLDEST
from reference.steps import Step


def replayed(task: Task, steps: Sequence[Step], promise: str) -> Broken | None:
    """What breaks the promise of this id first in the history, in some outcome of its steps;
    ``None`` where none does, or where the history is not possible there."""
    try:
        ground = Ground(task)
        states = [ground.first()]
    except (DiscoveryError, NotModelled):
        return None
    for step in steps:
        reached: list[State] = []
        for state in states:
            for made, wrong in ground.taken(state, (step,), Tally()):
                for one in wrong:
                    if promise_of(one.rule).id == promise:
                        return Broken(task, made.steps, one)
                reached.append(made)
        states = reached
    return None


def possible(task: Task, steps: Sequence[Step]) -> bool:
    """Whether the history is modelled, and possible, in some outcome of its steps."""
    try:
        ground = Ground(task)
    except (DiscoveryError, NotModelled):
        return False
    states = [ground.first()]
    for step in steps:
        states = [made for one in states for made, _ in ground.taken(one, (step,), Tally())]
    return bool(states)


def releases_with(broken: Broken) -> list[str]:
    """Every minor whose model breaks the promise by the same history."""
    found = []
    since = Release.parse(promise_of(broken.violation.rule).since).minor
    for minor in range(max(OLDEST, since), LATEST + 1):
        task = Task(f"1.{minor}", broken.task.machine, broken.task.config)
        if replayed(task, broken.steps, broken.promise):
            found.append(f"1.{minor}")
    return found


def spans(releases: Sequence[str]) -> str:
    """Minors as ``1.22 to 1.26, 1.37``."""
    minors = sorted(int(one.split(".")[1]) for one in releases)
    runs: list[list[int]] = []
    for minor in minors:
        if runs and runs[-1][-1] == minor - 1:
            runs[-1].append(minor)
        else:
            runs.append([minor])
    return ", ".join(
        f"1.{run[0]}" if len(run) == 1 else f"1.{run[0]} to 1.{run[-1]}" for run in runs
    )
