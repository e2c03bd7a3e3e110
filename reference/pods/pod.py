"""Pods as their manifests state them.

What belongs here: a pod, its containers and their resources, as values. What never does: what
follows from them (``qos``, ``pod_level_resources``).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

_POD_NAMESPACE: Final = uuid.UUID("7ab0c1de-5d2f-5a39-9a6e-0d9d3c1b7f10")


class RestartPolicy(Enum):
    """Which containers are started again once they have ended (``restartPolicy`` of a pod, and from
    1.35 on of a container). Sidecars always are."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"  # those that ended with another exit code than 0
    NEVER = "Never"


class Kind(Enum):
    """What part of a pod a container is."""

    INIT = "init"
    SIDECAR = "sidecar"  # a restartable init container
    APP = "app"


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod, with the resources that decide its CPUs.

    Quantities are Kubernetes' own texts (``"2"``, ``"1500m"``, ``"64Mi"``); ``None`` leaves the
    entry out of the manifest. As in the API, a limit without a request is also the request.
    ``restarts_all_on``: the exit codes with which it has all containers of its pod start again
    (a restart rule with action RestartAllContainers, from 1.36 on by default). Rules come with a
    restart policy of the container's own: Never, if there is no other.
    ``restart_policy``: an app container's own, which outranks the pod's (feature gate
    ContainerRestartRules, from 1.35 on by default).
    ``devices``: how many it requests of each resource that a device plugin serves, by the
    resource's name.
    ``huge_pages``: how much it requests of huge pages of each size, as ``("2Mi", "64Mi")``; the
    limits are the same.
    ``resize_restarts``: the resources, of ``cpu`` and ``memory``, whose change in place restarts
    it (``resizePolicy`` RestartContainer).
    """

    name: str
    cpu_request: str | None = None
    cpu_limit: str | None = None
    memory_request: str | None = None
    memory_limit: str | None = None
    kind: Kind = Kind.APP
    restarts_all_on: tuple[int, ...] = ()
    devices: tuple[tuple[str, int], ...] = ()
    restart_policy: RestartPolicy | None = None
    resize_restarts: tuple[str, ...] = ()
    huge_pages: tuple[tuple[str, str], ...] = ()

    @property
    def own_restart_policy(self) -> RestartPolicy | None:
        """The restart policy that its manifest has (``None``: the pod's counts)."""
        if self.kind is Kind.SIDECAR:
            return RestartPolicy.ALWAYS
        return self.restart_policy or (RestartPolicy.NEVER if self.restarts_all_on else None)

    @property
    def requested_cpu(self) -> str | None:
        """The cpu request, or the limit that stands in for it."""
        return self.cpu_limit if self.cpu_request is None else self.cpu_request

    @property
    def requested_memory(self) -> str | None:
        """The memory request, or the limit that stands in for it."""
        return self.memory_limit if self.memory_request is None else self.memory_request


@dataclass(frozen=True, slots=True)
class PodResources:
    """Pod-level resources (``spec.resources``): quantities as in :class:`Container`."""

    cpu_request: str | None = None
    cpu_limit: str | None = None
    memory_request: str | None = None
    memory_limit: str | None = None

    @property
    def requested_cpu(self) -> str | None:
        """The cpu request; no limit stands in for it."""
        return self.cpu_request

    @property
    def requested_memory(self) -> str | None:
        """The memory request, as :attr:`requested_cpu`."""
        return self.memory_request


#: The priorities of system-cluster-critical, from which on a pod is critical, and of
#: system-node-critical (``pkg/apis/scheduling/types.go``).
CLUSTER_CRITICAL: Final = 2_000_000_000
NODE_CRITICAL: Final = CLUSTER_CRITICAL + 1000
#: A priority between none and that of a critical pod.
HIGH_PRIORITY: Final = 1000


class _HashedOnce:
    """Keeps the hash of a value that cannot change: pods are looked up in tables at every step."""

    __slots__ = ("_hash",)

    _hash: int


@dataclass(frozen=True, slots=True)
class Pod(_HashedOnce):
    """A pod as its manifest states it. ``containers`` is in spec order, init containers first.
    ``resources``: of the pod as a whole (``None``: not in the manifest). ``labels`` and
    ``annotations``: of its metadata, each a key and a value. ``priority``: 0,
    :data:`HIGH_PRIORITY`, or that of one of the priority classes of critical pods.

    The uid is written into the manifest, so that the pod keeps its entry in the state file
    whatever release reads it (a static pod without one is named by a hash that changes).
    """

    name: str
    containers: tuple[Container, ...]
    uid: str = ""
    resources: PodResources | None = None
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    priority: int = 0

    def __post_init__(self) -> None:
        if not self.uid:
            object.__setattr__(self, "uid", str(uuid.uuid5(_POD_NAMESPACE, self.name)))

    @property
    def critical(self) -> bool:
        """Whether the kubelet preempts others for it (``IsCriticalPodBasedOnPriority``)."""
        return self.priority >= CLUSTER_CRITICAL

    def restart_policy_of(self, container: Container) -> RestartPolicy:
        """The restart policy that counts for this container."""
        return container.own_restart_policy or self.restart_policy

    @property
    def may_end(self) -> bool:
        """Whether a container of it may end for good while others run."""
        policies = map(self.restart_policy_of, self.containers)
        return any(one is not RestartPolicy.ALWAYS for one in policies)

    @property
    def may_stay_ended(self) -> bool:
        """Whether one of its containers is never started again, or none is once all have ended: a
        pod of policy Never gets no second sandbox (``computePodActions``, ``kuberuntime``)."""
        policies = {self.restart_policy, *map(self.restart_policy_of, self.containers)}
        return RestartPolicy.NEVER in policies

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            made = hash((self.name, self.containers, self.uid, self.resources))
            object.__setattr__(self, "_hash", made)
            return made


@lru_cache(maxsize=4096)
def container_names(pod: Pod) -> frozenset[str]:
    return frozenset(one.name for one in pod.containers)
