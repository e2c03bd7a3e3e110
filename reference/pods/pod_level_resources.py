"""Pod-level resources: what a pod asks for as a whole, and how its containers share it.

What belongs here: whether a release knows pod-level resources, what it makes of the manifest,
which containers get CPUs of their own, and whether anything is left for the others. What never
does: how the containers share the pod's CPUs or memory (``cpumanager``, ``memorymanager``).

Up to 1.33 there are no pod-level resources, unless feature gate PodLevelResources is on. From 1.34
on a pod that has them gets no exclusive CPUs. From 1.36 on, with feature gate
PodLevelResourceManagers, its containers get theirs each (scope ``container``), or the pod gets
CPUs as a whole (scope ``pod``): exclusive containers get theirs out of these, and the others share
what is left of them.
Source: ``cm/qos``, ``policy_static.go`` of the CPU manager and the memory manager,
``apis/core/v1/defaults.go``, 1.32 to 1.37; KEP-2837, KEP-5526.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from typing import Final

from reference.behaviours import Behaviour
from reference.errors import NotModelled
from reference.feature_gates import enabled
from reference.pods.pod import Container, Kind, Pod, PodResources
from reference.pods.qos import total_request
from reference.pods.quantity import quantity
from reference.releases import NEWEST, AnyRelease, has

_GATE: Final = "PodLevelResources"
_EMPTY: Final = PodResources()


def has_pod_level_resources(pod: Pod) -> bool:
    """Whether the pod as a whole asks for anything (``IsPodLevelResourcesSet``)."""
    return pod.resources is not None and pod.resources != _EMPTY


def pod_managers_on(gates: Mapping[str, bool], *, release: AnyRelease = NEWEST) -> bool:
    """Whether pods with pod-level resources get CPUs (feature gate PodLevelResourceManagers)."""
    return enabled("PodLevelResourceManagers", gates, release=release)


def as_decoded(pod: Pod, gates: Mapping[str, bool], *, release: AnyRelease = NEWEST) -> Pod:
    """The pod as the kubelet has it once it has read the manifest.

    Pod-level resources that the release does not know are gone. Empty ones make a pod BestEffort
    up to 1.36, and are ignored from 1.37 on. Up to 1.36 a missing pod-level request is what
    the containers ask for, or else the limit; from 1.37 on only the API server fills it in.
    Raises :class:`NotModelled` where 1.36 and later have them switched off: gates that depend
    on them must be off as well for a kubelet to start, and then its managers still see them.
    """
    resources = pod.resources
    if resources is None:
        return pod
    known = enabled(_GATE, gates, release=release)
    if not known and has(release, Behaviour.POD_LEVEL_MANAGERS):
        raise NotModelled(f"pod {pod.name}: pod-level resources without feature gate {_GATE}")
    if not known:
        return replace(pod, resources=None)
    if resources == _EMPTY:
        empty = has(release, Behaviour.EMPTY_POD_LEVEL_IGNORED)
        return replace(pod, resources=None) if empty else pod
    if has(release, Behaviour.POD_LEVEL_REQUESTS_NOT_FILLED_IN):
        return pod
    return replace(pod, resources=_filled_in(pod, resources))


def require_known_requests(pod: Pod, *, api_server: bool, release: AnyRelease) -> None:
    """Raises :class:`NotModelled` where only the API server fills in what the pod as a whole
    requests, and that differs from what the manifest says."""
    if not api_server or not has(release, Behaviour.POD_LEVEL_REQUESTS_NOT_FILLED_IN):
        return
    if as_stored(pod) != pod:
        raise NotModelled(f"pod {pod.name}: an API server adds requests to its limits as a whole")


def as_stored(pod: Pod) -> Pod:
    """The pod as an API server keeps it, with what it requests as a whole filled in."""
    if pod.resources is None:
        return pod
    return replace(pod, resources=_filled_in(pod, pod.resources))


def _filled_in(pod: Pod, given: PodResources) -> PodResources:
    """``defaultPodRequests``: nothing without a limit."""
    if given.cpu_limit is None and given.memory_limit is None:
        return given
    cpu, memory = given.cpu_request, given.memory_request
    if cpu is None:
        cpu = _sum_text(pod, attrgetter("requested_cpu")) or given.cpu_limit
    if memory is None:
        memory = _sum_text(pod, attrgetter("requested_memory")) or given.memory_limit
    return replace(given, cpu_request=cpu, memory_request=memory)


def _sum_text(pod: Pod, of: Callable[[Container], str | None]) -> str:
    """What the containers ask for together, init containers one at a time; ``""`` if none asks."""
    if all(of(one) is None for one in pod.containers):
        return ""
    total = total_request(pod, lambda one: Fraction(quantity(of(one) or "0")))
    if total.denominator == 1:
        return str(total.numerator)
    nano = total * 10**9
    return f"{-(-nano.numerator // nano.denominator)}n"


# -- which containers get CPUs of their own --------------------------------------------------


def is_guaranteed_alone(container: Container) -> bool:
    """Whether a container's own cpu and memory requests are there and equal its limits
    (``IsContainerEquivalentQOSGuaranteed``)."""
    return _equal(container.requested_cpu, container.cpu_limit) and _equal(
        container.requested_memory, container.memory_limit
    )


def empty_pool_fault(
    pod: Pod, total: int, counts: Mapping[str, int], *, of: str = "cpu", noun: str = "cpus"
) -> str:
    """Why a pod is refused that requests ``total`` as a whole; ``""`` if some of it is left for its
    shared containers (``validatePodScopeResources``). ``counts``: what each container has to
    itself, by name."""
    taken, shares = 0, False
    for container in pod.containers:
        count = counts.get(container.name, 0)
        if container.kind is Kind.INIT:
            if not count and taken >= total:
                return (
                    f"pod rejected, pod has shared init containers but no {noun} available for them"
                )
        elif count:
            taken += count
        else:
            shares = True
    if shares and taken >= total:
        return (
            f"pod rejected, sum of exclusive container {of} requests equals pod budget, "
            f"leaving no {noun} for shared containers"
        )
    return ""


def _equal(request: str | None, limit: str | None) -> bool:
    if request is None or limit is None:
        return False
    amount = quantity(request)
    return amount != 0 and amount == quantity(limit)
