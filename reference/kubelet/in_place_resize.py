"""In-place resize: whether a pod under the static policy may be given other requests while it runs.

Up to 1.31 no kubelet checks. From 1.32 on a Guaranteed pod is refused, as its CPUs would not follow
its request; from 1.34 on only where a cpu request changes. Feature gate
InPlacePodVerticalScalingExclusiveCPUs lifts the refusal, and moves no CPUs. From 1.33 on the static
memory manager refuses likewise, from 1.34 on only another memory request; 1.32 compares its policy
with "static", which is not its name. Up to 1.35 a pod that asks for more than the whole node has
is refused as well.
A resize comes through the API server, so no static pod has one.
Source: ``canResizePod`` (``kubelet.go`` 1.32 and 1.33, ``allocation/allocation_manager.go`` 1.34
and 1.35, ``allocation/handlers.go`` 1.36 and 1.37).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Final

from reference.behaviours import Behaviour
from reference.errors import IllegalStep, NotModelled
from reference.feature_gates import enabled
from reference.pods.pod import Container, Kind, Pod
from reference.pods.qos import GUARANTEED, cpu_request, memory_request, pod_milli_cpus, qos_class
from reference.releases import NEWEST, AnyRelease, has, minor_of
from reference.steps import KubeletConfig

RESIZE_GATE: Final = "InPlacePodVerticalScaling"
_CONDITIONS_SINCE: Final = 33
_CAPACITY_UNTIL: Final = 35
#: The minor whose status of a container has its request only with a gate of its own, and whose
#: static policy reads it there.
_STATUS_LACKS_REQUESTS: Final = 32
_READS_STATUS_UNTIL: Final = 34
_CPU_GATE: Final = "InPlacePodVerticalScalingExclusiveCPUs"
_MEMORY_GATE: Final = "InPlacePodVerticalScalingExclusiveMemory"
_WHOLE_GATE: Final = "InPlacePodLevelResourcesVerticalScaling"
#: With it, init containers that are not restarted have a size that may change, though they have
#: ended (``IsResizableContainer``).
_INIT_GATE: Final = "InPlacePodVerticalScalingInitContainers"


def resize_refusal(
    before: Pod,
    after: Pod,
    *,
    policy: str = "static",
    memory_policy: str = "None",
    feature_gates: Mapping[str, bool] | None = None,
    release: AnyRelease = NEWEST,
) -> str:
    """The message with which a resize from ``before`` to ``after`` is infeasible; ``""`` if neither
    the CPU manager nor the memory manager refuses it."""
    if not has(release, Behaviour.RESIZE_REFUSED) or qos_class(after) != GUARANTEED:
        return ""
    on = partial(enabled, given=feature_gates, release=release)
    changes = partial(_changes, before, after, on(_INIT_GATE))
    text = "Resize is infeasible for Guaranteed Pods alongside"
    by_cpu = policy == "static" and not on(_CPU_GATE)
    if not has(release, Behaviour.RESIZE_REFUSED_FOR_CPU):
        if by_cpu:
            return f"{text} CPU Manager static policy"
        by_memory = memory_policy == "Static" and minor_of(release) >= _CONDITIONS_SINCE
        refused = by_memory and not on(_CPU_GATE)
        return f"{text} Memory Manager static policy" if refused else ""
    if by_cpu and changes(cpu_request):
        return f'{text} CPU Manager policy "static"'
    if memory_policy == "Static" and not on(_MEMORY_GATE) and changes(memory_request):
        return f'{text} Memory Manager policy "Static"'
    return ""


def overlooks_requests(config: KubeletConfig, release: AnyRelease) -> bool:
    """Whether a kubelet that starts beside pods of an API server takes their cpu requests from a
    status that does not have them, so that it counts no exclusive CPUs as requested
    (``guaranteedCPUs``, ``policy_static.go``; seen on 1.32.2). In 1.33 and 1.34 the status has them
    once the server was sent it, a moment after a container runs (seen on both)."""
    resizes = enabled(RESIZE_GATE, config.feature_gates, release=release)
    reads_status = _STATUS_LACKS_REQUESTS <= minor_of(release) <= _READS_STATUS_UNTIL
    return config.api_server and resizes and reads_status


def require_quota_left_alone(config: KubeletConfig, release: AnyRelease) -> None:
    """Up to 1.32 a kubelet with resizes may restore a quota that was changed behind its back
    (``computePodResizeAction``; seen on 1.32.2). Raises :class:`NotModelled`."""
    if _resizes_by_1_32(config, release):
        raise NotModelled(f"TamperQuota by release {release} with feature gate {RESIZE_GATE}")


def require_quotas_of_limits(config: KubeletConfig, release: AnyRelease) -> None:
    """Up to 1.32 a kubelet with resizes and without CFS quotas never finds the limits that its
    containers ought to have, and tries to set them again and again (seen on 1.32.2). Raises
    :class:`NotModelled`."""
    if not config.cpu_cfs_quota and _resizes_by_1_32(config, release):
        raise NotModelled(f"cpuCFSQuota false by release {release} with feature gate {RESIZE_GATE}")


def _resizes_by_1_32(config: KubeletConfig, release: AnyRelease) -> bool:
    """Whether a kubelet of 1.32 or earlier has the feature gate of resizes on."""
    resizes = enabled(RESIZE_GATE, config.feature_gates, release=release)
    return resizes and minor_of(release) <= _STATUS_LACKS_REQUESTS


def pending(reason: str, text: str, release: AnyRelease) -> str:
    """Why a resize has not been granted, as its pod shows it: up to 1.32 as ``status.resize``, then
    as a condition, which has a message."""
    return f"{reason}: {text}" if minor_of(release) >= _CONDITIONS_SINCE else reason


def _changes(before: Pod, after: Pod, init: bool, of: Callable[[Container], Fraction]) -> bool:
    """Whether a request changes, ``init``: those of init containers that are not restarted, too
    (``guaranteedPodResourceResizeRequired``)."""
    old = {one.name: of(one) for one in before.containers}
    return any(
        of(one) != old.get(one.name)
        for one in after.containers
        if init or one.kind is not Kind.INIT
    )


def require_nothing_removed(before: Pod, after: Pod) -> None:
    """Raise :class:`IllegalStep` where a container would lose a request or a limit, which the API
    server refuses."""
    for old, new in zip(before.containers, after.containers, strict=True):
        if any(had is not None and given is None for had, given in _given(old, new)):
            raise IllegalStep(f"Resize: pod {after.name}: no request and no limit can be removed")


def _given(old: Container, new: Container) -> Iterator[tuple[str | None, str | None]]:
    """The requests and limits before and after, as the API server has them."""
    yield old.requested_cpu, new.requested_cpu
    yield old.cpu_limit, new.cpu_limit
    yield old.requested_memory, new.requested_memory
    yield old.memory_limit, new.memory_limit


def capacity_refusal(pod: Pod, allocatable: int, release: AnyRelease) -> str:
    """The message with which a pod that asks for more cpu than the node has (``allocatable``, in
    thousandths) is infeasible, up to 1.35; ``""`` if it asks for no more."""
    request = pod_milli_cpus(pod)
    if minor_of(release) > _CAPACITY_UNTIL or request <= allocatable:
        return ""
    return f"Node didn't have enough capacity: cpu, requested: {request}, capacity: {allocatable}"


def require_resizable(
    before: Pod, after: Pod, gates: Mapping[str, bool], release: AnyRelease
) -> None:
    """Raise :class:`IllegalStep` for another size of an init container, or of the pod as a whole,
    where the API server keeps it (``apis/core/validation``)."""
    if not enabled(_WHOLE_GATE, gates, release=release) and (before.resources or after.resources):
        raise IllegalStep(f"Resize: pod {after.name}: one with pod-level resources has no resize")
    if enabled(_INIT_GATE, gates, release=release):
        return
    sizes = [[one for one in pod.containers if one.kind is Kind.INIT] for pod in (before, after)]
    if sizes[0] != sizes[1]:
        raise IllegalStep(f"Resize: pod {after.name}: init containers keep their size")
