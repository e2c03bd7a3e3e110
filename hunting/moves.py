"""The moves of a history: what a user does at once.

What belongs here: which moves a node can take next, and the steps of each. What never does: what
comes of them (``walk``), and moves that are switched on (``families``). A kubelet that is started
again is one move of two steps.
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

#: Before, an init container that is to be restarted is one as any other.
SIDECARS_SINCE: Final = 28

RESTART: Final[Move] = (Stop(), Start())


@lru_cache(maxsize=4096)
def pods_of(name: str, free: int, *, whole: bool, sidecars: bool = True) -> tuple[Pod, ...]:
    """A pod of each kind under this name, on a node with so many CPUs that pods may have.

    Of one container: with one CPU, two, half of them, all but one, all of them, or no request. Of
    more: with an init container that asks for less or for more than the app container, if
    ``sidecars`` with one, with two app containers; if ``whole``, with resources of the whole pod.
    """
    return tuple(map(_one_object, _pods_of(name, free, whole=whole, sidecars=sidecars)))


@lru_cache(maxsize=4096)
def _one_object(pod: Pod) -> Pod:
    """The same object for equal pods, so that no table compares them."""
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
    """A pod of so many CPUs as a whole, of which one container has one and another shares what is
    left."""
    whole = PodResources(str(count), str(count), "256Mi", "256Mi")
    return Pod(name, (exclusive("c", 1), Container("d")), resources=whole)


def next_moves(
    applied: Mapping[str, Pod], name: str, free: int, config: KubeletConfig, release: str
) -> Iterator[Move]:
    """What may come next: a pod of each kind, each pod deleted, the kubelet started again."""
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
    """The pods that are applied once these steps are taken, each of the size that it has been
    ``granted`` by then."""
    left = dict(applied)
    note_pods(left, steps)
    return {name: (granted or {}).get(name, pod) for name, pod in left.items()}
