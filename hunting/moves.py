"""The moves of a history: the steps that a user takes together.

What belongs here: which moves a node can take next, and the steps of each. What never does: taking
them (``walk``), and moves that are switched on (``families``). A restart of the kubelet is one move
of two steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from hunting.families import Move
from reference.pods.pod_level_resources import pod_managers_on
from reference.releases import minor_of
from reference.steps import (
    Apply,
    Container,
    Delete,
    Kind,
    KubeletConfig,
    Pod,
    PodResources,
    Start,
    Step,
    Stop,
    note_pods,
)

#: Before this minor a restartable init container is like any other init container.
SIDECARS_SINCE: Final = 28

RESTART: Final[Move] = (Stop(), Start())


@lru_cache(maxsize=4096)
def pods_of(name: str, free: int, *, whole: bool, sidecars: bool = True) -> tuple[Pod, ...]:
    """A pod of each kind under this name, on a node with ``free`` CPUs for pods.

    Of one container: with one CPU, two, half of them, all but one, all of them, or no request. Of
    more: with an init container that asks for less or for more than the app container; with two app
    containers; if ``sidecars``, with one; if ``whole``, with resources of the whole pod.
    """
    return tuple(map(_one_object, _pods_of(name, free, whole=whole, sidecars=sidecars)))


@lru_cache(maxsize=4096)
def _one_object(pod: Pod) -> Pod:
    """The same object for equal pods: a dictionary finds it without comparing pods."""
    return pod


def _pods_of(name: str, free: int, *, whole: bool, sidecars: bool) -> Iterator[Pod]:
    for count in sorted({1, 2, max(free // 2, 1), max(free - 1, 1), free}):
        if count <= free:
            yield guaranteed(name, count)
    yield best_effort(name)
    for first, second in ((1, 2), (2, 1)):
        if max(first, second) <= free:
            init = exclusive("i", first, kind=Kind.INIT)
            yield guaranteed_of(name, [init, exclusive("c", second)])
    if free >= 2 and sidecars:
        yield guaranteed_of(name, [exclusive("s", 1, kind=Kind.SIDECAR), exclusive("c", 1)])
    if free >= 3:
        yield guaranteed(name, 1, 2)
    if whole:
        for count in {2, 3} & {*range(free + 1)}:
            yield pod_level(name, count)


def pod_level(name: str, count: int) -> Pod:
    """A pod of ``count`` CPUs as a whole: one container has one CPU, another shares the rest."""
    whole = PodResources(str(count), str(count), "256Mi", "256Mi")
    return Pod(name, (exclusive("c", 1), Container("d")), resources=whole)


def next_moves(
    applied: Mapping[str, Pod], name: str, free: int, config: KubeletConfig, release: str
) -> Iterator[Move]:
    """The moves that may come next: apply a pod of each kind, delete a pod, restart the kubelet."""
    whole = pod_managers_on(config.feature_gates, release=release)
    sidecars = minor_of(release) >= SIDECARS_SINCE
    for pod in pods_of(name, free, whole=whole, sidecars=sidecars):
        yield (Apply(pod),)
    for gone in applied:
        yield (Delete(gone),)
    if applied:
        yield RESTART


def after(
    applied: Mapping[str, Pod], steps: Sequence[Step], granted: Mapping[str, Pod] | None = None
) -> dict[str, Pod]:
    """The pods that are applied after these steps, with the sizes in ``granted``."""
    left = dict(applied)
    note_pods(left, steps)
    return {name: (granted or {}).get(name, pod) for name, pod in left.items()}
