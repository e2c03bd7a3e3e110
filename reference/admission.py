"""What the kubelet checks of a pod besides the CPU manager.

What belongs here: whether the API's rules let a manifest pass at all, and the node predicate that
weighs cpu requests against what the node has. What never does: which CPUs.
Sources: ``pkg/kubelet/lifecycle/predicate.go``, ``pkg/kubelet/preemption``, 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from reference.behaviours import Behaviour
from reference.errors import (
    AllocationError,
    EmptyPodSharedPoolError,
    QuantityError,
    SMTAlignmentError,
)
from reference.qos import pod_milli_cpus
from reference.quantity import quantity
from reference.releases import AnyRelease, has
from reference.steps import Container, Kind, Pod

__all__ = ["Refusal", "allocation_refusal", "fault_of", "lack_of_cpus"]

#: ``status.reason`` where the kubelet did not foresee the cause.
_UNEXPECTED: Final = "UnexpectedAdmissionError"


class Refusal(NamedTuple):
    """``status.reason`` and ``status.message`` of a pod that is not admitted."""

    reason: str
    message: str


def fault_of(pod: Pod) -> str:
    """Why the kubelet would not even take the manifest up; ``""`` if it would."""
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
    return next(filter(None, map(_fault_of_container, pod.containers)), "")


def _fault_of_container(one: Container) -> str:
    for request, limit in (
        (one.cpu_request, one.cpu_limit),
        (one.memory_request, one.memory_limit),
    ):
        try:
            amounts = [quantity(text) for text in (request, limit) if text is not None]
        except QuantityError as error:
            return f"container {one.name}: {error}"
        if any(amount < 0 for amount in amounts):
            return f"container {one.name}: a negative quantity"
        if len(amounts) == 2 and amounts[0] > amounts[1]:
            return f"container {one.name}: request {request} is above limit {limit}"
    return ""


def refusal(reason: str, text: str, release: AnyRelease) -> Refusal:
    """A refusal as the pod's status has it: ``text`` behind the words of the release."""
    rejected = has(release, Behaviour.REJECTION_TEXT_WAS_REJECTED)
    return Refusal(reason, f"Pod was rejected: {text}" if rejected else f"Pod {text}")


def allocation_refusal(error: AllocationError, release: AnyRelease) -> Refusal:
    """Of a pod whose CPUs could not be allocated."""
    if isinstance(error, SMTAlignmentError):
        return refusal("SMTAlignmentError", str(error), release)
    if isinstance(error, EmptyPodSharedPoolError):
        return refusal(error.reason, str(error), release)
    return refusal(_UNEXPECTED, f"Allocate failed due to {error}, which is unexpected", release)


def lack_of_cpus(
    pod: Pod, admitted: Iterable[Pod], allocatable: int, release: AnyRelease
) -> Refusal | None:
    """Of a static pod that asks for more cpu than is left, ``None`` otherwise.

    ``allocatable``: of the node, in thousandths; ``admitted``: the other active pods. A static
    pod is critical, so the kubelet looks for pods to put out in its favour and finds none, since
    the others are critical as well.
    """
    request = pod_milli_cpus(pod)
    missing = request - (allocatable - sum(map(pod_milli_cpus, admitted)))
    if not request or missing <= 0:
        return None
    return refusal(
        _UNEXPECTED,
        "Unexpected error while attempting to recover from admission failure: "
        "preemption: error finding a set of pods to preempt: no set of running pods found to "
        f"reclaim resources: [(res: cpu, q: {missing}), ]",
        release,
    )
