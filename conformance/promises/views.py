"""The promises that one view can break.

What belongs here: rules about a single settled view. What never does: what changed in a step
(``histories``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final

from conformance.checks import cpus_text, each, pod_resources_difference
from conformance.promises.situation import Situation, Violation
from conformance.subject import Capability
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.cpumanager.cpu_manager import reserved_milli_cpus
from reference.pods.labels import runs_on_reserved
from reference.pods.pod_level_resources import as_decoded, has_pod_level_resources
from reference.pods.qos import as_judged, exclusive_cpus, qos_class
from reference.releases import has
from reference.steps import Kind, Pod
from reference.view import Phase, View

EVERY_CPU: Final = "Every CPU is either exclusive or in the shared pool"
EVERY_CPU_UNDER_STRICT: Final = (
    "Every CPU but the strictly reserved ones is either exclusive or in the shared pool"
)
EXCLUSIVE_TO_ONE: Final = "Exclusive CPUs belong to one container alone"
POD_RESOURCES_AS_STATE_FILE: Final = "The kubelet reports the exclusive CPUs of its state file"
NO_DELETED_POD_REPORTED: Final = "The kubelet reports no pod that is gone"
RESERVED_STAY: Final = "Reserved CPUs stay in the shared pool"
POOL_APART: Final = "No exclusive CPU is in the shared pool"
POOL_NOT_EMPTY: Final = "The shared pool is never empty"
AS_REQUESTED: Final = (
    "Only whole CPUs of a Guaranteed pod's containers are exclusive, as many as requested"
)
AS_BOOKED: Final = "A running container's cpuset is what the state file says"
KERNEL_FOLLOWS: Final = "A container's tasks run on its cpuset and nowhere else"


def violations(view: View, situation: Situation) -> list[Violation]:
    """Every invariant that ``view`` breaks, for a running kubelet with policy static.

    They hold for every release. Exclusive CPUs belong to one container alone, in the state file and
    in every container's cpuset, and not to the shared pool. No CPU is lost. Reserved CPUs stay in
    the pool. The pool is not empty. Only whole CPUs of Guaranteed pods are exclusive. A running
    container's cpuset is what the state file says. The kubelet reports the exclusive CPUs of the
    state file. Under strict-cpu-reservation the reserved CPUs are neither exclusive nor in the
    pool, and the pool may become empty. For 1.8 no invariant can be judged: it has no state file.
    """
    if not view.running or situation.config.policy != "static":
        return []
    if not has(situation.release, Behaviour.STATE_FILE):
        return []
    broken = [*_disjoint(view, situation), *_pool(view, situation), *_qos(view, situation)]
    if Capability.CPUSETS in situation.can:
        broken += [*_applied(view, situation), *_kept_off(view, situation)]
    if Capability.KERNEL in situation.can:
        broken += _enforced(view, situation)
    if view.pod_resources is not None:
        broken += _pod_resources_violations(view, situation, view.pod_resources)
    return broken


def _disjoint(view: View, situation: Situation) -> Iterator[Violation]:
    pairs = combinations(each(view.assignments), 2)
    for (other_pod, other, taken), (pod, container, cpus) in pairs:
        if pod == other_pod and shares(situation.pods.get(pod), container, other):
            continue
        if pod == other_pod and pod not in situation.pods:
            continue  # the pod is gone, and it is unknown which of the two was its init container
        if not cpus.isdisjoint(taken):
            what = f"exclusive CPUs {pod}/{container} and {other_pod}/{other}"
            yield Violation.of(EXCLUSIVE_TO_ONE, what, CPUSet(), cpus & taken)


def shares(pod: Pod | None, one: str, other: str) -> bool:
    """Whether two containers may share CPUs. Other containers reuse the CPUs of an init container.
    Containers of a pod that has CPUs as a whole may share them."""
    if pod is None:
        return False
    if has_pod_level_resources(pod):
        return True
    kinds = {container.name: container.kind for container in pod.containers}
    return Kind.INIT in (kinds.get(one), kinds.get(other))


def _pool(view: View, situation: Situation) -> Iterator[Violation]:
    pool, taken = view.shared_pool, situation.exclusive(view)
    if pool & taken:
        what = "shared pool and exclusive CPUs"
        yield Violation.of(POOL_APART, what, CPUSet(), pool & taken)
    if situation.strict:
        yield from _strict_pool(pool | taken, situation)
        return
    owed = situation.cpus - situation.lost
    if pool | taken != owed:
        yield Violation.of(EVERY_CPU, "exclusive CPUs and shared pool", owed, pool | taken)
    if situation.reserved is not None and not situation.reserved <= pool:
        yield Violation.of(RESERVED_STAY, "reserved CPUs in the pool", situation.reserved, pool)
    if not pool:
        yield Violation.of(POOL_NOT_EMPTY, "shared pool", "at least one CPU", "(none)")


def _strict_pool(used: CPUSet, situation: Situation) -> Iterator[Violation]:
    """If the kubelet chose the reserved CPUs, only their number can be judged."""
    rule, what = EVERY_CPU_UNDER_STRICT, "exclusive CPUs and shared pool"
    if situation.reserved is not None:
        managed = situation.cpus - situation.reserved
        if used != managed:
            yield Violation.of(rule, what, managed, used)
        return
    reserved = reserved_milli_cpus(situation.config, release=situation.release)
    left = len(situation.cpus) - -(-reserved // 1000)
    if len(used) != left or not used <= situation.cpus:
        seen = f"{len(used)} CPUs: {cpus_text(used)}"
        yield Violation.of(rule, what, f"{left} CPUs of {situation.cpus}", seen)


def _qos(view: View, situation: Situation) -> Iterator[Violation]:
    for pod_name, containers in view.assignments.items():
        applied = situation.pods.get(pod_name)
        if applied is None:
            continue
        pod = as_decoded(applied, situation.config.feature_gates, release=situation.release)
        if has_pod_level_resources(pod):
            continue  # the scenario and the model judge how many these get
        judged = as_judged(pod, release=situation.release)
        owed = {one.name: exclusive_cpus(judged, one) for one in pod.containers}
        for container, cpus in containers.items():
            if len(cpus) != owed.get(container, 0):
                what = f"exclusive CPUs {pod_name}/{container} ({qos_class(judged)})"
                seen = f"{len(cpus)} CPUs: {cpus_text(cpus)}"
                yield Violation.of(AS_REQUESTED, what, f"{owed.get(container, 0)} CPUs", seen)


def _applied(view: View, situation: Situation) -> Iterator[Violation]:
    for pod, container, cpus in _judged_cpusets(view, situation):
        own = view.assignments.get(pod, {}).get(container, view.shared_pool)
        if runs_on_reserved(situation.pods[pod], release=situation.release):
            if situation.reserved is None:
                continue  # the kubelet has chosen them
            own = situation.reserved
        if situation.strict and not own:
            continue  # the kubelet applies an empty pool to no container; see _kept_off
        if cpus != own:
            yield Violation.of(AS_BOOKED, f"cpuset {pod}/{container}", own, cpus)


def _judged_cpusets(view: View, situation: Situation) -> Iterator[tuple[str, str, CPUSet | None]]:
    """The cpusets of the scenario's running containers, but those that it has changed itself."""
    for pod, container, cpus in each(view.cpusets):
        tampered = (pod, container) in situation.tampered
        if pod in situation.pods and not tampered and not _may_run_on(view, pod, situation):
            yield pod, container, cpus


