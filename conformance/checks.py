"""Pure judgements of a view: against an expected one, and against what holds always."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final, TypeVar

from conformance.results import Difference
from conformance.subject import Capability
from reference import NEWEST, CPUSet, CPUTopology
from reference.behaviours import Behaviour
from reference.cpumanager.cpu_manager import reserved_milli_cpus
from reference.cpumanager.policy_options import is_true
from reference.cpumanager.state.state_checkpoint import parse_pods_leniently
from reference.pods.pod_level_resources import as_decoded, has_pod_level_resources
from reference.pods.qos import as_judged, exclusive_cpus, qos_class
from reference.releases import AnyRelease, has
from reference.steps import Kind, KubeletConfig, Pod
from reference.view import CFS, CFS_PERIOD, Phase, PodView, View

EVERY_CPU: Final = "Every CPU is either exclusive or in the shared pool"
EXCLUSIVE_TO_ONE: Final = "Exclusive CPUs belong to one container alone"
POD_RESOURCES_AS_STATE_FILE: Final = "The kubelet reports the exclusive CPUs of its state file"
RESERVED_STAY: Final = "Reserved CPUs stay in the shared pool"

_NO_CPUS: Final = CPUSet()
_T = TypeVar("_T")
_Cpus = TypeVar("_Cpus", CPUSet, CPUSet | None)
#: The kubelet takes JSON texts from the Go release it was built with; only what precedes them is
#: its own (docs/facts 7.5).
_GO_JSON_TEXTS = ("json: ", "invalid character ", "unexpected end of JSON input")


def cpu_difference(what: str, expected: CPUSet | None, seen: CPUSet | None) -> Difference:
    """A difference between two CPU sets; ``None`` is a container without a cpuset."""
    have, want = seen or CPUSet(), expected or CPUSet()
    return Difference(
        what=what,
        expected=_cpus_text(expected),
        seen=_cpus_text(seen),
        missing=str(want - have),
        unexpected=str(have - want),
    )


def _cpus_text(cpus: CPUSet | None) -> str:
    if cpus is None:
        return "(no cpuset)"
    return str(cpus) or "(none)"


def differences(expected: View, seen: View, can: Collection[Capability]) -> list[Difference]:
    """Everything in which ``seen`` is not as ``expected``, of what the subject ``can`` show."""
    found = list(_kubelet_differences(expected, seen, can))
    if Capability.REJECTIONS in can:
        found += _pod_differences(expected.pods, seen.pods)
    if Capability.STATE_FILE in can:
        found += _state_differences(expected, seen)
    if Capability.CPUSETS in can:
        found += _set_differences("cpuset of the running container", expected.cpusets, seen.cpusets)
    if Capability.CFS in can:
        found += _cfs_differences(expected, seen)
    return found


def _kubelet_differences(
    expected: View, seen: View, can: Collection[Capability]
) -> Iterator[Difference]:
    if expected.running != seen.running:
        yield Difference(what="kubelet", expected=kubelet_text(expected), seen=kubelet_text(seen))
    elif Capability.START_ERROR in can and not _same_error(expected.error, seen.error):
        yield Difference(what="kubelet's error", expected=expected.error, seen=seen.error)
    elif Capability.START_ERROR in can and expected.exit_status != seen.exit_status:
        yield Difference(
            what="kubelet's exit status",
            expected=str(expected.exit_status),
            seen=str(seen.exit_status),
        )


#: A shell's status of a program that died of a signal is more than this; 255 is klog's own.
_BY_SIGNAL: Final = 128


def kubelet_text(view: View) -> str:
    """What has become of the kubelet: a signal or its exit status first, then the reason given."""
    if view.running:
        return "runs"
    if view.exit_status is not None and _BY_SIGNAL < view.exit_status < 255:
        return f"ended: {view.error}" if view.error else f"ended: signal {view.exit_status - 128}"
    if view.error and view.exit_status is not None:
        return f"gave up with exit status {view.exit_status}: {view.error}"
    return f"gave up: {view.error}" if view.error else "down"


def _same_error(expected: str, seen: str) -> bool:
    return _own_part(expected) == _own_part(seen)


def _own_part(error: str) -> str:
    starts = [error.find(text) for text in _GO_JSON_TEXTS if text in error]
    return error[: min(starts)] + "<Go's JSON text>" if starts else error


def _pod_differences(
    expected: Mapping[str, PodView], seen: Mapping[str, PodView]
) -> Iterator[Difference]:
    for name in sorted(expected.keys() | seen.keys()):
        want, have = expected.get(name), seen.get(name)
        if want != have:
            yield pod_difference(name, want, have)


def pod_difference(name: str, expected: PodView | None, seen: PodView | None) -> Difference:
    """Between what a kubelet ought to say of a pod and what it says."""
    return Difference(what=f"pod {name}", expected=_pod_text(expected), seen=_pod_text(seen))


def _pod_text(pod: PodView | None) -> str:
    if pod is None:
        return "(not there)"
    text = f"{pod.phase.value}, {pod.qos}" if pod.qos else pod.phase.value
    text += f", resize {pod.resize}" if pod.resize else ""
    return f"{text}: {pod.reason}: {pod.message}" if pod.reason or pod.message else text


def _state_differences(expected: View, seen: View) -> Iterator[Difference]:
    found = list(_set_differences("exclusive CPUs", expected.assignments, seen.assignments))
    if expected.shared_pool != seen.shared_pool:
        found.append(cpu_difference("shared pool", expected.shared_pool, seen.shared_pool))
    if not found and not _same_file(expected.state_file, seen.state_file):
        found.append(
            Difference(
                what="state file",
                expected=_file_text(expected.state_file),
                seen=_file_text(seen.state_file),
            )
        )
    yield from found


def _same_file(expected: str | None, seen: str | None) -> bool:
    """Whether both are one text, or JSON of the same content: its keys have no order, and blanks
    between them mean nothing."""
    if expected == seen:
        return True
    try:
        return json.loads(expected or "") == json.loads(seen or "")  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return False


def _file_text(text: str | None) -> str:
    return "(no file)" if text is None else text or "(empty file)"


def _set_differences(
    what: str,
    expected: Mapping[str, Mapping[str, _Cpus]],
    seen: Mapping[str, Mapping[str, _Cpus]],
) -> Iterator[Difference]:
    want = {f"{pod}/{container}": cpus for pod, container, cpus in _each(expected)}
    have = {f"{pod}/{container}": cpus for pod, container, cpus in _each(seen)}
    for owner in sorted(want.keys() | have.keys()):
        if owner in want and owner in have:
            if want[owner] != have[owner]:
                yield cpu_difference(f"{what} {owner}", want[owner], have[owner])
            continue
        texts = [_cpus_text(one[owner]) if owner in one else "(no entry)" for one in (want, have)]
        yield Difference(what=f"{what} {owner}", expected=texts[0], seen=texts[1])


def _each(sets: Mapping[str, Mapping[str, _T]]) -> Iterator[tuple[str, str, _T]]:
    """Pod, container and what is said of it."""
    for pod, containers in sets.items():
        for container, value in containers.items():
            yield pod, container, value


def _cfs_differences(expected: View, seen: View) -> Iterator[Difference]:
    """Of what the runtime was asked for; a kernel's own figures are rounded by its runtime."""
    for pod, containers in expected.cfs.items():
        for container, want in containers.items():
            have = seen.cfs.get(pod, {}).get(container)
            if have is None or have.shares is None or have == want:
                continue
            yield Difference(
                what=f"CFS quota and shares of {pod}/{container}",
                expected=_cfs_text(want),
                seen=_cfs_text(have),
            )


