"""What can happen only to pods that come through an API server: other resources in place, and
ephemeral containers.

What belongs here: what was asked of each pod, what has been granted, and when that is decided. What
never does: which resize is infeasible (``in_place_resize``), and what the managers do with one
(``container_manager``). Source: ``pkg/kubelet/allocation/allocation_manager.go`` (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from typing import Final, TypeAlias

from reference.errors import IllegalStep, NotModelled
from reference.feature_gates import enabled
from reference.kubelet.admission import fault_of, fault_of_whole
from reference.kubelet.in_place_resize import (
    RESIZE_GATE,
    capacity_refusal,
    pending,
    require_nothing_removed,
    require_resizable,
    resize_refusal,
)
from reference.kubelet.kubelet import Kubelet
from reference.pods.pod import Container, Pod, PodResources
from reference.pods.pod_level_resources import as_decoded
from reference.pods.qos import GUARANTEED, pod_memory, pod_milli_cpus, qos_class
from reference.pods.quantity import Quantity, quantity
from reference.releases import AnyRelease, minor_of
from reference.steps import KubeletConfig, Step
from reference.view import Phase, PodView

#: The last minor that tries a waiting resize again at each sync of its pod, every second or so in a
#: sandbox (``SyncPod``, ``kubelet.go``). Chance decides which of several comes first.
_RETRIES_AT_ANY_TIME_UNTIL: Final = 33
#: The first minor that tries it again at the end of a pod, too (seen on 1.36.4).
_RETRIES_AT_ENDS_SINCE: Final = 36
_INFEASIBLE: Final = "Infeasible"
_DEFERRED: Final = "Deferred"
#: At ``/metrics``, the resizes that were accepted after they had to wait. There it has a label with
#: what made the kubelet try again, which is often decided by chance; the model has the sum.
DEFERRED_ACCEPTED: Final = "kubelet_pod_deferred_accepted_resizes_total"
_COUNTS_DEFERRED_SINCE: Final = 34

#: The pods of a node by name, with the resources that they have been granted.
Pods: TypeAlias = MutableMapping[str, Pod]


class PodsInCluster:
    """What the API server knows of the pods of a node: resizes that were not granted, ephemeral
    containers, and refused pods. It outlives the kubelet."""

    def __init__(self, release: AnyRelease) -> None:
        self._release = release
        self._wanted: dict[str, Pod] = {}
        self._why: dict[str, str] = {}
        self._ephemeral: set[tuple[str, str]] = set()
        self._over: dict[str, PodView] = {}
        self._whole: dict[str, PodResources | None] = {}

    def copy(self) -> PodsInCluster:
        """An independent copy."""
        twin = PodsInCluster(self._release)
        twin._wanted, twin._why = dict(self._wanted), dict(self._why)
        twin._ephemeral, twin._over = set(self._ephemeral), dict(self._over)
        twin._whole = dict(self._whole)
        return twin

    @property
    def wanted(self) -> Mapping[str, Pod]:
        """The pods as they were asked for, by name, where that has not been granted."""
        return self._wanted

    @property
    def counts_by_chance(self) -> bool:
        """Whether chance decides how many admissions a kubelet counts: one each time that it tries
        a resize again, which is whenever a status changes (``HandlePodReconcile``, ``kubelet.go``;
        seen on 1.36.4 and 1.37.0), or it looks at the pod. A restart does not end that."""
        return any(map(self.may_try_again, self._wanted))

    def may_try_again(self, name: str) -> bool:
        """Whether a kubelet admits the pod again at any time, with the size that it waits for."""
        return name in self._wanted and not self._is_infeasible(name)

    def _is_infeasible(self, name: str) -> bool:
        return self._why.get(name, "").startswith(_INFEASIBLE)

    @property
    def has_ephemeral(self) -> bool:
        """Whether some pod has an ephemeral container."""
        return bool(self._ephemeral)

    def is_ephemeral(self, pod: str, container: str) -> bool:
        return (pod, container) in self._ephemeral

    def forget(self, name: str) -> None:
        """The pod is gone."""
        self._wanted.pop(name, None)
        self._why.pop(name, None)
        self._over.pop(name, None)
        self._whole.pop(name, None)
        self._ephemeral = {one for one in self._ephemeral if one[0] != name}

    def stored(self, pod: Pod) -> Pod:
        """The pod as the API server has it. What the server filled in for the pod as a whole when
        it was created stays, whatever its containers have been granted since (seen on 1.36.4)."""
        return replace(pod, resources=self._whole.get(pod.name, pod.resources))

    def decoded(self, pod: Pod, config: KubeletConfig) -> Pod:
        """The pod as the kubelet reads it."""
        return as_decoded(self.stored(pod), config.feature_gates, release=self._release)

    @property
    def over(self) -> Mapping[str, PodView]:
        """The refused and ended pods, as the server goes on to show them."""
        return self._over

    def note(self, pods: Mapping[str, PodView]) -> None:
        """Keep what a kubelet that ends has reported of refused and ended pods."""
        over = (Phase.REJECTED, Phase.ENDED)
        self._over |= {name: pod for name, pod in pods.items() if pod.phase in over}

    def shown(self, pods: Mapping[str, PodView]) -> dict[str, PodView]:
        """The pods, with why their resizes were not granted: of those that run
        (``determinePodResizeStatus``, ``kubelet_pods.go``)."""
        waiting = {
            name: replace(pods[name], resize=why)
            for name, why in self._why.items()
            if name in pods and pods[name].phase is Phase.RUNNING
        }
        return {**pods, **waiting}

    # -- resizes ---------------------------------------------------------------------------------

    def require(
        self, step: Step, name: str, pods: Mapping[str, Pod], config: KubeletConfig
    ) -> None:
        """Raise :class:`IllegalStep` where there is no such pod, or no API server."""
        if not config.api_server:
            raise IllegalStep(f"{type(step).__name__}: the pods of this node are manifests")
        if name not in pods:
            raise IllegalStep(f"{type(step).__name__}: no pod {name}")

    def resize(self, pods: Pods, pod: Pod, config: KubeletConfig, kubelet: Kubelet | None) -> None:
        """Ask for the resources of ``pod``; granted, it is in ``pods``. What is asked for while the
        kubelet is down is not decided when it starts, but 30 s later, or when a pod is deleted
        (``RetryPendingResizes``; seen on 1.36.4). A pod that asks for what it has is not admitted
        again, and its waiting resize is dropped. Raises :class:`IllegalStep`,
        :class:`NotModelled`."""
        self._require_legal(pods[pod.name], pod, config)
        if kubelet is not None and not _runs(kubelet, pod.name):
            raise NotModelled(f"Resize: pod {pod.name} does not run")
        has_it = _sizes(pods[pod.name]) == _sizes(pod)
        if has_it or not self.may_try_again(pod.name):  # what waits keeps its place
            self._wanted.pop(pod.name, None)
            self._why.pop(pod.name, None)
        if has_it:
            return
        self._wanted[pod.name] = pod
        if kubelet is None:
            return
        self.retry(pods, config, kubelet, first=pod.name)

    def retry(
        self, pods: Pods, config: KubeletConfig, kubelet: Kubelet, *, first: str = ""
    ) -> None:
        """Ask again for what had to wait: pods of higher priority first, then Guaranteed ones, then
        in the order in which it was asked for; before them ``first``, unless it asks for more than
        it has (``sortPendingResizes``). What is infeasible stays so until another size is asked
        for."""
        names = list(self._wanted)
        others = [name for name in names if name != first and not self._is_infeasible(name)]
        if self._retries_at_any_time and len(others) > 1:
            raise NotModelled(f"Resize: {' and '.join(others)} wait by {self._release}")
        shrinks = first and not _grows(pods[first], self._wanted[first])
        names.sort(key=lambda name: (not shrinks or name != first, *_rank(self._wanted[name])))
        for name in names:
            if _runs(kubelet, name) and not self._is_infeasible(name):
                self._decide(pods, self._wanted[name], config, kubelet)

    def retry_at_end(self, pods: Pods, config: KubeletConfig, kubelet: Kubelet) -> None:
        """Ask again once a pod has ended, or was refused: in 1.34 and 1.35 a resize waits for a
        deletion, or for up to three minutes (``HandlePodUpdates``; kubernetes/kubernetes#136231).
        """
        if self._retries_at_any_time or minor_of(self._release) >= _RETRIES_AT_ENDS_SINCE:
            self.retry(pods, config, kubelet)

    @property
    def _retries_at_any_time(self) -> bool:
        return minor_of(self._release) <= _RETRIES_AT_ANY_TIME_UNTIL

    def _decide(self, pods: Pods, pod: Pod, config: KubeletConfig, kubelet: Kubelet) -> None:
        name, gates = pod.name, config.feature_gates
        before = self.decoded(pods[name], config)
        after = self._as_asked(pods[name], pod, config)
        infeasible = resize_refusal(
            before,
            after,
            policy=config.policy,
            memory_policy=config.memory_manager_policy,
            feature_gates=gates,
            release=self._release,
        )
        infeasible = infeasible or capacity_refusal(after, kubelet.allocatable, self._release)
        text = infeasible or kubelet.resize(after)
        if text and not infeasible and pod.critical:
            raise NotModelled(f"Resize: critical pod {name} puts others out")
        if text:
            reason = _INFEASIBLE if infeasible else _DEFERRED
            self._why[name] = pending(reason, text, self._release)
            kubelet.counts_by_chance = kubelet.counts_by_chance or self.counts_by_chance
            return
        pods[name] = self._wanted.pop(name)
        self._whole[name] = after.resources
        waited = self._why.pop(name, "").startswith(_DEFERRED)
        if waited and minor_of(self._release) >= _COUNTS_DEFERRED_SINCE:
            kubelet.count(DEFERRED_ACCEPTED)

    def _require_legal(self, before: Pod, pod: Pod, config: KubeletConfig) -> None:
        if not enabled(RESIZE_GATE, config.feature_gates, release=self._release):
            raise NotModelled(f"Resize: {self._release} without feature gate {RESIZE_GATE}")
        if _without_resources(before) != _without_resources(pod):
            raise IllegalStep(f"Resize: pod {pod.name} differs in more than its resources")
        require_resizable(before, pod, config.feature_gates, self._release)
        if qos_class(pod) != qos_class(before):
            raise IllegalStep(f"Resize: pod {pod.name} would be of another QoS class")
        require_nothing_removed(before, pod)
        fault = fault_of(pod) or fault_of_whole(self._as_asked(before, pod, config))
        if fault:
            raise IllegalStep(f"Resize: pod {pod.name}: {fault}")

    def _as_asked(self, before: Pod, pod: Pod, config: KubeletConfig) -> Pod:
        """The pod with its new size, as the kubelet has it."""
        if pod.resources == before.resources:
            pod = replace(pod, resources=self.decoded(before, config).resources)
        return as_decoded(pod, config.feature_gates, release=self._release)

    # -- ephemeral containers --------------------------------------------------------------------

    def add_ephemeral(
        self, pod: Pod, container: str, config: KubeletConfig, kubelet: Kubelet
    ) -> None:
        """Start an ephemeral container in a pod. Raises :class:`IllegalStep`,
        :class:`NotModelled`."""
        names = {one.name for one in pod.containers}
        if container in names or self.is_ephemeral(pod.name, container):
            raise IllegalStep(f"AddEphemeral: pod {pod.name} has a container {container}")
        if kubelet.pods[pod.name].phase is not Phase.RUNNING:
            raise NotModelled(f"AddEphemeral: pod {pod.name} does not run")
        self._ephemeral.add((pod.name, container))
        kubelet.add_ephemeral(self.decoded(pod, config), Container(container))


def _runs(kubelet: Kubelet, name: str) -> bool:
    known = kubelet.pods.get(name)
    return known is not None and known.phase is Phase.RUNNING


def _rank(pod: Pod) -> tuple[int, bool]:
    """The sort key of a resize: the lower, the earlier."""
    return -pod.priority, qos_class(pod) != GUARANTEED


def _grows(before: Pod, after: Pod) -> bool:
    """Whether the pod asks for more cpu or memory (``isResizeIncreasingRequests``)."""
    return any(of(after) > of(before) for of in (pod_milli_cpus, pod_memory))


def _sizes(pod: Pod) -> list[tuple[Quantity | None, ...]]:
    """Requests and limits as numbers, however they are spelt."""
    owners = (*pod.containers, *([pod.resources] if pod.resources else ()))
    return [
        tuple(
            None if text is None else quantity(text)
            for text in (
                one.requested_cpu, one.cpu_limit, one.requested_memory, one.memory_limit,
            )
        )
        for one in owners
    ]  # fmt: skip


def _without_resources(pod: Pod) -> Pod:
    containers = tuple(
        replace(
            one,
            cpu_request=None,
            cpu_limit=None,
            memory_request=None,
            memory_limit=None,
            devices=(),
        )
        for one in pod.containers
    )
    return replace(pod, containers=containers, resources=None)
