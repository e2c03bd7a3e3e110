"""Compares two views: which pods ended, hold other CPUs, or were restarted between them."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.checks import each, pod_state_text
from conformance.promises import Violation
from conformance.promises.histories import GOES_ON
from reference import CPUSet
from reference.view import Phase, View


def _holding(view: View) -> dict[str, dict[str, CPUSet]]:
    return {
        pod: dict(held)
        for pod, held in view.assignments.items()
        if any(held.values()) and runs(view, pod)
    }


def runs(view: View, pod: str) -> bool:
    """Whether the pod runs by the kubelet's status."""
    return pod in view.pods and view.pods[pod].phase is Phase.RUNNING


def ended(before: View, after: View) -> dict[str, str]:
    """The pods that held CPUs and no longer run, each with the kubelet's reason (``""`` if the
    kubelet does not run)."""
    if not after.running or after.hangs:
        return dict.fromkeys(_holding(before), "")
    gone = (pod for pod in _holding(before) if not runs(after, pod))
    return {pod: pod_state_text(after.pods.get(pod)) for pod in gone}


def moved(before: View, after: View) -> tuple[str, ...]:
    """The pods that hold other CPUs than before."""
    now = _holding(after)
    return tuple(pod for pod, held in _holding(before).items() if now.get(pod, held) != held)


def started_again(before: View, after: View) -> Iterator[Violation]:
    """The violations of containers that were ended and started again."""
    for pod, container in restarted(before, after):
        what, seen = f"container {pod}/{container}", "was ended, and started again"
        yield Violation.of(GOES_ON, what, "goes on running", seen)


def restarted(before: View, after: View) -> tuple[tuple[str, str], ...]:
    """The containers in both views that have another id in the second."""
    return tuple(
        (pod, container)
        for pod, container, asked in each(before.asked)
        if (now := after.asked.get(pod, {}).get(container)) is not None and now.id != asked.id
    )