def _cfs_text(cfs: CFS) -> str:
    quota = "no quota" if cfs.quota is None else f"quota {cfs.quota} us"
    if cfs.period != CFS_PERIOD:
        quota = f"{quota} in each {cfs.period} us"
    return f"{quota}, {cfs.shares} shares"


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that a view breaks: the rule in words, and where."""

    rule: str
    difference: Difference


@dataclass(frozen=True, slots=True)
class Situation:
    """What an invariant is judged against: what was configured and applied, on which CPUs.
    ``reserved`` is ``None`` where the kubelet chose the reserved CPUs; ``tampered`` are the
    pod/container whose cpuset the scenario itself has changed; ``online`` are the CPUs that the
    machine has by now, which a kubelet that runs may not know (``None``: ``cpus``); ``lost`` are
    CPUs that the scenario has said nobody will hold, not even the pool; ``topology`` is what the
    kubelet found when it started (``None``: one whose cores have equal numbers of CPUs)."""

    config: KubeletConfig
    pods: Mapping[str, Pod]
    cpus: CPUSet
    reserved: CPUSet | None
    can: Collection[Capability]
    tampered: Collection[tuple[str, str]] = ()
    lost: CPUSet = _NO_CPUS
    release: AnyRelease = NEWEST
    online: CPUSet | None = None
    topology: CPUTopology | None = None

    @property
    def gives_busy_cpus(self) -> bool:
        """Whether the release may hand out CPUs that are not free: it judges whether a core is free
        by the average size of cores (kubernetes/kubernetes#140498)."""
        takes_by_average = has(self.release, Behaviour.ORDERED_ALLOCATION)
        if not takes_by_average or has(self.release, Behaviour.TRUE_SIZES) or not self.topology:
            return False
        return len({core.bit_count() for core in self.topology.core_masks.values()}) > 1

    @property
    def strict(self) -> bool:
        """Whether reserved CPUs are kept from shared containers too (strict-cpu-reservation)."""
        return is_true(self.config.policy_options.get("strict-cpu-reservation", ""))


def violations(view: View, situation: Situation) -> list[Violation]:
    """Every invariant that ``view`` breaks, of a running kubelet with policy static.

    They hold whatever the release and its algorithm: exclusive CPUs belong to one container alone,
    in the state file and in every container's cpuset, and not to the shared pool, no CPU is lost,
    reserved CPUs stay in the pool, the pool is not empty, only whole CPUs of Guaranteed pods are
    exclusive, a running container's cpuset is what the state file says, and so are the exclusive
    CPUs that the kubelet reports to others. Under a strict reservation the reserved CPUs are
    neither exclusive nor in the pool, and nothing keeps the pool from becoming empty. Of 1.8 none
    can be judged: it has no state file.
    """
    if not view.running or situation.config.policy != "static":
        return []
    if not has(situation.release, Behaviour.STATE_FILE):
        return []
    found = [*_disjoint(view, situation), *_pool(view, situation), *_qos(view, situation)]
    if Capability.CPUSETS in situation.can:
        found += [*_applied(view, situation), *_kept_off(view, situation)]
    if Capability.KERNEL in situation.can:
        found += _enforced(view, situation)
    if view.pod_resources is not None:
        found += _pod_resources_violations(view, situation, view.pod_resources)
    return found


def _disjoint(view: View, situation: Situation) -> Iterator[Violation]:
    rule = EXCLUSIVE_TO_ONE
    pairs = combinations(_each(view.assignments), 2)
    for (other_pod, other, taken), (pod, container, cpus) in pairs:
        if pod == other_pod and _share(situation.pods.get(pod), container, other):
            continue
        if not cpus.isdisjoint(taken):
            what = f"exclusive CPUs {pod}/{container} and {other_pod}/{other}"
            yield Violation(rule, cpu_difference(what, CPUSet(), cpus & taken))


def _share(pod: Pod | None, one: str, other: str) -> bool:
    """Whether one of the two is an init container, whose CPUs its pod's other containers reuse, or
    the pod has CPUs as a whole, which its containers may share."""
    if pod is None:
        return False
    if has_pod_level_resources(pod):
        return True
    kinds = {container.name: container.kind for container in pod.containers}
    return Kind.INIT in (kinds.get(one), kinds.get(other))


def _pool(view: View, situation: Situation) -> Iterator[Violation]:
    of_pods = parse_pods_leniently(view.state_file, release=situation.release).values()
    taken = CPUSet()
    for cpus in (*of_pods, *(held for _, _, held in _each(view.assignments))):
        taken |= cpus
    pool = view.shared_pool
    if pool & taken:
        yield Violation(
            "No exclusive CPU is in the shared pool",
            cpu_difference("shared pool and exclusive CPUs", CPUSet(), pool & taken),
        )
    if situation.strict:
        yield from _strict_pool(pool | taken, situation)
        return
    if pool | taken != situation.cpus - situation.lost:
        yield Violation(
            EVERY_CPU,
            cpu_difference(
                "exclusive CPUs and shared pool", situation.cpus - situation.lost, pool | taken
            ),
        )
    if situation.reserved is not None and not situation.reserved <= pool:
        yield Violation(
            RESERVED_STAY,
            cpu_difference("reserved CPUs in the pool", situation.reserved, pool),
        )
    if not pool:
        yield Violation(
            "The shared pool is never empty",
            Difference(what="shared pool", expected="at least one CPU", seen="(none)"),
        )


def _strict_pool(used: CPUSet, situation: Situation) -> Iterator[Violation]:
    """Where the kubelet chose the reserved CPUs, only how many are left out can be judged."""
    rule = "Every CPU but the strictly reserved ones is either exclusive or in the shared pool"
    what = "exclusive CPUs and shared pool"
    if situation.reserved is not None:
        managed = situation.cpus - situation.reserved
        if used != managed:
            yield Violation(rule, cpu_difference(what, managed, used))
        return
    reserved = reserved_milli_cpus(situation.config, release=situation.release)
    left = len(situation.cpus) - -(-reserved // 1000)
    if len(used) != left or not used <= situation.cpus:
        seen = f"{len(used)} CPUs: {_cpus_text(used)}"
        expected = f"{left} CPUs of {situation.cpus}"
        yield Violation(rule, Difference(what=what, expected=expected, seen=seen))


def _qos(view: View, situation: Situation) -> Iterator[Violation]:
    rule = "Only whole CPUs of a Guaranteed pod's containers are exclusive, as many as requested"
    for pod_name, containers in view.assignments.items():
        applied = situation.pods.get(pod_name)
        if applied is None:
            continue
        pod = as_decoded(applied, situation.config.feature_gates, release=situation.release)
        if has_pod_level_resources(pod):
            continue  # how many these get is for the scenario and the model to say
        judged = as_judged(pod, release=situation.release)
        owed = {one.name: exclusive_cpus(judged, one) for one in pod.containers}
        for container, cpus in containers.items():
            if len(cpus) != owed.get(container, 0):
                yield Violation(
                    rule,
                    Difference(
                        what=f"exclusive CPUs {pod_name}/{container} ({qos_class(judged)})",
                        expected=f"{owed.get(container, 0)} CPUs",
                        seen=f"{len(cpus)} CPUs: {_cpus_text(cpus)}",
                    ),
                )


def _applied(view: View, situation: Situation) -> Iterator[Violation]:
    rule = "A running container's cpuset is what the state file says"
    for pod, container, cpus in _judged_cpusets(view, situation):
        own = view.assignments.get(pod, {}).get(container, view.shared_pool)
        if situation.strict and not own:
            continue  # an empty pool is applied to no container; see _kept_off for what follows
        if cpus != own:
            yield Violation(rule, cpu_difference(f"cpuset {pod}/{container}", own, cpus))


def _judged_cpusets(view: View, situation: Situation) -> Iterator[tuple[str, str, CPUSet | None]]:
    """Of running containers that the scenario has applied, and whose cpuset it has not changed."""
    for pod, container, cpus in _each(view.cpusets):
        tampered = (pod, container) in situation.tampered
        if pod in situation.pods and not tampered and not _may_run_on(view, pod, situation):
            yield pod, container, cpus


def _may_run_on(view: View, pod: str, situation: Situation) -> bool:
    """Whether the pod is refused, and its release may forget to end its containers."""
    known = view.pods.get(pod)
    refused = known is not None and known.phase is Phase.REJECTED
    return refused and has(situation.release, Behaviour.REFUSED_MAY_RUN_ON)


def _kept_off(view: View, situation: Situation) -> Iterator[Violation]:
    """No container's cpuset meets the exclusive CPUs of another, whatever the options; a container
    without a cpuset runs on every CPU."""
    for pod, container, cpus in _judged_cpusets(view, situation):
        for other_pod, other, held in _each(view.assignments):
            same = pod == other_pod
            if same and (container == other or _share(situation.pods[pod], container, other)):
                continue
            met = held if cpus is None else held & cpus
            if met:
                what = f"cpuset {pod}/{container} and exclusive CPUs {other_pod}/{other}"
                yield Violation(EXCLUSIVE_TO_ONE, cpu_difference(what, CPUSet(), met))


def _enforced(view: View, situation: Situation) -> Iterator[Violation]:
    """Whatever the files say: where the kernel lets tasks run, and where they ran. A container of
    whose CPUs none is online runs on its parent's, by the kernel's own rule."""
    rule = "A container's tasks run on its cpuset and nowhere else"
    online = situation.cpus if situation.online is None else situation.online
    for pod, container, kernel in _each(view.enforced):
        if pod not in situation.pods:
            continue
        own = view.cpusets.get(pod, {}).get(container)
        wanted = online if own is None else own & online
        if not wanted:
            if kernel.cpus - online or not kernel.cpus:
                what = f"effective cpuset {pod}/{container}"
                yield Violation(rule, cpu_difference(what, kernel.cpus & online, kernel.cpus))
            continue
        for what, seen in (("effective cpuset", kernel.cpus), ("affinity", kernel.allowed)):
            if seen != wanted:
                yield Violation(rule, cpu_difference(f"{what} {pod}/{container}", wanted, seen))
        if not kernel.ran_on <= wanted:
            what = f"CPUs that {pod}/{container} ran on"
            yield Violation(rule, cpu_difference(what, wanted, kernel.ran_on))


def _pod_resources_violations(
    view: View, situation: Situation, reported: Mapping[str, Mapping[str, CPUSet]]
) -> Iterator[Violation]:
    """What the kubelet reports at its pod-resources socket, of exclusive CPUs alone: what it
    reports of containers that share depends on the release; init containers it leaves out."""
    for pod, containers in view.assignments.items():
        applied = situation.pods.get(pod)
        if applied is None or has_pod_level_resources(applied):
            continue
        for one in applied.containers:
            held = containers.get(one.name)
            if one.kind is Kind.APP and held is not None:
                seen = reported.get(pod, {}).get(one.name)
                if seen != held:
                    yield Violation(
                        POD_RESOURCES_AS_STATE_FILE,
                        pod_resources_difference(pod, one.name, held, seen),
                    )
    for pod in reported.keys() - view.pods.keys():
        what = f"CPUs that the kubelet reports for pod {pod}, which is gone"
        entry = "; ".join(
            f"{one}: {_cpus_text(cpus)}" for one, cpus in sorted(reported[pod].items())
        )
        difference = Difference(what=what, expected="(no entry)", seen=f"an entry ({entry})")
        yield Violation("The kubelet reports no pod that is gone", difference)


def pod_resources_difference(
    pod: str, container: str, expected: CPUSet, seen: CPUSet | None
) -> Difference:
    """Between the CPUs that a kubelet ought to report for a container and those that it reports;
    ``None`` is a container that it does not report."""
    what = f"CPUs that the kubelet reports for {pod}/{container}"
    if seen is None:
        return Difference(what=what, expected=_cpus_text(expected), seen="(no entry)")
    return cpu_difference(what, expected, seen)
