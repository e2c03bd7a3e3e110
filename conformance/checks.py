"""Differences between an expected view and what was seen, and their texts.

Rules that need no expected view are in :mod:`conformance.promises`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Final, TypeVar

from conformance.results import Difference
from conformance.subject import Capability
from reference import CPUSet
from reference.view import CFS, CFS_PERIOD, PodView, View

KUBELET_REFUSES: Final = "The kubelet refuses to start"

_T = TypeVar("_T")
_Cpus = TypeVar("_Cpus", CPUSet, CPUSet | None)
#: Texts of Go's JSON decoder, which differ by the Go release that built the kubelet. Only what
#: precedes them is the kubelet's own (docs/facts 7.5).
_GO_JSON_TEXTS = ("json: ", "invalid character ", "unexpected end of JSON input")


def cpu_difference(what: str, expected: CPUSet | None, seen: CPUSet | None) -> Difference:
    """A difference between two CPU sets; ``None`` is a container without a cpuset."""
    have, want = seen or CPUSet(), expected or CPUSet()
    return Difference(
        what=what,
        expected=cpus_text(expected),
        seen=cpus_text(seen),
        missing=str(want - have),
        unexpected=str(have - want),
    )


def cpus_text(cpus: CPUSet | None) -> str:
    """A set of CPUs as differences name it; ``None`` is a container without a cpuset."""
    if cpus is None:
        return "(no cpuset)"
    return str(cpus) or "(none)"


def differences(expected: View, seen: View, can: Collection[Capability]) -> list[Difference]:
    """All differences between two views, in what the subject ``can`` show."""
    rows = list(_kubelet_differences(expected, seen, can))
    if Capability.REJECTIONS in can:
        rows += _pod_differences(expected.pods, seen.pods)
    if Capability.STATE_FILE in can:
        rows += _state_differences(expected, seen)
    if Capability.CPUSETS in can:
        want, have = by_owner(expected.cpusets), by_owner(seen.cpusets)
        rows += set_differences("cpuset of the running container", want, have)
    if Capability.CFS in can:
        rows += _cfs_differences(expected, seen)
        rows += _pod_cfs_differences(expected, seen)
    return rows


def _kubelet_differences(
    expected: View, seen: View, can: Collection[Capability]
) -> Iterator[Difference]:
    if expected.running != seen.running:
        yield Difference(what="kubelet", expected=kubelet_text(expected), seen=kubelet_text(seen))
    elif Capability.START_ERROR in can and _own_part(expected.error) != _own_part(seen.error):
        yield Difference(what="kubelet's error", expected=expected.error, seen=seen.error)
    elif Capability.START_ERROR in can and expected.exit_status != seen.exit_status:
        yield Difference(
            what="kubelet's exit status",
            expected=str(expected.exit_status),
            seen=str(seen.exit_status),
        )


#: A shell's exit status is above this for a program that a signal ended; 255 is klog's own.
_BY_SIGNAL: Final = 128


def kubelet_text(view: View) -> str:
    """The kubelet's state: the signal or exit status that it ended with, then the reason given."""
    if view.running:
        return "runs"
    if view.exit_status is not None and _BY_SIGNAL < view.exit_status < 255:
        return f"ended: {view.error}" if view.error else f"ended: signal {view.exit_status - 128}"
    if view.error and view.exit_status is not None:
        return f"gave up with exit status {view.exit_status}: {view.error}"
    return f"gave up: {view.error}" if view.error else "down"


def _own_part(error: str) -> str:
    starts = [error.find(text) for text in _GO_JSON_TEXTS if text in error]
    return error[: min(starts)] + "<Go's JSON text>" if starts else error


def _pod_differences(
    expected: Mapping[str, PodView], seen: Mapping[str, PodView]
) -> Iterator[Difference]:
    for name in sorted(expected.keys() | seen.keys()):
        want, have = expected.get(name), seen.get(name)
        if want is None or have is None or not want.allows(have):
            yield pod_difference(name, want, have)


def pod_difference(name: str, expected: PodView | None, seen: PodView | None) -> Difference:
    """The difference between what a kubelet ought to say of a pod and what it says."""
    return Difference(
        what=f"pod {name}", expected=pod_state_text(expected), seen=pod_state_text(seen)
    )


