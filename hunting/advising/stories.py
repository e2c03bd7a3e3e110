"""Short stories of a node, in which known defects show.

What belongs here: what each story is made of, and what has to happen for it. What never does: which
promise a story breaks (``deciding``).

How it works: a story has levels. Each level offers moves that may follow those of the level before.
Sizes of pods are those at which a kubelet decides otherwise: a core, a cache, a NUMA node, a
socket, what is left, and one CPU more or less than each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of, pooled
from hunting.families import FAMILIES, Move, Scene
from hunting.moves import RESTART, SIDECARS_SINCE, pod_level
from reference.pods.qos import whole_cpus
from reference.releases import minor_of
from reference.steps import Apply, Container, Delete, Kind, KubeletConfig, Pod

Level: TypeAlias = Callable[[Scene], Iterator[Move]]

_POD_LEVEL_SINCE: Final = 34


@dataclass(frozen=True, slots=True)
class Story:
    """``happens``: what has to happen beside pods of one container that come and go, and a kubelet
    or node that starts again; it completes a sentence that begins with "if". ``api_server``:
    whether its pods come from an API server."""

    happens: str
    levels: tuple[Level, ...]
    api_server: bool = False

    def settings(self, config: KubeletConfig) -> KubeletConfig:
        """The configuration with which the story is walked."""
        return replace(config, api_server=True) if self.api_server else config


def _left(scene: Scene) -> int:
    """CPUs that no applied pod requests for itself."""
    booked = sum(
        whole_cpus(one.cpu_request)
        for pod in scene.applied.values()
        for one in pod.containers
        if one.kind is not Kind.INIT
    )
    return max(scene.free - booked, 0)


def _sizes(scene: Scene) -> list[int]:
    topology, left = scene.topology, _left(scene)
    masks = (topology.numa_masks, topology.socket_masks, topology.uncore_masks)
    parts = {topology.cpus_per_core, *(one.bit_count() for each in masks for one in each.values())}
    sizes = {1, 2, 3, left // 2, left - 1, left}
    sizes |= {part + more for part in parts for more in (-1, 0, 1)}
    return sorted(size for size in sizes if 0 < size <= left)


def _few_sizes(scene: Scene) -> list[int]:
    """Fewer sizes, for moves that depend little on them."""
    left, node = _left(scene), min(map(int.bit_count, scene.topology.numa_masks.values()))
    sizes = {1, 2, left // 2, node - 1, node, left}
    return sorted(size for size in sizes if 0 < size <= left)


def _plain(scene: Scene) -> Iterator[Move]:
    """A pod of one container, of each of the sizes; and one that requests nothing."""
    for size in _sizes(scene):
        yield (Apply(guaranteed(scene.name, size)),)
    yield (Apply(best_effort(scene.name)),)


def _restarts(scene: Scene) -> Iterator[Move]:
    """The kubelet or the node starts again; a pod may be deleted before."""
    if scene.applied:
        yield RESTART
        yield from FAMILIES["reboots"].moves(scene)
        yield from FAMILIES["down"].moves(scene)


def _deletes(scene: Scene) -> Iterator[Move]:
    for name in scene.applied:
        yield (Delete(name),)


def _largest(scene: Scene) -> Iterator[Move]:
    for size in _sizes(scene)[-2:]:
        yield (Apply(guaranteed(scene.name, size)),)
    yield (Apply(best_effort(scene.name)),)


def _init(scene: Scene) -> Iterator[Move]:
    """An init container that is smaller than the app container, as large, and larger."""
    for size in _few_sizes(scene):
        for first in sorted({1, max(size - 1, 1), size}):
            containers = [exclusive("i", first, kind=Kind.INIT), exclusive("c", size)]
            yield (Apply(guaranteed_of(scene.name, containers)),)
        if size > 1:
            containers = [exclusive("i", size, kind=Kind.INIT), exclusive("c", 1)]
            yield (Apply(guaranteed_of(scene.name, containers)),)


def _sidecar(scene: Scene) -> Iterator[Move]:
    if minor_of(scene.release) < SIDECARS_SINCE:
        return
    for size in _few_sizes(scene):
        if size < _left(scene):
            sidecar = exclusive("s", 1, kind=Kind.SIDECAR)
            yield (Apply(guaranteed_of(scene.name, [sidecar, exclusive("c", size)])),)
            both = [sidecar, exclusive("i", 1, kind=Kind.INIT), exclusive("c", size)]
            yield (Apply(guaranteed_of(scene.name, both)),)


def _several(scene: Scene) -> Iterator[Move]:
    left = _left(scene)
    for size in _few_sizes(scene):
        for other in sorted({1, left - size}):
            if 0 < other <= left - size:
                yield (Apply(guaranteed(scene.name, size, other)),)


def _whole(scene: Scene) -> Iterator[Move]:
    """A pod that requests CPUs as a whole, with and without CPUs of a container's own."""
    if minor_of(scene.release) < _POD_LEVEL_SINCE:
        return
    for size in sorted({2, 3, max(_left(scene) // 2, 2)}):
        if size <= _left(scene):
            yield (Apply(pod_level(scene.name, size)),)
            yield (Apply(pooled(scene.name, size)),)
            shared = replace(pod_level(scene.name, size), containers=(Container("c"),))
            yield (Apply(shared),)


def _small_and_large(scene: Scene) -> Iterator[Move]:
    for size in _few_sizes(scene):
        yield (Apply(guaranteed(scene.name, size)),)


def _both(*levels: Level) -> Level:
    def offered(scene: Scene) -> Iterator[Move]:
        for one in levels:
            yield from one(scene)

    return offered


def _of(family: str) -> Level:
    return FAMILIES[family].moves


_ASKED: Final = _of("asks")


#: What happens on every node.
_AFTERWARDS: Final = _both(_restarts, _deletes, _ASKED)
ORDINARY: Final = Story(
    "other pods of one container come and go",
    (_plain, _both(_plain, _restarts, _deletes, _ASKED), _both(_restarts, _deletes, _largest)),
)

#: Stories in which pods are of another kind.
OF_PODS: Final = (
    Story("a pod has an init container",
          (_both(_init, _small_and_large), _both(_init, _restarts, _ASKED), _restarts)),
    Story("a pod has a sidecar", (_sidecar, _both(_restarts, _deletes, _largest), _restarts)),
    Story("a pod has several containers with CPUs of their own",
          (_several, _both(_several, _restarts), _restarts)),
    Story("a pod requests CPUs as a whole",
          (_both(_whole, _small_and_large), _both(_whole, _restarts, _ASKED), _restarts)),
    Story("a pod requests devices",
          (_both(_of("devices"), _small_and_large), _both(_of("devices"), _restarts), _restarts)),
)  # fmt: skip

#: Stories in which something happens to pods; the first level is theirs.
OF_EVENTS: Final = (
    Story("a container ends", (_of("ends"), _both(_of("ends"), _restarts))),
    Story("the kubelet is killed between two writes of its state file", (_of("crashes"),)),
    Story("another program changes the cpuset of a container", (_of("tampers"),)),
    Story("the container runtime refuses an update", (_of("refuses"), _restarts)),
    Story("the kubelet is asked for its metrics, or at its pod-resources socket", (_of("asks"),)),
    Story("a pod is resized in place", (_of("resizes"), _restarts), api_server=True),
)  # fmt: skip


def of_pods(pods: tuple[Pod, ...]) -> Level:
    """These pods, one after the other, as one move."""

    def offered(scene: Scene) -> Iterator[Move]:
        yield tuple(Apply(pod) for pod in pods)

    return offered


def stories(pods: tuple[Pod, ...] | None) -> Iterator[tuple[bool, Story]]:
    """Every story, with whether it is what the node does anyway. With ``pods``, these come and
    nothing else does; without, pods of one container and of all sizes come and go."""
    if pods is None:
        yield True, ORDINARY
        before: Level = _small_and_large
    else:
        before = of_pods(pods)
        yield True, Story("", (before, _AFTERWARDS, _AFTERWARDS))
        yield False, ORDINARY
    for one in OF_PODS:
        yield False, one
    for one in OF_EVENTS:
        yield False, replace(one, levels=(before, *one.levels))


#: Every story of a node without given pods, by what happens.
BY_NAME: Final = {one.happens: one for _, one in stories(None)}
