"""Differences in a kubelet's answers, and in what it asked of its container runtime.

What belongs here: what a view has only if the kubelet was asked, and what the next reconcile round
hides. What never does: what every view has (:mod:`conformance.checks`), and rules of answers that
need no expected view (:mod:`conformance.promises.answers`).

Four answers are not compared. How many calls the pod-resources socket has counted, and how many
simultaneous calls it has refused, depends on how often a view is taken. How often a container was
updated depends on how many reconcile rounds there were. The counter of accepted resizes that had to
wait has labels that the model does not know.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from conformance.checks import by_owner, cpu_difference, each, set_differences
from conformance.results import Difference
from conformance.subject import Capability
from reference import CPUSet
from reference.cpumanager.metrics import AT_LEAST
from reference.kubelet.in_cluster import DEFERRED_ACCEPTED
from reference.kubelet.pod_resources import COUNTERS
from reference.memorymanager.state import MEMORY
from reference.view import HeldDevice, HeldMemory, View

_REPORTED: Final = "CPUs that the kubelet reports"
_MEMORY: Final = "memory that the kubelet reports"
_NAMED_POD: Final = re.compile(r"pod \S+ in namespace \S+")
_AT_SOCKET: Final = "the kubelet's answer at its pod-resources socket"


def answer_differences(
    expected: View, seen: View, can: Collection[Capability]
) -> Iterator[Difference]:
    """The differences between the answers of two views, in what the subject ``can`` show. An answer
    that one of the views lacks is not compared."""
    if Capability.CALLS in can:
        yield from _start_differences(expected, seen)
    if not (expected.running and seen.running):
        return
    if Capability.POD_RESOURCES in can:
        yield from _socket_differences(expected, seen, devices=Capability.DEVICES in can)
        if Capability.MEMORY in can and not seen.pod_resources_error:
            yield from _memory_differences(expected, seen)
    for resource, want in expected.offered.items():
        have = seen.offered.get(resource)
        if have is not None and have != want:
            what = f"devices of {resource} in the node's status"
            yield Difference(what=what, expected=str(want), seen=str(have))
    if Capability.METRICS in can and expected.metrics is not None and seen.metrics is not None:
        yield from metric_differences(expected.metrics, seen.metrics)


def _start_differences(expected: View, seen: View) -> Iterator[Difference]:
    """Differences in the cpusets that running containers were started with, and in the NUMA nodes
    that their memory is bound to."""
    have = {(pod, name): found for pod, name, found in each(seen.asked)}
    for pod, name, want in each(expected.asked):
        found = have.get((pod, name))
        if found is not None and want.mems != found.mems:
            what = f"NUMA nodes of the memory (cpuset.mems) asked for {pod}/{name}"
            yield cpu_difference(what, want.mems, found.mems)
        if found is None or want.started_on == found.started_on:
            continue
        # On a shared pool that is empty for a moment a container starts without a cpuset.
        is_static = bool(expected.assignments or expected.shared_pool)
        has_pool = want.started_on is not None or is_static
        if want.raced and has_pool and found.started_on is not None:
            continue
        what = f"cpuset with which {pod}/{name} was started"
        yield cpu_difference(what, want.started_on, found.started_on)


def _socket_differences(expected: View, seen: View, *, devices: bool) -> Iterator[Difference]:
    answers = (expected.pod_resources, expected.got_pod, expected.allocatable)
    if not expected.pod_resources_error and all(one is None for one in answers):
        return  # a recording has no answers
    if _without_pod(expected.pod_resources_error) != _without_pod(seen.pod_resources_error):
        texts = [one.pod_resources_error or "answers" for one in (expected, seen)]
        yield Difference(what=_AT_SOCKET, expected=texts[0], seen=texts[1])
        return
    if expected.pod_resources is not None and seen.pod_resources is not None:
        want, have = by_owner(expected.pod_resources), by_owner(seen.pod_resources)
        yield from set_differences(f"{_REPORTED} for", want, have)
    if expected.got_pod is not None and seen.got_pod is not None:
        want, have = _of_pod(expected.got_pod), _of_pod(seen.got_pod)
        yield from set_differences(f"{_REPORTED} for", want, have)
    if expected.allocatable is not None and seen.allocatable is not None:
        if expected.allocatable != seen.allocatable:
            what = f"{_REPORTED} as allocatable"
            yield cpu_difference(what, expected.allocatable, seen.allocatable)
        if devices and expected.allocatable_devices != seen.allocatable_devices:
            what = "devices that the kubelet reports as allocatable"
            yield _of_devices(what, expected.allocatable_devices, seen.allocatable_devices)
    if devices and seen.pod_resources is not None and expected.pod_resources is not None:
        yield from _device_differences(expected, seen)


def _of_pod(containers: Mapping[str, CPUSet]) -> dict[str, CPUSet]:
    """The CPUs of the one pod that was asked for; a view does not name it."""
    return {f"container {name} of the pod": cpus for name, cpus in containers.items()}


def _without_pod(error: str) -> str:
    """An error without the name of the pod, which the kubelet knows by another one."""
    return _NAMED_POD.sub("pod …", error)


def _device_differences(expected: View, seen: View) -> Iterator[Difference]:
    want = {(pod, name): held for pod, name, held in each(expected.devices)}
    have = {(pod, name): held for pod, name, held in each(seen.devices)}
    none: frozenset[HeldDevice] = frozenset()
    for pod, name in sorted(want.keys() | have.keys()):
        mine, theirs = want.get((pod, name), none), have.get((pod, name), none)
        if mine != theirs:
            yield _of_devices(f"devices that the kubelet reports for {pod}/{name}", mine, theirs)


def _memory_differences(expected: View, seen: View) -> Iterator[Difference]:
    if expected.allocatable is not None and seen.allocatable is not None:
        want, have = expected.allocatable_memory, seen.allocatable_memory
        if want != have:
            what = f"{_MEMORY} as allocatable"
            yield Difference(what=what, expected=memory_text(want), seen=memory_text(have))
    if expected.pod_resources is None or seen.pod_resources is None:
        return
    memories = [
        {(pod, name): memory for pod, name, memory in each(one.memory)} for one in (expected, seen)
    ]
    for pod, name in sorted(memories[0].keys() | memories[1].keys()):
        texts = [memory_text(one.get((pod, name), ())) for one in memories]
        if texts[0] != texts[1]:
            what = f"{_MEMORY} for {pod}/{name}"
            yield Difference(what=what, expected=texts[0], seen=texts[1])


def memory_text(memory: Collection[HeldMemory]) -> str:
    """As ``1048576 bytes of NUMA nodes 0-1``; huge pages with their name."""
    texts = [
        f"{one.size} bytes of {'' if one.type == MEMORY else one.type + ' of '}NUMA nodes "
        f"{CPUSet(one.numa_nodes)}"
        for one in sorted(memory)
    ]
    return ", ".join(texts) or "(none)"


def _of_devices(
    what: str, expected: Collection[HeldDevice], seen: Collection[HeldDevice]
) -> Difference:
    texts = [_devices_text(one) for one in (expected, seen)]
    return Difference(what=what, expected=texts[0], seen=texts[1])


def _devices_text(devices: Collection[HeldDevice]) -> str:
    """As ``example.com/a d0 on NUMA nodes 0-1``."""
    named = []
    for one in sorted(devices):
        nodes = f" on NUMA nodes {CPUSet(one.numa_nodes)}" if one.numa_nodes else ""
        named.append(f"{one.resource} {one.id}{nodes}")
    return ", ".join(named) or "(none)"


def metric_differences(
    expected: Mapping[str, float], seen: Mapping[str, float]
) -> Iterator[Difference]:
    """Differences in the metrics that the model counts. One that is missing is 0; how often the
    pod-resources socket was asked is not compared."""
    for name in sorted(expected.keys() - COUNTERS - {DEFERRED_ACCEPTED}):
        want, found = expected.get(name, 0), seen.get(name, 0)
        if found < want if name in AT_LEAST else found != want:
            least = "at least " if name in AT_LEAST else ""
            have = f"{seen[name]:g}" if name in seen else "(no such metric)"
            yield Difference(what=f"metric {name}", expected=f"{least}{want:g}", seen=have)
