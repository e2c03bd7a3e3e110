"""Which pods a kubelet preempts so that a critical one fits.

Source: ``pkg/kubelet/preemption/preemption.go``, 1.26 to 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, NamedTuple

from reference.errors import NotModelled
from reference.kubelet.admission import devices_of, in_every_order
from reference.pods.pod import Kind, Pod
from reference.pods.qos import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    pod_memory,
    pod_milli_cpus,
    qos_class,
)
from reference.releases import AnyRelease, minor_of

#: The first minor that counts what sidecars request, and what a pod requests as a whole.
_SIDECARS_COUNT_SINCE: Final = 34
#: ``status.reason`` and ``status.message`` of a pod that was preempted.
REASON: Final = "Preempting"
MESSAGE: Final = "Preempted in order to admit critical pod"


class NothingToPreemptError(Exception):
    """``getPodsToPreempt``: no pods have what is needed. ``texts``: those that the kubelet may have
    for it; what the error says is the first."""

    def __init__(self, needed: Mapping[str, int]) -> None:
        self.texts = []
        for order in in_every_order(needed):
            wanted = "".join(f"(res: {what}, q: {needed[what]}), " for what in order)
            self.texts.append(f"no set of running pods found to reclaim resources: [{wanted}]")
        super().__init__(self.texts[0])


def pods_to_preempt(
    pods: Sequence[Pod], needed: Mapping[str, int], release: AnyRelease
) -> list[Pod]:
    """``getPodsToPreempt``: of these pods, which may all be preempted, the fewest that request what
    is ``needed`` of each resource (cpu in thousandths). Guaranteed pods are chosen only where all
    others are too few, and Burstable ones only where all BestEffort ones are. Raises
    :class:`NothingToPreemptError`, and :class:`NotModelled` where the order of a Go map decides."""
    best_effort, burstable, guaranteed = (
        [_Candidate.of(pod, needed, release) for pod in pods if qos_class(pod) == one]
        for one in (BEST_EFFORT, BURSTABLE, GUARANTEED)
    )
    if missing := _subtract(needed, [*best_effort, *burstable, *guaranteed]):
        raise NothingToPreemptError(missing)
    of_guaranteed = _by_distance(guaranteed, _subtract(needed, [*best_effort, *burstable]))
    of_burstable = _by_distance(burstable, _subtract(needed, [*best_effort, *of_guaranteed]))
    others = _by_distance(best_effort, _subtract(needed, [*of_burstable, *of_guaranteed]))
    return [one.pod for one in (*others, *of_burstable, *of_guaranteed)]


class _Candidate(NamedTuple):
    """A pod, what it requests of what is needed, and of memory and cpu."""

    pod: Pod
    requests: Mapping[str, int]
    size: tuple[Fraction, Fraction]

    @classmethod
    def of(cls, pod: Pod, needed: Mapping[str, int], release: AnyRelease) -> _Candidate:
        """As ``GetResourceRequest`` counts it (``pkg/api/v1/resource/helpers.go``)."""
        sized = pod if minor_of(release) >= _SIDECARS_COUNT_SINCE else _without_sidecars(pod)
        cpus = pod_milli_cpus(sized)
        requests = {what: cpus if what == "cpu" else devices_of(sized, what) for what in needed}
        return cls(pod, requests, (pod_memory(sized), Fraction(cpus)))

    def distance(self, needed: Mapping[str, int]) -> float:
        """How far it is from what is needed: 0 where it requests all of it, at most 1 for each
        resource."""
        lacking = (
            (max(amount - self.requests[what], 0), amount) for what, amount in needed.items()
        )
        return sum((more / amount) ** 2 for more, amount in lacking)


def _without_sidecars(pod: Pod) -> Pod:
    """The pod with its sidecars as plain init containers, and without resources of its own."""
    plain = tuple(
        replace(one, kind=Kind.INIT) if one.kind is Kind.SIDECAR else one for one in pod.containers
    )
    return replace(pod, containers=plain, resources=None)


def _by_distance(pods: Sequence[_Candidate], needed: Mapping[str, int]) -> list[_Candidate]:
    """``getPodsToPreemptByDistance``: the pod that has most of what is needed, again and again; of
    several, the one that requests less memory, or else less cpu."""
    left, chosen, alike = list(pods), list[_Candidate](), list[_Candidate]()
    while needed:
        ranks = [(one.distance(needed), one.size) for one in left]
        best = min(ranks)
        if ranks.count(best) > 1:
            alike += [one for one, rank in zip(left, ranks, strict=True) if rank == best]
        chosen.append(left.pop(ranks.index(best)))
        needed = _subtract(needed, chosen[-1:])
    if spared := [one.pod.name for one in alike if one in left]:
        raise NotModelled(f"which of several equal pods is put out, {spared[0]} among them")
    return chosen


def _subtract(needed: Mapping[str, int], pods: Sequence[_Candidate]) -> dict[str, int]:
    """What is still needed once these pods are gone."""
    left = {what: all_ - sum(one.requests[what] for one in pods) for what, all_ in needed.items()}
    return {what: amount for what, amount in left.items() if amount > 0}
