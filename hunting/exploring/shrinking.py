"""A difference is shrunk on the subject: to plain settings and pods, a small machine, few steps.

What belongs here: what is tried next. What never does: walking a history (``campaign`` does).

How it works: values of the row become plain first, since a history that is drafted again is one
that a user could do. Then the machine becomes smaller, then steps go one by one. What goes alone is
then tried together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from conformance.pods import guaranteed
from conformance.subject import Capability
from hunting.exploring.drafting import ALL, is_legal
from hunting.exploring.drawing import drafted
from hunting.exploring.factors import PLAIN
from hunting.exploring.history import History
from hunting.exploring.rows import Row
from hunting.shrinking import plainer, simpler
from reference.pods.qos import whole_cpus
from reference.steps import (
    Apply,
    Configure,
    Container,
    Delete,
    KillAtRename,
    Kind,
    Start,
    Step,
    Stop,
)

#: Machines to which a history is moved, the smallest first.
_MACHINES: Final = (
    "1s-1n-2c-smt1", "1s-1n-4c-smt1", "1s-1n-4c-smt2", "2s-2n-4c-smt1", "2s-2n-4c-smt2",
    "2s-2n-8c-smt2",
)  # fmt: skip

#: Walks histories, as many at a time as it can: whether each differs in the same way.
Differ: TypeAlias = Callable[[Sequence[History]], list[bool]]
#: The history of a row on a machine; ``None``: there is none.
Redraft: TypeAlias = Callable[[Row, str], History | None]
_Part = TypeVar("_Part")


def shrunk(
    history: History, release: str, differ: Differ, can: Collection[Capability] = ALL
) -> History:
    """The smallest history that is found to differ in the same way. ``differ`` says ``False`` of
    everything once the time is over. Of a row that does not differ so without the pods that came
    after its steps, nothing but steps and their parts become fewer."""
    if history.row:

        def redraft(row: Row, machine: str) -> History | None:
            made = drafted(row, machine, release, can)
            return made.history if made else None

        row: Row = {**PLAIN, **history.row}
        own = redraft(row, _base(history.machine))
        if own is not None and (own == history or differ([own])[0]):
            row, history = _plainer(row, own, redraft, differ)
            history = _on_smaller_machine(row, history, redraft, differ)
    while True:
        fewer = _fewer_steps(history, release, differ)
        history = _simpler_parts(fewer, release, differ)
        if history == fewer:
            return history


def _plainer(row: Row, history: History, redraft: Redraft, differ: Differ) -> tuple[Row, History]:
    machine = _base(history.machine)

    def without(names: Sequence[str]) -> History | None:
        return redraft({**row, **{name: PLAIN[name] for name in names}}, machine)

    while names := [name for name, value in row.items() if value != PLAIN[name]]:
        gone, found = _gone(names, without, differ)
        if found is None:
            break
        row, history = {**row, **{name: PLAIN[name] for name in gone}}, found
    return row, history


def _on_smaller_machine(row: Row, history: History, redraft: Redraft, differ: Differ) -> History:
    base = _base(history.machine)
    smaller = _MACHINES[: _MACHINES.index(base)] if base in _MACHINES else _MACHINES
    made = [one for name in smaller if (one := redraft(row, name)) is not None]
    found = [one for one, same in zip(made, differ(made), strict=True) if same]
    return found[0] if found else history


def _base(machine: str) -> str:
    """The machine without the memory that was given to it."""
    head, _, tail = machine.rpartition("-")
    return head if tail.endswith("mib") else machine


def _fewer_steps(history: History, release: str, differ: Differ) -> History:
    task, steps = history.task(release), history.taken

    def without(gone: Sequence[tuple[int, ...]]) -> History | None:
        numbers = {number for one in gone for number in one}
        left = tuple(step for number, step in enumerate(steps) if number not in numbers)
        return History.of(task, left, history.row) if is_legal(task, left) else None

    while len(steps) > 1:
        _, found = _gone(list(_droppable(steps)), without, differ)
        if found is None:
            return history
        history, steps = found, found.taken
    return history


def _droppable(steps: Sequence[Step]) -> Iterator[tuple[int, ...]]:
    """The numbers of steps that can go: each alone, but an end of the kubelet with the start after
    it, and with all that happens between or without; a try to start that the kubelet refuses,
    with what comes before it or without; and a pod with its end."""
    for at, step in enumerate(steps):
        after = steps[at + 1 :]
        if isinstance(step, Stop | KillAtRename):
            end = next((n for n in range(at, len(steps)) if isinstance(steps[n], Start)), at)
            yield tuple(range(at, end + 1))
            if end > at + 1:
                yield (at, end)
        elif at and isinstance(step, Start):
            if isinstance(steps[at - 1], Start):
                yield (at,)
        elif at:
            yield (at,)
            if after and isinstance(after[0], Start):
                yield (at, at + 1)
        if isinstance(step, Apply):
            name = step.pod.name
            ends = (one for one in after if isinstance(one, Delete) and one.pod == name)
            yield from ((at, steps.index(one, at)) for one in itertools.islice(ends, 1))


def _gone(
    parts: Sequence[_Part], without: Callable[[Sequence[_Part]], History | None], differ: Differ
) -> tuple[Sequence[_Part], History | None]:
    """Parts without which the history differs as before, all that go together, and the history
    without them; ``None`` where each is needed."""
    tried = [(part, made) for part in parts if (made := without([part])) is not None]
    same = differ([made for _, made in tried])
    needless = [(part, made) for (part, made), one in zip(tried, same, strict=True) if one]
    if not needless:
        return [], None
    together = [part for part, _ in needless]
    while len(together) > 1:
        made = without(together)
        if made is not None and differ([made]) == [True]:
            return together, made
        together = together[: len(together) // 2]
    return [needless[0][0]], needless[0][1]


def _simpler_parts(history: History, release: str, differ: Differ) -> History:
    """With one setting plain, or one pod of fewer containers or smaller, while that differs."""
    while True:
        tried = list(_simpler_histories(history, release))
        same = differ(tried)
        found = [one for one, is_same in zip(tried, same, strict=True) if is_same]
        if not found:
            return history
        history = found[0]


def _simpler_histories(history: History, release: str) -> Iterator[History]:
    task, steps = history.task(release), history.taken
    if not any(isinstance(one, Configure) for one in steps):
        for config in plainer(task.config):
            other = replace(task, config=config)
            if is_legal(other, steps):
                yield History.of(other, steps)
    for fewer in (*_together(steps), *_fewer_containers(steps), *simpler(steps)):
        if is_legal(task, fewer):
            yield History.of(task, fewer)


def _together(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """With one pod of one container in place of two that come one after the other."""
    for at, (one, two) in enumerate(itertools.pairwise(steps)):
        if isinstance(one, Apply) and isinstance(two, Apply):
            apps = [each for pod in (one.pod, two.pod) for each in pod.containers]
            count = sum(whole_cpus(each.requested_cpu) for each in apps if each.kind is Kind.APP)
            if count:
                both = Apply(guaranteed(two.pod.name, count))
                yield (*steps[:at], both, *steps[at + 2 :])


def _fewer_containers(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """With one pod of half the containers, or of one less."""
    for at, step in enumerate(steps):
        if isinstance(step, Apply):
            for left in _parts(step.pod.containers):
                yield (*steps[:at], Apply(replace(step.pod, containers=left)), *steps[at + 1 :])


def _parts(every: tuple[Container, ...]) -> Iterator[tuple[Container, ...]]:
    half = len(every) // 2
    if half > 1:
        yield from (every[:half], every[half:])
    if half:
        yield from (every[:n] + every[n + 1 :] for n in range(len(every)))