def pod_state_text(pod: PodView | None) -> str:
    """The pod's phase and QoS class, then why the kubelet rejected it."""
    if pod is None:
        return "(not there)"
    text = f"{pod.phase.value}, {pod.qos}" if pod.qos else pod.phase.value
    text += f", resize {pod.resize}" if pod.resize else ""
    return f"{text}: {pod.reason}: {pod.message}" if pod.reason or pod.message else text


def _state_differences(expected: View, seen: View) -> Iterator[Difference]:
    want, have = by_owner(expected.assignments), by_owner(seen.assignments)
    found = list(set_differences("exclusive CPUs", want, have))
    if expected.shared_pool != seen.shared_pool:
        found.append(cpu_difference("shared pool", expected.shared_pool, seen.shared_pool))
    if not found and not _same_file(expected.state_file, seen.state_file):
        texts = [_file_text(one.state_file) for one in (expected, seen)]
        found.append(Difference(what="state file", expected=texts[0], seen=texts[1]))
    yield from found


def _same_file(expected: str | None, seen: str | None) -> bool:
    """Whether both are the same text or the same JSON. The order of keys and white space do not
    matter."""
    if expected == seen:
        return True
    try:
        return json.loads(expected or "") == json.loads(seen or "")  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return False


def _file_text(text: str | None) -> str:
    return "(no file)" if text is None else text or "(empty file)"


def by_owner(sets: Mapping[str, Mapping[str, _T]]) -> dict[str, _T]:
    """The value of each container, by ``pod/container``."""
    return {f"{pod}/{container}": value for pod, container, value in each(sets)}


def set_differences(
    what: str, want: Mapping[str, _Cpus], have: Mapping[str, _Cpus]
) -> Iterator[Difference]:
    """Differences in the CPUs of each owner; ``what`` stands before the owner's name."""
    for owner in sorted(want.keys() | have.keys()):
        if owner in want and owner in have:
            if want[owner] != have[owner]:
                yield cpu_difference(f"{what} {owner}", want[owner], have[owner])
            continue
        texts = [cpus_text(one[owner]) if owner in one else "(no entry)" for one in (want, have)]
        yield Difference(what=f"{what} {owner}", expected=texts[0], seen=texts[1])


def each(sets: Mapping[str, Mapping[str, _T]]) -> Iterator[tuple[str, str, _T]]:
    """Pod, container and value of each."""
    for pod, containers in sets.items():
        for container, value in containers.items():
            yield pod, container, value


def _cfs_differences(expected: View, seen: View) -> Iterator[Difference]:
    """Compares what the runtime was asked for: a runtime rounds the figures that the kernel has."""
    for pod, container, want in each(expected.cfs):
        have = seen.cfs.get(pod, {}).get(container)
        if have is not None and have.shares is not None and have != want:
            what = f"CFS quota and shares of {pod}/{container}"
            texts = [f"{_quota_text(one)}, {one.shares} shares" for one in (want, have)]
            yield Difference(what=what, expected=texts[0], seen=texts[1])


def _pod_cfs_differences(expected: View, seen: View) -> Iterator[Difference]:
    """Compares cgroups of pods where their weights are seen: systemd rounds quotas."""
    for pod, want in expected.pod_cfs.items():
        have = seen.pod_cfs.get(pod)
        if have is None or have.weight is None:
            continue
        texts = [f"{_quota_text(one)}, weight {one.weight}" for one in (want, have)]
        if texts[0] != texts[1]:
            yield Difference(what=f"cgroup of pod {pod}", expected=texts[0], seen=texts[1])


def _quota_text(cfs: CFS) -> str:
    """As ``quota 150000 us``, with the period if it is not the usual one."""
    if cfs.quota is None:
        return "no quota"
    quota = f"quota {cfs.quota} us"
    return quota if cfs.period == CFS_PERIOD else f"{quota} in each {cfs.period} us"


def pod_resources_difference(
    pod: str, container: str, expected: CPUSet, seen: CPUSet | None
) -> Difference:
    """The difference between the CPUs that a kubelet ought to report for a container and those that
    it reports. ``None`` is a container that it does not report."""
    what = f"CPUs that the kubelet reports for {pod}/{container}"
    if seen is None:
        return Difference(what=what, expected=cpus_text(expected), seen="(no entry)")
    return cpu_difference(what, expected, seen)
