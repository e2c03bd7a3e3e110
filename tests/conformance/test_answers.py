"""What a subject answers, and what it asks of its runtime, is compared with the model: each
difference is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

import pytest

from conformance.answers import answer_differences
from conformance.lockstep import Divergence, LockstepNode
from conformance.oracle import ModelOracle
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.results import Difference
from conformance.subject import Capability
from reference import NEWEST, CPUSet
from reference.cpumanager.metrics import ADMISSION_MS, ADMISSIONS, REQUESTS, of_numa_node
from reference.kubelet.in_cluster import DEFERRED_ACCEPTED
from reference.kubelet.pod_resources import ASKED, ASKED_ALLOCATABLE, ASKED_GET, ASKED_LIST
from reference.steps import (
    AskAllocatable,
    AskMetrics,
    AskPodResources,
    Device,
    RegisterDevices,
)
from reference.view import CFS, Asked, HeldDevice, HeldMemory, View
from tests.conformance.doctored import shown_as
from tests.conformance.judging import judged
from topologies import machine, with_memory

ALL: Final = frozenset(Capability)
MACHINE: Final = machine("1s-1n-4c-smt2")
LIST, GET, MISSED = AskPodResources(), AskPodResources("a"), AskPodResources("absent")
ALLOCATABLE: Final = AskAllocatable()
METRICS: Final = AskMetrics()
ABSENT: Final = "pod absent in namespace default not found"
REPORTED: Final = "CPUs that the kubelet reports"
OF_POD: Final = f"{REPORTED} for container c of the pod"
DEVICES: Final = "devices that the kubelet reports"
MEMORY: Final = "memory that the kubelet reports"
BOUND: Final = "104857600 bytes of NUMA nodes 0"
SOCKET: Final = "the kubelet's answer at its pod-resources socket"
Wrong: TypeAlias = Callable[[View], View]


def _booted(wrong: Wrong) -> LockstepNode:
    oracle = partial(ModelOracle, release=NEWEST)
    node = LockstepNode(shown_as(wrong), MACHINE, oracle=oracle, release=NEWEST)
    node.boot()
    return node


def _showing(**changes: Callable[[Any], Any]) -> Wrong:
    """A view with these fields changed, as far as it has them."""

    def wrong(view: View) -> View:
        shown = {name: getattr(view, name) for name in changes}
        made = {name: changes[name](one) for name, one in shown.items() if one is not None}
        return replace(view, **made)

    return wrong


def _silent(view: View) -> View:
    return replace(view, pod_resources_error="", got_pod={}) if view.pod_resources_error else view


def _difference(do: Callable[[], object]) -> Difference:
    """The one difference in which this step ends."""
    with pytest.raises(Divergence) as caught:
        do()
    (found,) = caught.value.failure.differences
    return found


@pytest.mark.parametrize(
    ("wrong", "step", "what", "expected", "seen"),
    [
        (
            _showing(pod_resources=lambda held: {**held, "s": {"c": CPUSet([2])}}),
            LIST, f"{REPORTED} for s/c", "(none)", "2",
        ),
        (_showing(got_pod=lambda _: {"c": CPUSet([1])}), GET, OF_POD, "1,5", "1"),
        (_showing(got_pod=lambda _: {}), GET, OF_POD, "1,5", "(no entry)"),
        (_silent, MISSED, SOCKET, ABSENT, "answers"),
        (
            _showing(pod_resources_error=lambda error: error and "permission denied"),
            MISSED, SOCKET, ABSENT, "permission denied",
        ),
        (
            _showing(allocatable=lambda _: CPUSet([1, 2])),
            ALLOCATABLE, f"{REPORTED} as allocatable", "1-3,5-7", "1-2",
        ),
        (
            _showing(metrics=lambda shown: {**shown, REQUESTS: shown.get(REQUESTS, 0) + 1}),
            METRICS, f"metric {REQUESTS}", "1", "2",
        ),
        (
            _showing(metrics=lambda shown: {one: shown[one] for one in shown if one != REQUESTS}),
            METRICS, f"metric {REQUESTS}", "1", "(no such metric)",
        ),
        (
            _showing(metrics=lambda shown: {**shown, of_numa_node(0): 3}),
            METRICS, f"metric {of_numa_node(0)}", "2", "3",
        ),
        (
            _showing(devices=lambda _: {"a": {"c": {HeldDevice("example.com/d", "d1", (0,))}}}),
            LIST, f"{DEVICES} for a/c", "(none)", "example.com/d d1 on NUMA nodes 0",
        ),
        (
            _showing(allocatable_devices=lambda _: frozenset()),
            ALLOCATABLE, f"{DEVICES} as allocatable", "example.com/d d0", "(none)",
        ),
        (
            _showing(memory=lambda _: {"a": {"c": {HeldMemory((1,), 7)}}}),
            LIST, f"{MEMORY} for a/c", BOUND, "7 bytes of NUMA nodes 1",
        ),
        (_showing(memory=lambda _: {}), LIST, f"{MEMORY} for a/c", BOUND, "(none)"),
        (
            _showing(allocatable_memory=lambda _: frozenset()),
            ALLOCATABLE, f"{MEMORY} as allocatable", "133169152 bytes of NUMA nodes 0", "(none)",
        ),
    ],
    ids=["list", "get", "no entry", "no error", "error", "allocatable", "more", "none", "node",
         "devices", "no devices", "memory", "no memory", "no allocatable memory"],
)  # fmt: skip
def test_a_wrong_answer_is_a_divergence(
    wrong: Wrong,
    step: AskPodResources | AskAllocatable | AskMetrics,
    what: str,
    expected: str,
    seen: str,
) -> None:
    """CPUs as lists, devices by their ids, memory by its size."""
    node = _booted(wrong)
    managed = replace(
        node.default_config(), memory_manager_policy="Static", reserved_memory={0: "1Mi"}
    )
    node.boot(managed, machine=with_memory(MACHINE, 128))
    node.to_runtime(RegisterDevices("example.com/d", (Device("d0"),)))
    pinned = replace(exclusive("c", 2), memory_request="100Mi", memory_limit="100Mi")
    node.apply(guaranteed_of("a", [pinned]))
    node.apply(best_effort("s"))
    found = _difference(lambda: node.ask(step))
    assert (found.what, found.expected, found.seen) == (what, expected, seen)


def _started(cpus: CPUSet | None) -> Wrong:
    def elsewhere(asked: Mapping[str, Mapping[str, Asked]]) -> object:
        return {
            pod: {name: replace(one, started_on=cpus) for name, one in named.items()}
            for pod, named in asked.items()
        }

    return _showing(asked=elsewhere)


def _elsewhere(asked: Mapping[str, Mapping[str, Asked]]) -> object:
    """The memory of pod a is bound to NUMA node 1."""
    return {"a": {"c": replace(asked["a"]["c"], mems=CPUSet([1]))}} if "a" in asked else asked


@pytest.mark.parametrize(
    ("wrong", "what", "expected", "seen"),
    [
        (_started(None), "cpuset with which a/c was started", "1,5", "(no cpuset)"),
        (_started(CPUSet([1, 2])), "cpuset with which a/c was started", "1,5", "1-2"),
        (
            _showing(asked=_elsewhere),
            "NUMA nodes of the memory (cpuset.mems) asked for a/c", "(none)", "1",
        ),
        (
            _showing(cfs=lambda cfs: {pod: {"c": CFS(5_000, 2)} for pod in cfs}),
            "CFS quota and shares of a/c", "no quota, 2048 shares", "quota 5000 us, 2 shares",
        ),
        (
            _showing(pod_cfs=lambda pods: {pod: CFS(9_000, None, 10_000, 1) for pod in pods}),
            "cgroup of pod a", "no quota, weight 79", "quota 9000 us in each 10000 us, weight 1",
        ),
    ],
    ids=["no cpuset", "other cpuset", "memory", "quota", "cgroup of the pod"],
)  # fmt: skip
def test_a_container_that_starts_otherwise_is_a_divergence(
    wrong: Wrong, what: str, expected: str, seen: str
) -> None:
    """Though a reconcile round has put its cpuset right by the time that it is seen. Quotas are no
    part of what makes two views equal, and chance does not excuse them."""
    node = _booted(wrong)
    found = _difference(lambda: node.apply(guaranteed("a", 2)))
    assert (found.what, found.expected, found.seen) == (what, expected, seen)


@pytest.mark.parametrize(("started", "diverges"), [("0-7", False), (None, True)])
def test_shared_containers_that_start_at_the_same_time_start_on_some_pool(
    started: str | None, diverges: bool
) -> None:
    """After a boot one may be created before a later pod has taken its CPUs."""
    elsewhere = _started(None if started is None else CPUSet.parse(started))

    def wrong(view: View) -> View:
        shown = elsewhere(view) if rebooted else view
        return replace(shown, asked={**shown.asked, "a": view.asked.get("a", {})})

    rebooted = False
    node = _booted(wrong)
    node.apply(best_effort("s"))
    node.apply(guaranteed("a", 2))
    node.stop()
    rebooted = True
    node.reboot()
    if diverges:
        with pytest.raises(Divergence, match="start the kubelet"):
            node.start()
    else:
        node.start()


@pytest.mark.parametrize(
    "metrics",
    [
        {REQUESTS: 0.0, ADMISSIONS: 0.0},
        {REQUESTS: 0.0},
        {REQUESTS: 0.0, ADMISSIONS: 0.0, ASKED_LIST: 9.0},
        {REQUESTS: 0.0, "kubelet_running_pods": 3.0},
        {REQUESTS: 0.0, 'resource_manager_allocations_total{resource_name="memory"}': 1.0},
    ],
)
def test_what_the_model_does_not_count_is_no_difference(metrics: dict[str, float]) -> None:
    """Nor is a counter that is not there before it has counted anything, or how often the socket
    was asked."""
    expected = View(running=True, metrics={REQUESTS: 0, ADMISSIONS: 0, ASKED_LIST: 1})
    assert list(answer_differences(expected, replace(expected, metrics=metrics), ALL)) == []


def test_a_metric_that_has_a_least_value_may_be_more() -> None:
    """The Topology Manager takes longer than a device plugin makes it wait."""
    expected = View(running=True, metrics={ADMISSION_MS: 1000})
    longer, shorter = (replace(expected, metrics={ADMISSION_MS: one}) for one in (1002, 1))
    assert list(answer_differences(expected, longer, ALL)) == []
    (found,) = answer_differences(expected, shorter, ALL)
    assert found == Difference(what=f"metric {ADMISSION_MS}", expected="at least 1000", seen="1")


def test_what_nobody_asked_is_no_difference() -> None:
    """A recording has no answers, and a subject without a capability shows none."""
    plain, asked = View(running=True), View(running=True, metrics={REQUESTS: 1}, pod_resources={})
    assert list(answer_differences(plain, asked, ALL)) == []
    assert list(answer_differences(asked, plain, ALL)) == []
    refused = replace(plain, pod_resources_error="pod absent in namespace default not found")
    assert list(answer_differences(plain, refused, ALL)) == []
    assert list(answer_differences(asked, replace(asked, metrics={}), set())) == []


@pytest.mark.parametrize(
    ("counter", "instead", "verdict"),
    [
        ("", "", "pass"),
        (ASKED, "", "fail"),
        (ASKED_LIST, "", "fail"),
        (ASKED_GET, ASKED_LIST, "fail"),
        (ASKED_ALLOCATABLE, ASKED_GET, "fail"),
    ],
)
def test_a_wrong_counter_of_calls_is_caught(counter: str, instead: str, verdict: str) -> None:
    """By the promise alone: the kubelet shows ``instead`` where it should show ``counter``."""

    def miscounted(metrics: Mapping[str, float]) -> object:
        shown = dict(metrics)
        count = shown.pop(counter, 0.0)
        return {**shown, instead: shown.get(instead, 0.0) + count} if instead else shown

    subject = shown_as(_showing(metrics=miscounted), release="1.37")
    scenario = "metrics/pod-resources-requests-are-counted"
    result = judged(scenario, MACHINE, subject, release="1.37", model=False)
    assert result.verdict == verdict, result.explanation


def test_resizes_that_had_to_wait_are_not_compared() -> None:
    """The kubelet counts them with a label, and the model without."""
    expected = View(running=True, metrics={REQUESTS: 1.0, DEFERRED_ACCEPTED: 1.0})
    seen = View(running=True, metrics={REQUESTS: 2.0})
    found = answer_differences(expected, seen, {Capability.METRICS})
    assert [one.what for one in found] == [f"metric {REQUESTS}"]