def _may_run_on(view: View, pod: str, situation: Situation) -> bool:
    """Whether the pod was rejected, and the release may fail to end its containers."""
    known = view.pods.get(pod)
    refused = known is not None and known.phase is Phase.REJECTED
    return refused and has(situation.release, Behaviour.REFUSED_MAY_RUN_ON)


def _kept_off(view: View, situation: Situation) -> Iterator[Violation]:
    """No container's cpuset has exclusive CPUs of another, whatever the options; a container
    without a cpuset runs on every CPU."""
    for pod, container, cpus in _judged_cpusets(view, situation):
        for other_pod, other, held in each(view.assignments):
            same = pod == other_pod
            if same and (container == other or shares(situation.pods[pod], container, other)):
                continue
            met = held if cpus is None else held & cpus
            if met:
                what = f"cpuset {pod}/{container} and exclusive CPUs {other_pod}/{other}"
                yield Violation.of(EXCLUSIVE_TO_ONE, what, CPUSet(), met)


def _enforced(view: View, situation: Situation) -> Iterator[Violation]:
    """Judges where the kernel lets tasks run, and where they ran, whatever the cgroup's files say.
    If none of a container's CPUs is online, the kernel lets it run on its parent's CPUs."""
    rule = KERNEL_FOLLOWS
    online = situation.cpus if situation.online is None else situation.online
    for pod, container, kernel in each(view.enforced):
        if pod not in situation.pods:
            continue
        own = view.cpusets.get(pod, {}).get(container)
        wanted = online if own is None else own & online
        if not wanted:
            if kernel.cpus - online or not kernel.cpus:
                what = f"effective cpuset {pod}/{container}"
                yield Violation.of(rule, what, kernel.cpus & online, kernel.cpus)
            continue
        for what, seen in (("effective cpuset", kernel.cpus), ("affinity", kernel.allowed)):
            if seen != wanted:
                yield Violation.of(rule, f"{what} {pod}/{container}", wanted, seen)
        if not kernel.ran_on <= wanted:
            what = f"CPUs that {pod}/{container} ran on"
            yield Violation.of(rule, what, wanted, kernel.ran_on)


def _pod_resources_violations(
    view: View, situation: Situation, reported: Mapping[str, Mapping[str, CPUSet]]
) -> Iterator[Violation]:
    """Judges the exclusive CPUs that the kubelet reports at its pod-resources socket. For
    containers in the shared pool that depends on the release. It reports no init container."""
    for pod, containers in view.assignments.items():
        applied = situation.pods.get(pod)
        if applied is None or has_pod_level_resources(applied):
            continue
        for one in applied.containers:
            held = containers.get(one.name)
            if one.kind is Kind.APP and held is not None:
                seen = reported.get(pod, {}).get(one.name)
                if seen != held:
                    difference = pod_resources_difference(pod, one.name, held, seen)
                    yield Violation(POD_RESOURCES_AS_STATE_FILE, difference)
    for pod in reported.keys() - view.pods.keys():
        what = f"CPUs that the kubelet reports for pod {pod}, which is gone"
        entry = "; ".join(
            f"{one}: {cpus_text(cpus)}" for one, cpus in sorted(reported[pod].items())
        )
        yield Violation.of(NO_DELETED_POD_REPORTED, what, "(no entry)", f"an entry ({entry})")
