"""Nodes that are wrong about resizes in place, in one way each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from conformance.subjects.miniatures.nodes import Reader
from reference.kubelet.in_cluster import DEFERRED_ACCEPTED
from reference.pods.pod import Kind, Pod
from reference.steps import Apply, Delete, KillContainer, KubeletConfig, Resize, Start, Step
from reference.view import PodView


class LeavesQuotas(Reader):
    """Grants a resize, and leaves quota and weight of running containers as they were."""

    def do(self, step: Step) -> None:
        before = self._runtime.cfs()
        super().do(step)
        for uid, named in before.items() if isinstance(step, Resize) else ():
            for name, cfs in named.items():
                self._runtime.set_cfs(uid, name, cfs)


class LeavesTheUnlimited(LeavesQuotas):
    """Grants a resize, and leaves the weight of containers without a cpu limit as it was."""

    def do(self, step: Step) -> None:
        unlimited = isinstance(step, Resize) and not all(
            one.cpu_limit for one in step.pod.containers
        )
        super().do(step) if unlimited else Reader.do(self, step)


class GrowsAndShrinksInTurn(Reader):
    """Resizes the containers of a pod in the order of its spec, whether they grow or shrink."""

    def do(self, step: Step) -> None:
        before = self._runtime.cfs()
        super().do(step)
        if not isinstance(step, Resize):
            return
        uid = step.pod.uid
        boxes, after = self._runtime.of(uid), self._runtime.cfs().get(uid, {})
        for name, cfs in before.get(uid, {}).items():
            boxes[name].cfs = cfs
        for one in step.pod.containers:
            if one.name in after:
                self._runtime.set_cfs(uid, one.name, after[one.name])


class NeverEndsMemoryRequests(Reader):
    """Says for ever that a resize is in progress that changes memory requests alone."""

    unending = ""

    def do(self, step: Step) -> None:
        if isinstance(step, Resize):
            held = self._manifests[step.pod.name]
            alone = _without_memory_requests(held) == _without_memory_requests(step.pod)
            self.unending = step.pod.name if alone and held != step.pod else ""
        super().do(step)

    def _pods(self) -> dict[str, PodView]:
        pods = super()._pods()
        if self.unending in pods:
            pods[self.unending] = replace(pods[self.unending], resize="in progress")
        return pods


def _without_memory_requests(pod: Pod) -> Pod:
    containers = tuple(replace(one, memory_request=None) for one in pod.containers)
    return replace(pod, containers=containers)


class OverlooksResizePolicies(Reader):
    """Resizes containers while they run, whatever their resize policy says."""

    def do(self, step: Step) -> None:
        if isinstance(step, Apply | Resize):
            step = replace(step, pod=_with_policies(step.pod))
        super().do(step)


def _with_policies(pod: Pod, *every: str) -> Pod:
    """The pod, of which each container with a resize policy has it of these resources."""
    containers = tuple(
        replace(one, resize_restarts=every) if one.resize_restarts else one
        for one in pod.containers
    )
    return replace(pod, containers=containers)


class _RefusesBySettings(Reader):
    """Judges resizes as if the kubelet had other settings."""

    @staticmethod
    def read(config: KubeletConfig) -> KubeletConfig:
        """The settings that count."""
        raise NotImplementedError

    def do(self, step: Step) -> None:
        own = self._config
        if isinstance(step, Resize) and self._is_changed(step.pod):
            self._config = self.read(own)
        try:
            super().do(step)
        finally:
            if isinstance(step, Resize):
                self._config = own

    def _is_changed(self, pod: Pod) -> bool:
        return True


class RefusesUnderAnyPolicy(_RefusesBySettings):
    """Refuses to resize a Guaranteed pod under CPU manager policy none as well."""

    @staticmethod
    def read(config: KubeletConfig) -> KubeletConfig:
        return replace(config, policy="static")


class GrantsAnyMemory(_RefusesBySettings):
    """Grants a Guaranteed pod another memory under the static memory manager."""

    @staticmethod
    def read(config: KubeletConfig) -> KubeletConfig:
        return replace(config, memory_manager_policy="None")


class ResizesTheEnded(_RefusesBySettings):
    """Grants a pod whose init container has ended any size."""

    @staticmethod
    def read(config: KubeletConfig) -> KubeletConfig:
        return replace(config, policy="none")

    def _is_changed(self, pod: Pod) -> bool:
        return any(one.kind is Kind.INIT for one in pod.containers)


class StartsWithTheFirstSize(Reader):
    """Starts a container that has ended with the size that its pod was applied with."""

    _first: Mapping[str, Pod] = {}

    def do(self, step: Step) -> None:
        super().do(step)
        if isinstance(step, Apply):
            self._first = {**self._first, step.pod.name: step.pod}
        if isinstance(step, KillContainer) and (size := self._size(step.pod)):
            self._start_with(size, step.container)

    def _size(self, pod: str) -> Pod | None:
        return self._first[pod]

    def _start_with(self, size: Pod, name: str) -> None:
        assert self._kubelet is not None
        container = next(one for one in size.containers if one.name == name)
        cfs = self._kubelet._container_manager.cfs(size, container)
        self._runtime.set_cfs(size.uid, name, cfs)


class StartsWithTheWantedSize(StartsWithTheFirstSize):
    """Starts a container that has ended with the size that its pod asks for, though refused."""

    def _size(self, pod: str) -> Pod | None:
        return self._in_cluster.wanted.get(pod)


class RetriesAtDeletionsAlone(Reader):
    """Tries no resize that waits again when another pod is resized."""

    def do(self, step: Step) -> None:
        if not isinstance(step, Resize):
            super().do(step)
            return
        mine = self._in_cluster
        others = {name: pod for name, pod in mine._wanted.items() if name != step.pod.name}
        mine._wanted = {name: pod for name, pod in mine._wanted.items() if name not in others}
        try:
            super().do(step)
        finally:
            mine._wanted = others | mine._wanted


class CountsEveryResize(Reader):
    """Counts each resize that it accepts as one that had to wait."""

    def do(self, step: Step) -> None:
        waited = set(self._in_cluster.wanted)
        super().do(step)
        waits = waited | self._in_cluster.wanted.keys()
        if self._kubelet is not None and isinstance(step, Resize) and step.pod.name not in waits:
            self._kubelet.count(DEFERRED_ACCEPTED)


class RetriesAtNoEnd(Reader):
    """Tries no resize that waits again when another pod has ended."""

    def do(self, step: Step) -> None:
        if not isinstance(step, KillContainer):
            super().do(step)
            return
        waiting, self._in_cluster._wanted = self._in_cluster._wanted, {}
        super().do(step)
        self._in_cluster._wanted = waiting


class RetriesTheLatestFirst(Reader):
    """Of the resizes that wait, tries the one first that was asked for last."""

    def do(self, step: Step) -> None:
        if isinstance(step, Delete):
            self._in_cluster._wanted = dict(reversed(self._in_cluster._wanted.items()))
        super().do(step)


class RetriesTheOldestAlone(Reader):
    """Of the resizes that wait, tries that one alone that has waited longest, whatever its pod."""

    def do(self, step: Step) -> None:
        mine = self._in_cluster
        oldest = list(mine._wanted)[:1]
        if not isinstance(step, Delete) or not oldest:
            super().do(step)
            return
        others = {name: pod for name, pod in mine._wanted.items() if name not in oldest}
        mine._wanted = {name: mine._wanted[name] for name in oldest}
        super().do(step)
        mine._wanted |= others


class ForgetsWaitingResizes(Reader):
    """Tries no resize again that waited as the kubelet was started."""

    def do(self, step: Step) -> None:
        super().do(step)
        if isinstance(step, Start):
            self._in_cluster._wanted = {}


class RestartsForAnyResource(Reader):
    """Starts a container again for each resize if its resize policy says so of one resource."""

    def do(self, step: Step) -> None:
        if isinstance(step, Apply | Resize):
            step = replace(step, pod=_with_policies(step.pod, "cpu", "memory"))
        super().do(step)
