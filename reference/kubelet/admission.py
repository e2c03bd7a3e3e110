"""What the kubelet checks of a pod besides the CPU manager.

What belongs here: whether the API's rules let a manifest pass at all, and the node predicate that
weighs cpu requests against what the node has. What never does: which CPUs.
Sources: ``pkg/kubelet/lifecycle/predicate.go``, ``pkg/kubelet/preemption``, 1.8 to 1.36.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import Final, NamedTuple

from reference.behaviours import Behaviour
from reference.errors import (
    UNALIGNED,
    UNEXPECTED,
    AllocationError,
    NotModelled,
    QuantityError,
    TopologyAffinityError,
)
from reference.pods.pod import Container, Kind, Pod, PodResources, RestartPolicy
from reference.pods.qos import (
    cpu_request,
    huge_pages,
    memory_request,
    pod_milli_cpus,
    total_request,
)
from reference.pods.quantity import quantity
from reference.releases import AnyRelease, has, minor_of

_NOTHING: Final[Mapping[str, int]] = {}


#: How many pods were refused, by reason: a counter from 1.32 on.
REJECTIONS: Final = "kubelet_admission_rejections_total"
REJECTIONS_SINCE: Final = 32
#: Those of the reasons that the model knows which the counter names
#: (``admissionRejectionReasons``, ``kubelet.go``).
_COUNTED_REASONS: Final = frozenset({UNEXPECTED, UNALIGNED, "OutOfcpu", "OutOfmemory"})


class Refusal(NamedTuple):
    """``status.reason`` and ``status.message`` of a pod that is not admitted. ``or_else``: those
    that the kubelet may give instead, where the order of a Go map decides."""

    reason: str
    message: str
    or_else: tuple[tuple[str, str], ...] = ()


@lru_cache(maxsize=4096)
def fault_of(pod: Pod) -> str:
    """Why the kubelet would not accept the manifest; ``""`` if it would."""
    if not any(one.kind is Kind.APP for one in pod.containers):
        return "a pod needs an app container"
    names = [one.name for one in pod.containers]
    if len(set(names)) != len(names):
        return "two containers of one name"
    if any(
        later.kind is not Kind.APP and before.kind is Kind.APP
        for before, later in zip(pod.containers, pod.containers[1:], strict=False)
    ):
        return "an init container after an app container"
    for one in pod.containers:
        never = pod.restart_policy is RestartPolicy.NEVER or one.kind is Kind.INIT
        if one.resize_restarts and never:
            return f"container {one.name}: a resize may not restart it"
    return next(filter(None, map(_fault_of_container, pod.containers)), "")


#: The first minors in which a container may have a restart policy of its own, and rules of one,
#: without gates (ContainerRestartRules, RestartAllContainersOnContainerExits), and in which the
#: kubelet compares pod-level resources of a static pod with its containers'
#: (``pkg/kubelet/config/common.go``). Seen on 1.32.2 to 1.35.0.
_OWN_POLICY_SINCE: Final = 35
_RULES_SINCE: Final = 36
_WHOLE_COMPARED_SINCE: Final = 35


def fault_by_release(pod: Pod, release: AnyRelease) -> str:
    """Why a kubelet of an earlier release would not accept the manifest, and a later one would."""
    minor = minor_of(release)
    for one in pod.containers:
        if one.kind is Kind.APP and one.own_restart_policy and minor < _OWN_POLICY_SINCE:
            return f"container {one.name}: it may have no restart policy before 1.35"
        if one.restarts_all_on and minor < _RULES_SINCE:
            return f"container {one.name}: it may have no restart rule before 1.36"
    return ""


def require_compared_whole(pod: Pod, release: AnyRelease) -> None:
    """Raises :class:`NotModelled` for a static pod whose pod-level resources do not fit its
    containers: up to 1.34 a kubelet accepts it."""
    if fault_of_whole(pod) and minor_of(release) < _WHOLE_COMPARED_SINCE:
        raise NotModelled(f"pod {pod.name} by release {release}: {fault_of_whole(pod)}")


def require_huge_pages_alone(pod: Pod) -> None:
    """Raises :class:`NotModelled` for huge pages in a pod with pod-level resources."""
    if pod.resources is not None and any(one.huge_pages for one in pod.containers):
        raise NotModelled(f"pod {pod.name}: huge pages beside pod-level resources")


def _fault_of_container(one: Container) -> str:
    fault = _fault_of_quantities(one) or _fault_of_huge_pages(one)
    return f"container {one.name}: {fault}" if fault else ""


def _fault_of_quantities(owner: Container | PodResources) -> str:
    for request, limit in (
        (owner.cpu_request, owner.cpu_limit),
        (owner.memory_request, owner.memory_limit),
    ):
        try:
            amounts = [quantity(text) for text in (request, limit) if text is not None]
        except QuantityError as error:
            return str(error)
        if any(amount < 0 for amount in amounts):
            return "a negative quantity"
        if len(amounts) == 2 and amounts[0] > amounts[1]:
            return f"request {request} is above limit {limit}"
    return ""


def _fault_of_huge_pages(one: Container) -> str:
    """``validateContainerResourceRequirements``: whole pages, and beside cpu or memory."""
    for size, text in one.huge_pages:
        try:
            page, amount = quantity(size), quantity(text)
        except QuantityError as error:
            return str(error)
        if page <= 0 or amount <= 0 or amount % page:
            return f"{text} of huge pages of {size}: not a whole number of them"
        if one.requested_cpu is None and one.requested_memory is None:
            return "huge pages without cpu or memory"
    return ""


def fault_of_whole(pod: Pod) -> str:
    """What is wrong with a pod's resources as a whole, once it is decoded
    (:func:`reference.pods.pod_level_resources.as_decoded`): they must be no less than its
    containers' together (``validatePodResourceConsistency``)."""
    whole = pod.resources
    if whole is None:
        return ""
    fault = _fault_of_quantities(whole)
    if fault:
        return f"pod-level resources: {fault}"
    parts = replace(pod, resources=None)
    for what, request, least in (
        ("cpu", whole.cpu_request, total_request(parts, cpu_request)),
        ("memory", whole.memory_request, total_request(parts, memory_request)),
    ):
        if request is not None and quantity(request) < least:
            return f"pod-level {what} request {request} is below that of its containers"
    limits = (("cpu", whole.cpu_limit), ("memory", whole.memory_limit))
    for one in pod.containers:
        if one.kind is not Kind.APP:
            continue
        for (what, limit), text in zip(limits, (one.cpu_limit, one.memory_limit), strict=True):
            if limit is not None and text is not None and quantity(text) > quantity(limit):
                return f"container {one.name}: {what} limit {text} is above the pod's {limit}"
    return ""


