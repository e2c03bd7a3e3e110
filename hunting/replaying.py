"""One history taken again: on the model of any release, on any machine, with any configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from conformance.promises import promise_of
from hunting.scope import Task
from hunting.upgrades import is_taken, releases_of
from hunting.walk import Broken, Ground, State, Tally
from reference import DiscoveryError, NotModelled, Release
from reference.releases import LATEST, OLDEST
from reference.steps import Step, TakeOver


def replayed(task: Task, steps: Sequence[Step], promise: str) -> Broken | None:
    """The first violation of the promise of this id in the history, in some outcome of its steps;
    ``None`` where the promise is kept, or where the history is not possible there."""
    try:
        ground = Ground(task)
        states = [ground.first()]
    except (DiscoveryError, NotModelled):
        return None
    for step in steps:
        reached: list[State] = []
        for state in states:
            for new, wrong in ground.taken(state, (step,), Tally()):
                for one in wrong:
                    if promise_of(one.rule).id == promise:
                        return Broken(task, new.steps, one)
                reached.append(new)
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
        states = [new for one in states for new, _ in ground.taken(one, (step,), Tally())]
    return bool(states)


def releases_with(broken: Broken) -> list[str]:
    """Every minor whose model breaks the promise by the same history. If another release takes over
    there: every such minor that accepts the configuration, and is not that release."""
    found = []
    taker = next((step.release for step in broken.steps if isinstance(step, TakeOver)), "")
    since = Release.parse(promise_of(broken.violation.rule).since).minor
    for minor in range(max(OLDEST, since), LATEST + 1):
        task = replace(broken.task, release=f"1.{minor}")
        if taker and not (task.release != taker and is_taken(task.release, task.config)):
            continue
        if replayed(task, broken.steps, broken.promise):
            found.append(f"1.{minor}")
    return found


def breaking_alone(task: Task, steps: Sequence[Step], promise: str) -> list[str]:
    """The releases of the history whose kubelets break the promise by the same steps, though no
    other release takes over."""
    own = [step for step in steps if not isinstance(step, TakeOver)]
    every = releases_of(task.release, steps)
    alone = every if len(own) < len(steps) else ()
    return [one for one in alone if replayed(replace(task, release=one), own, promise)]


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
