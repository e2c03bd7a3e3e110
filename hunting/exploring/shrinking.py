"""A difference is shrunk on the subject: to plain settings and pods, a small machine, few steps.

What belongs here: what is tried next. What never does: walking a history (``campaign`` does).

How it works: values of the row become plain first, since a history that is drafted again is one
that a user could do. Then the machine becomes smaller, then steps are left out one by one, and pods
become plain. Parts that can each be left out are then left out together, where that is possible.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias, TypeVar

import msgspec

from conformance.discovered import first_core, topology_of
from conformance.pods import guaranteed
from conformance.subject import Capability
from hunting.exploring.drafting import ALL, is_legal
from hunting.exploring.drawing import drafted
from hunting.exploring.factors import PLAIN
from hunting.exploring.history import History
from hunting.exploring.plainer import (
    Plain,
    long_names,
    made_plain,
    plain_parts,
    with_fewer_cpus,
    with_short_names,
)
from hunting.exploring.rows import Row
from hunting.exploring.settings import machine_of
from hunting.scope import Task
from hunting.shrinking import Setting, settings, simpler, without
from reference.pods.qos import whole_cpus
from reference.steps import (
    Apply,
    Configure,
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

#: How many simpler histories are walked before the next ones are made.
_AT_ONCE: Final = 16

#: Walks histories, several at a time. It returns each up to the step after which it differs in the
#: same way; ``None`` where it does not.
Differ: TypeAlias = Callable[[Sequence[History]], list[History | None]]
#: The history of a row on a machine; ``None``: there is none.
Redraft: TypeAlias = Callable[[Row, str], History | None]
_Part = TypeVar("_Part")
#: Parts that a history may lose, and the history without some of them; ``None``: there is none.
_Parts: TypeAlias = tuple[Sequence[_Part], Callable[[Sequence[_Part]], History | None]]


def shrunk(
    history: History, release: str, differ: Differ, can: Collection[Capability] = ALL
) -> History:
    """The smallest history that is found to differ in the same way. ``differ`` returns ``None`` for
    everything once the time is over. It gets no history twice. A history without a row is shrunk
    step by step, and so is one whose row alone, without its later pods, does not differ so."""
    differ = _remembering(differ)
    if history.row:

        def redraft(row: Row, machine: str) -> History | None:
            draft = drafted(row, machine, release, can)
            return draft.history if draft else None

        row: Row = {**PLAIN, **history.row}
        own = redraft(row, _base(history.machine))
        shown = own and differ([own])[0]
        if shown is not None:
            row, history = _plainer(row, shown, redraft, differ)
            history = _on_smaller_machine(row, history, redraft, differ)
    while True:
        before = history
        history = _without_needless(history, partial(_steps_of, release=release), differ)
        history = _without_needless(history, partial(_settings_of, release=release), differ)
        history = _without_needless(history, partial(_containers_of, release=release), differ)
        history = _plain_at_once(history, partial(_pods_of, release=release), differ)
        while (found := _first(_simpler_histories(history, release), differ)) is not None:
            history = found
        history = _plain_at_once(history, partial(_names_of, release=release), differ)
        history = _with_the_same_steps(history, release, differ)
        if history == before:
            return history


def _remembering(differ: Differ) -> Differ:
    known: dict[bytes, History | None] = {}

    def remembered(histories: Sequence[History]) -> list[History | None]:
        keys = [msgspec.json.encode(msgspec.structs.replace(one, row={})) for one in histories]
        new = {key: one for key, one in zip(keys, histories, strict=True) if key not in known}
        known.update(zip(new, differ([*new.values()]), strict=True))
        return [known[key] for key in keys]

    return remembered


def _plainer(row: Row, history: History, redraft: Redraft, differ: Differ) -> tuple[Row, History]:
    machine = _base(history.machine)

    def left(names: Sequence[str]) -> History | None:
        return redraft({**row, **{name: PLAIN[name] for name in names}}, machine)

    while names := [name for name, value in row.items() if value != PLAIN[name]]:
        gone, found = _needless(names, left, differ)
        if found is None:
            break
        row, history = {**row, **{name: PLAIN[name] for name in gone}}, found
    return row, history


def _on_smaller_machine(row: Row, history: History, redraft: Redraft, differ: Differ) -> History:
    moved = [one for name in _smaller(history) if (one := redraft(row, name)) is not None]
    return next(filter(None, differ(moved)), history)


def _with_the_same_steps(history: History, release: str, differ: Differ) -> History:
    """The same steps on the smallest machine on which they differ."""
    task, steps = history.task(release), history.taken
    below = [_moved(task, name) for name in _smaller(history)]
    moved = [History.of(one, steps) for one in below if is_legal(one, steps)]
    return next(filter(None, differ(moved)), history)


def _moved(task: Task, machine: str) -> Task:
    """The task on another machine. If the task reserves a list of as many CPUs as the first core
    has there, it reserves that core. On cores of another size a difference may have another
    cause."""
    config, first = task.config, first_core(topology_of(machine_of(machine), release=task.release))
    if len(config.reserved_system_cpus or ()) == len(first):
        config = replace(config, reserved_system_cpus=first)
    return replace(task, machine=machine, config=config)


def _smaller(history: History) -> Sequence[str]:
    base = _base(history.machine)
    return _MACHINES[: _MACHINES.index(base)] if base in _MACHINES else _MACHINES


def _base(machine: str) -> str:
    """The machine without the memory and the huge pages that were given to it."""
    machine = machine.partition("-hugepages-")[0]
    head, _, tail = machine.rpartition("-")
    return head if tail.endswith("mib") else machine


def _steps_of(history: History, release: str) -> _Parts[tuple[int, ...]]:
    task, steps = history.task(release), history.taken

    def left(gone: Sequence[tuple[int, ...]]) -> History | None:
        numbers = {number for one in gone for number in one}
        fewer = tuple(step for number, step in enumerate(steps) if number not in numbers)
        return History.of(task, fewer, history.row) if is_legal(task, fewer) else None

    return (list(_droppable(steps)) if len(steps) > 1 else []), left


def _droppable(steps: Sequence[Step]) -> Iterator[tuple[int, ...]]:
    """The numbers of steps that can go together. A step goes alone, or with a start right after it.
    A stop or kill goes with the next start, and with the steps between or without them. A start
    goes alone only right after another one. An applied pod may also go with its deletion."""
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


def _needless(
    parts: Sequence[_Part], left: Callable[[Sequence[_Part]], History | None], differ: Differ
) -> tuple[Sequence[_Part], History | None]:
    """Needless parts that can go together, and the history without them; ``None`` where each part
    is needed."""
    tried = [(part, rest) for part in parts if (rest := left([part])) is not None]
    found = differ([rest for _, rest in tried])
    needless = [(part, one) for (part, _), one in zip(tried, found, strict=True) if one]
    if not needless:
        return [], None
    alone = [part for part, _ in needless]
    sizes = [size for halves in range(8) if (size := len(alone) >> halves) > 1]
    together = [(size, rest) for size in sizes if (rest := left(alone[:size])) is not None]
    found = differ([rest for _, rest in together])
    most = [(alone[:size], one) for (size, _), one in zip(together, found, strict=True) if one]
    return most[0] if most else (alone[:1], needless[0][1])


def _without_needless(
    history: History, parts: Callable[[History], _Parts[_Part]], differ: Differ
) -> History:
    """The history without the parts that it does not need to differ."""
    while True:
        _, fewer = _needless(*parts(history), differ)
        if fewer is None:
            return history
        history = fewer


def _settings_of(history: History, release: str) -> _Parts[Setting]:
    task, steps = history.task(release), history.taken

    def left(gone: Sequence[Setting]) -> History | None:
        other = replace(task, config=without(task.config, gone))
        return History.of(other, steps) if is_legal(other, steps) else None

    is_set_later = any(isinstance(one, Configure) for one in steps)
    return ([] if is_set_later else list(settings(task.config))), left


def _plain_at_once(
    history: History, parts: Callable[[History], _Parts[_Part]], differ: Differ
) -> History:
    """The history without any of the parts, or else without those that it does not need."""
    every, left = parts(history)
    plain = left(every) if every else None
    found = differ([plain])[0] if plain else None
    return found or _without_needless(history, parts, differ)


def _with_steps(
    history: History, release: str, changed: Callable[[Sequence[_Part]], tuple[Step, ...]]
) -> Callable[[Sequence[_Part]], History | None]:
    """Histories with the steps that ``changed`` makes of some parts."""
    task = history.task(release)

    def left(gone: Sequence[_Part]) -> History | None:
        steps = changed(gone)
        return History.of(task, steps) if is_legal(task, steps) else None

    return left


def _pods_of(history: History, release: str) -> _Parts[Plain]:
    steps = history.taken
    return plain_parts(steps), _with_steps(history, release, partial(made_plain, steps))


def _names_of(history: History, release: str) -> _Parts[str]:
    steps = history.taken
    return long_names(steps), _with_steps(history, release, partial(with_short_names, steps))


def _containers_of(history: History, release: str) -> _Parts[tuple[int, int]]:
    """A part is a container, by the number of its step and by its own in the pod."""
    steps = history.taken

    def fewer(gone: Sequence[tuple[int, int]]) -> tuple[Step, ...]:
        return tuple(
            _with_fewer(step, {number for at, number in gone if at == own})
            for own, step in enumerate(steps)
        )

    every = [
        (at, number)
        for at, step in enumerate(steps)
        if isinstance(step, Apply) and len(step.pod.containers) > 1
        for number in range(len(step.pod.containers))
    ]
    return every, _with_steps(history, release, fewer)


def _with_fewer(step: Step, gone: Collection[int]) -> Step:
    """The step without these containers. A pod that would have none keeps its first one."""
    if not (gone and isinstance(step, Apply)):
        return step
    every = step.pod.containers
    left = tuple(one for number, one in enumerate(every) if number not in gone)
    return Apply(replace(step.pod, containers=left or every[:1]))


def _first(tried: Iterator[History], differ: Differ) -> History | None:
    while some := list(itertools.islice(tried, _AT_ONCE)):
        if (found := next(filter(None, differ(some)), None)) is not None:
            return found
    return None


def _simpler_histories(history: History, release: str) -> Iterator[History]:
    task, steps = history.task(release), history.taken
    yield from _configured_at_first(task, steps)
    for fewer in (*_together(steps), *with_fewer_cpus(steps), *simpler(steps)):
        if is_legal(task, fewer):
            yield History.of(task, fewer)


def _configured_at_first(task: Task, steps: tuple[Step, ...]) -> Iterator[History]:
    """The history whose first start already has the configuration of a later one."""
    for at, some in enumerate(zip(steps, steps[1:], steps[2:], strict=False)):
        match some:
            case Stop(), Configure(config), Start():
                other, fewer = replace(task, config=config), (*steps[:at], *steps[at + 3 :])
                if is_legal(other, fewer):
                    yield History.of(other, fewer)


def _together(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """The steps with one pod of one container in place of two that come one after the other."""
    for at, (one, two) in enumerate(itertools.pairwise(steps)):
        if isinstance(one, Apply) and isinstance(two, Apply):
            apps = [each for pod in (one.pod, two.pod) for each in pod.containers]
            count = sum(whole_cpus(each.requested_cpu) for each in apps if each.kind is Kind.APP)
            if count:
                both = Apply(guaranteed(two.pod.name, count))
                yield (*steps[:at], both, *steps[at + 2 :])