def refusal(reason: str, text: str, release: AnyRelease) -> Refusal:
    """A refusal as the pod's status has it: ``text`` behind the words of the release."""
    rejected = has(release, Behaviour.REJECTION_TEXT_WAS_REJECTED)
    return Refusal(reason, f"Pod was rejected: {text}" if rejected else f"Pod {text}")


def rejections(reason: str) -> str:
    """The counter of pods that were refused for this reason (``recordAdmissionRejection``)."""
    other = "OutOfExtendedResources" if reason.startswith("OutOf") else "Other"
    return f'{REJECTIONS}{{reason="{reason if reason in _COUNTED_REASONS else other}"}}'


def allocation_refusal(error: AllocationError, release: AnyRelease) -> Refusal:
    """The refusal of a pod whose CPUs could not be allocated."""
    return refusal(error.reason, allocation_message(error), release)


def allocation_message(error: AllocationError) -> str:
    """The message for a pod, or for its resize, for which something could not be allocated
    (``GetPodAdmitResult``, ``pkg/kubelet/cm/admission/errors.go``)."""
    is_named = error.reason != UNEXPECTED
    return str(error) if is_named else f"Allocate failed due to {error}, which is unexpected"


def refusal_of(error: TopologyAffinityError, release: AnyRelease) -> Refusal:
    """The refusal of a pod that the Topology Manager does not admit."""
    return refusal(error.reason, str(error), release)


def shortage(pod: Pod, admitted: Iterable[Pod], allocatable: int) -> str:
    """The kubelet's text for a pod that asks for more cpu than is left; ``""`` for others.
    ``allocatable``: of the node, in thousandths; ``admitted``: the other active pods."""
    request, used = pod_milli_cpus(pod), sum(map(pod_milli_cpus, admitted))
    if not request or request + used <= allocatable:
        return ""
    text = f"requested: {request}, used: {used}, capacity: {allocatable}"
    return f"Node didn't have enough resource: cpu, {text}"


