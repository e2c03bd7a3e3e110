"""What a subject answers, and what it asks of its runtime, is compared with the model: each
difference is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from conformance.answers import answer_differences
from conformance.lockstep import Divergence, LockstepNode
from conformance.oracle import ModelOracle
from conformance.pods import best_effort, guaranteed
from conformance.subject import Capability
from conformance.subjects.reference import ModelNode, ReferenceSubject, right_node
from reference import NEWEST, CPUSet
from reference.cpumanager.metrics import ADMISSIONS, REQUESTS
from reference.kubelet.pod_resources import ASKED_LIST
from reference.steps import (
    AskAllocatable,
    AskMetrics,
    AskPodResources,
    Device,
    KubeletConfig,
    RegisterDevices,
)
from reference.view import CFS, HeldDevice, View
from topologies import Machine, machine

ALL: Final = frozenset(Capability)
MACHINE: Final = machine("1s-1n-4c-smt2")
LIST, GET, MISSED = AskPodResources(), AskPodResources("a"), AskPodResources("absent")


class _WrongNode(ModelNode):
    """A node of the model that shows something else."""

    wrong: Callable[[View], View]

    def view(self) -> View:
        return self.wrong(super().view())

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """A model is always settled, satisfying or not."""
        satisfied(self.view())
        return self.view()


class _WrongSubject(ReferenceSubject):
    def __init__(self, wrong: Callable[[View], View]) -> None:
        super().__init__()
        self._wrong = wrong

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> ModelNode:
        made = right_node(lambda name: machines(name).tree, machine.name, config, NEWEST)
        node = _WrongNode(made)
        node.wrong = self._wrong
        return node


def _booted(wrong: Callable[[View], View]) -> LockstepNode:
    oracle = partial(ModelOracle, release=NEWEST)
    node = LockstepNode(_WrongSubject(wrong), MACHINE, oracle=oracle, release=NEWEST)
    node.boot()
    return node


def _reporting(held: str) -> Callable[[View], View]:
    def wrong(view: View) -> View:
        if view.pod_resources is None:
            return view
        return replace(view, pod_resources={**view.pod_resources, "s": {"c": CPUSet.parse(held)}})

    return wrong


def _got(reported: Mapping[str, CPUSet]) -> Callable[[View], View]:
    return lambda view: view if view.got_pod is None else replace(view, got_pod=reported)


def _silent(view: View) -> View:
    if not view.pod_resources_error:
        return view
    return replace(view, pod_resources_error="", got_pod={})


def _other_error(view: View) -> View:
    return replace(view, pod_resources_error=view.pod_resources_error and "permission denied")


def _counting(name: str, by: int) -> Callable[[View], View]:
    def wrong(view: View) -> View:
        if view.metrics is None:
            return view
        return replace(view, metrics={**view.metrics, name: view.metrics.get(name, 0) + by})

    return wrong


def _without(name: str) -> Callable[[View], View]:
    def wrong(view: View) -> View:
        kept = {one: count for one, count in (view.metrics or {}).items() if one != name}
        return view if view.metrics is None else replace(view, metrics=kept)

    return wrong


def _allocatable(cpus: str) -> Callable[[View], View]:
    def wrong(view: View) -> View:
        return view if view.allocatable is None else replace(view, allocatable=CPUSet.parse(cpus))

    return wrong


@pytest.mark.parametrize(
    ("wrong", "step", "what", "missing", "unexpected"),
    [
        (_reporting("2"), LIST, "CPUs that the kubelet reports for s/c", "", "2"),
        (
            _got({"c": CPUSet([1])}),
            GET,
            "CPUs that the kubelet reports for container c of the pod",
            "5",
            "",
        ),
        (_got({}), GET, "CPUs that the kubelet reports for container c of the pod", "", ""),
        (_silent, MISSED, "the kubelet's answer at its pod-resources socket", "", ""),
        (_other_error, MISSED, "the kubelet's answer at its pod-resources socket", "", ""),
        (
            _allocatable("1-2"),
            AskAllocatable(),
            "CPUs that the kubelet reports as allocatable",
            "3,5-7",
            "",
        ),
        (_counting(REQUESTS, 1), AskMetrics(), f"metric {REQUESTS}", "", ""),
        (_without(REQUESTS), AskMetrics(), f"metric {REQUESTS}", "", ""),
    ],
    ids=["list", "get", "no entry", "no error", "error", "allocatable", "more", "none"],
)
def test_a_wrong_answer_is_a_divergence(
    wrong: Callable[[View], View],
    step: AskPodResources | AskAllocatable | AskMetrics,
    what: str,
    missing: str,
    unexpected: str,
) -> None:
    """CPUs as lists, with what is missing and what is unexpected."""
    node = _booted(wrong)
    node.apply(guaranteed("a", 2))
    node.apply(best_effort("s"))
    with pytest.raises(Divergence) as caught:
        node.ask(step)
    (found,) = caught.value.failure.differences
    assert found.what.startswith(what)
    assert (found.missing, found.unexpected) == (missing, unexpected)
    assert found.expected != found.seen


def _started(text: str | None) -> Callable[[View], View]:
    started = None if text is None else CPUSet.parse(text)

    def wrong(view: View) -> View:
        asked = {
            pod: {name: replace(one, started_on=started) for name, one in named.items()}
            for pod, named in view.asked.items()
        }
        return replace(view, asked=asked)

    return wrong


@pytest.mark.parametrize(
    ("started", "seen", "missing", "unexpected"),
    [(None, "(no cpuset)", "1,5", ""), ("1-2", "1-2", "5", "2")],
)
def test_a_container_that_starts_elsewhere_is_a_divergence(
    started: str | None, seen: str, missing: str, unexpected: str
) -> None:
    """Though a reconcile round has put it right by the time that it is seen."""
    node = _booted(_started(started))
    with pytest.raises(Divergence) as caught:
        node.apply(guaranteed("a", 2))
    (found,) = caught.value.failure.differences
    assert found.what == "cpuset with which a/c was started"
    assert (found.expected, found.seen) == ("1,5", seen)
    assert (found.missing, found.unexpected) == (missing, unexpected)


def test_memory_that_is_bound_elsewhere_is_a_divergence() -> None:
    """The next reconcile round does not mend it."""

    def wrong(view: View) -> View:
        bound = replace(view.asked["a"]["c"], mems=CPUSet([1])) if "a" in view.asked else None
        return view if bound is None else replace(view, asked={"a": {"c": bound}})

    node = _booted(wrong)
    with pytest.raises(Divergence) as caught:
        node.apply(guaranteed("a", 2))
    (found,) = caught.value.failure.differences
    assert found.what == "NUMA nodes of the memory (cpuset.mems) asked for a/c"
    assert (found.expected, found.seen, found.unexpected) == ("(none)", "1", "1")


@pytest.mark.parametrize(("started", "diverges"), [("0-7", False), (None, True)])
def test_shared_containers_that_start_at_the_same_time_start_on_some_pool(
    started: str | None, diverges: bool
) -> None:
    """After a boot one may be created before a later pod has taken its CPUs."""

    def wrong(view: View) -> View:
        shown = _started(started)(view) if rebooted else view
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


def test_a_wrong_quota_is_a_divergence() -> None:
    """It is no part of what makes two views equal, and chance does not excuse it."""

    def wrong(view: View) -> View:
        cfs = {pod: dict.fromkeys(named, CFS(5_000, 2)) for pod, named in view.cfs.items()}
        return replace(view, cfs=cfs)

    node = _booted(wrong)
    with pytest.raises(Divergence) as caught:
        node.apply(best_effort("s"))
    (found,) = caught.value.failure.differences
    assert found.what == "CFS quota and shares of s/c"


def test_wrong_devices_are_a_divergence() -> None:
    """By their ids and NUMA nodes."""

    def wrong(view: View) -> View:
        held = frozenset({HeldDevice("example.com/d", "d1", (0,))})
        if view.pod_resources is None:
            return view
        return replace(view, devices={**view.devices, "a": {"c": held}})

    node = _booted(wrong)
    node.to_runtime(RegisterDevices("example.com/d", (Device("d0", (0,)),)))
    node.apply(guaranteed("a", 2))
    with pytest.raises(Divergence) as caught:
        node.ask()
    (found,) = caught.value.failure.differences
    assert found.what == "devices that the kubelet reports for a/c"
    assert (found.expected, found.seen) == ("(none)", "example.com/d d1 on NUMA nodes 0")


def test_wrong_allocatable_devices_are_a_divergence() -> None:
    def wrong(view: View) -> View:
        return view if view.allocatable is None else replace(view, allocatable_devices=frozenset())

    node = _booted(wrong)
    node.to_runtime(RegisterDevices("example.com/d", (Device("d0"),)))
    with pytest.raises(Divergence) as caught:
        node.ask(AskAllocatable())
    (found,) = caught.value.failure.differences
    assert found.what == "devices that the kubelet reports as allocatable"
    assert (found.expected, found.seen) == ("example.com/d d0", "(none)")


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


def test_what_nobody_asked_is_no_difference() -> None:
    """A recording has no answers, and a subject without a capability shows none."""
    plain, asked = View(running=True), View(running=True, metrics={REQUESTS: 1}, pod_resources={})
    assert list(answer_differences(plain, asked, ALL)) == []
    assert list(answer_differences(asked, plain, ALL)) == []
    refused = replace(plain, pod_resources_error="pod absent in namespace default not found")
    assert list(answer_differences(plain, refused, ALL)) == []
    assert list(answer_differences(asked, replace(asked, metrics={}), set())) == []
