"""Plainer pods: of Guaranteed containers without devices and rules, with short names."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from conformance.pods import exclusive
from conformance.written import read, written
from reference.pods.pod import Container, Pod, RestartPolicy
from reference.pods.qos import whole_cpus
from reference.pods.quantity import milli_value, quantity
from reference.steps import (
    Apply,
    ApplyTogether,
    Replace,
    ReplaceStopping,
    Resize,
    Step,
    applied,
)

#: Names up to this length stay as they are.
_SHORT: Final = 8
_MEMORY: Final = exclusive("c", 1).memory_limit
_POD: Final = {
    "restart_policy": RestartPolicy.ALWAYS, "labels": (), "annotations": (), "priority": 0,
}  # fmt: skip
_CONTAINER: Final = {
    "restarts_all_on": (), "restart_policy": None, "devices": (), "huge_pages": (),
    "resize_restarts": (),
}  # fmt: skip


class Plain(NamedTuple):
    """Plain values of fields of a pod, or of a ``container`` of it (``""``: the pod's own)."""

    pod: str
    container: str
    values: tuple[tuple[str, object], ...]


def plain_parts(steps: Sequence[Step]) -> list[Plain]:
    """What can become plain in pods that are applied."""
    return [
        Plain(name, container, values)
        for name, pod in _pods(steps).items()
        for container, values in _plain_values(pod)
    ]


def made_plain(steps: Sequence[Step], parts: Collection[Plain]) -> tuple[Step, ...]:
    """The steps with these parts plain, in every step that has the pod."""
    values: defaultdict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for part in parts:
        values[part.pod, part.container].update(part.values)

    def plain(pod: Pod) -> Pod:
        containers = (replace(one, **values[pod.name, one.name]) for one in pod.containers)
        return replace(pod, containers=tuple(containers), **values[pod.name, ""])

    return tuple(_with_pods(step, plain) for step in steps)


def with_fewer_cpus(steps: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
    """The steps with fewer CPUs for one container: half of them, 3/4, 7/8, or all but one."""
    for name, pod in _pods(steps).items():
        for one in pod.containers:
            count = whole_cpus(one.requested_cpu)
            for fewer in sorted({count // 2, count - count // 4, count - count // 8, count - 1}):
                if 0 < fewer < count:
                    values = tuple((field, str(fewer)) for field, _ in _plain_cpus(one))
                    yield made_plain(steps, [Plain(name, one.name, values)])


def long_names(steps: Sequence[Step]) -> list[str]:
    """Names of pods and containers that could be shorter."""
    return [name for name in _named(steps) if len(name) > _SHORT]


def with_short_names(steps: Sequence[Step], names: Collection[str]) -> tuple[Step, ...]:
    """The steps with the shortest unused names in place of these. Equal names stay equal. A uid
    that follows from a pod's name follows from the new one."""
    every = _named(steps)
    kept = set(every) - set(names)
    short = {name: _unused(every[name], kept) for name in every if name in names}
    uids = {Pod(old, ()).uid: Pod(new, ()).uid for old, new in short.items()}
    return tuple(read(_replaced(written(step), {**short, **uids})) for step in steps)


def _pods(steps: Sequence[Step]) -> dict[str, Pod]:
    """The pods by name, as they are applied last."""
    return {pod.name: pod for step in steps for pod in applied(step)}


def _plain_values(pod: Pod) -> Iterator[tuple[str, tuple[tuple[str, object], ...]]]:
    for field, plain in _POD.items():
        if getattr(pod, field) != plain:
            yield "", ((field, plain),)
    for one in pod.containers:
        of_fields = [((field, plain),) for field, plain in _CONTAINER.items()]
        for values in (*of_fields, _plain_cpus(one), _one_cpu(one), _plain_memory(one)):
            if any(getattr(one, field) != plain for field, plain in values):
                yield one.name, values


def _plain_cpus(container: Container) -> tuple[tuple[str, object], ...]:
    fields = {"cpu_request": container.requested_cpu, "cpu_limit": container.cpu_limit}
    return tuple((field, _plainly(text)) for field, text in fields.items() if text is not None)


def _plainly(text: str) -> str:
    milli = milli_value(quantity(text))
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def _one_cpu(container: Container) -> tuple[tuple[str, object], ...]:
    return tuple((field, "1") for field, text in _plain_cpus(container) if whole_cpus(str(text)))


def _plain_memory(container: Container) -> tuple[tuple[str, object], ...]:
    if container.requested_memory is None:
        return ()
    fields = ("memory_request", "memory_limit")[: 1 if container.memory_limit is None else 2]
    return tuple((field, _MEMORY) for field in fields)


def _with_pods(step: Step, plain: Callable[[Pod], Pod]) -> Step:
    if isinstance(step, ApplyTogether):
        return replace(step, pods=tuple(map(plain, step.pods)))
    if isinstance(step, Apply | Replace | ReplaceStopping | Resize):
        return replace(step, pod=plain(step.pod))
    return step


def _named(steps: Sequence[Step]) -> dict[str, str]:
    """The names of pods and of containers, and what their short names begin with."""
    pods = [pod for step in steps for pod in applied(step)]
    containers = {one.name: one.kind.value[:4] for pod in pods for one in pod.containers}
    return {**containers, **{pod.name: "pod" for pod in pods}}


def _unused(stem: str, names: set[str]) -> str:
    every = itertools.chain([stem], (f"{stem}{number}" for number in itertools.count(2)))
    name = next(one for one in every if one not in names)
    names.add(name)
    return name


def _replaced(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return texts.get(value, value)
    if isinstance(value, list | tuple):
        return [_replaced(one, texts) for one in value]
    if isinstance(value, dict):
        return {key: _replaced(one, texts) for key, one in value.items()}
    return value