class Lack(NamedTuple):
    """What a node lacks for a pod: ``needed`` of each resource (cpu in thousandths), and the
    kubelet's ``words`` about each."""

    needed: Mapping[str, int]
    words: Mapping[str, str]


def lack(
    pod: Pod,
    admitted: Iterable[Pod],
    allocatable: int,
    *,
    devices: Mapping[str, int] = _NOTHING,
    capacity: Mapping[str, int] = _NOTHING,
) -> Lack | None:
    """What a node lacks for a pod that asks for more cpu than is left (see :func:`shortage`), or
    for more ``devices`` or bytes of huge pages of a resource than are left of its ``capacity`` (0
    where none is said); ``None`` if it lacks nothing."""
    others = list(admitted)
    needed, words = dict[str, int](), dict[str, str]()
    if of_cpu := shortage(pod, others, allocatable):
        used = sum(map(pod_milli_cpus, others))
        needed["cpu"] = pod_milli_cpus(pod) - (allocatable - used)
        words["cpu"] = of_cpu
    for what, count in sorted(devices.items()):
        used, whole = sum(devices_of(one, what) for one in others), capacity.get(what, 0)
        if count + used > whole:
            words[what] = _lack_of_devices(what, count, used, whole)
            needed[what] = count + used - whole
    return Lack(needed, words) if needed else None


def lack_refusal(lacking: Lack, release: AnyRelease) -> Refusal:
    """The refusal of a pod for which no other is preempted: it names what comes first."""
    firsts = [order[0] for order in in_every_order(lacking.needed)]
    return _any_of([refusal(f"OutOf{one}", lacking.words[one], release) for one in firsts])


def in_every_order(resources: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """What a node lacks, in each order in which a kubelet may list it: cpu first, the others in
    that of a Go map (``fitsRequest``, ``pkg/scheduler/framework/plugins/noderesources/fit.go``)."""
    listed = list(resources)
    first = tuple(one for one in listed if one == "cpu")
    return (first + others for others in permutations(one for one in listed if one != "cpu"))


def preemption_refusal(texts: Iterable[str], release: AnyRelease) -> Refusal:
    """The refusal of a critical pod for which too few others can be preempted. ``texts``: those of
    the error that the kubelet may have."""
    before = (
        "Unexpected error while attempting to recover from admission failure: "
        "preemption: error finding a set of pods to preempt: "
    )
    return _any_of([refusal(UNEXPECTED, before + text, release) for text in texts])


def _any_of(refusals: Iterable[Refusal]) -> Refusal:
    first, *others = dict.fromkeys(refusals)
    return first._replace(or_else=tuple((one.reason, one.message) for one in others))


def _lack_of_devices(resource: str, requested: int, used: int, capacity: int) -> str:
    text = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return f"Node didn't have enough resource: {resource}, {text}"


def devices_of(pod: Pod, resource: str) -> int:
    """How many devices, or bytes of huge pages, a pod requests, whether there are any or not
    (``PodRequests``)."""
    return total_request(
        pod, lambda one: dict(one.devices).get(resource, huge_pages(one).get(resource, 0))
    )


def missing_devices(pod: Pod, known: Collection[str], release: AnyRelease) -> Mapping[str, int]:
    """How many devices count at admission of each resource that no plugin has registered
    (``known``: the others): only those of init containers (``removeMissingExtendedResources``).
    Raises :class:`NotModelled` for a sidecar's."""
    of_init = [
        (one.kind, resource, count)
        for one in pod.containers
        for resource, count in one.devices
        if one.kind is not Kind.APP and resource not in known
    ]
    if not of_init or has(release, Behaviour.MISSING_DEVICES_OF_INIT_PASSED_OVER):
        return _NOTHING
    found: dict[str, int] = {}
    for kind, resource, count in of_init:
        if kind is Kind.SIDECAR:
            raise NotModelled(f"pod {pod.name}: a sidecar requests a device that is missing")
        found[resource] = max(found.get(resource, 0), count)
    return found
