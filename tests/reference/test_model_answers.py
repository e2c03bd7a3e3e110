"""What the model says that a kubelet answers: which pods Get finds, and what is counted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from conformance.pods import best_effort, burstable, exclusive, guaranteed, guaranteed_of
from conformance.scenarios.pod_level_parts import pod_of, shared
from reference import CPUSet, Node
from reference.cpumanager.metrics import (
    ADMISSION_MS,
    ADMISSIONS,
    EXCLUSIVE,
    NODE_ALLOCATIONS,
    POD_ERRORS,
    POOL,
    allocation_errors,
    allocations,
    of_numa_node,
)
from reference.kubelet.admission import rejections
from reference.steps import (
    Apply,
    AskMetrics,
    AskPodResources,
    Container,
    Delete,
    Device,
    KillContainer,
    Kind,
    KubeletConfig,
    PodResources,
    Reboot,
    RegisterDevices,
    RestartPolicy,
    Start,
    Step,
    Stop,
)
from tests.reference import nodes
from tests.reference.nodes import do

CONFIG: Final = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]))
MANAGED: Final = replace(
    CONFIG,
    feature_gates={"PodLevelResourceManagers": True},
    topology_manager_policy="best-effort",
    topology_manager_scope="pod",
)


booted = partial(nodes.booted, config=CONFIG)


def counts(node: Node) -> dict[str, float]:
    return dict(do(node, AskMetrics()).metrics or {})


@pytest.mark.parametrize(("release", "found"), [("1.35", True), ("1.36", False), ("1.37", False)])
def test_get_finds_refused_and_ended_pods_up_to_1_35(release: str, found: bool) -> None:
    """``GetPodByName`` of ``kubelet.go``; the later ones were seen on 1.36.4."""
    ended = replace(guaranteed("ended", 1), restart_policy=RestartPolicy.NEVER)
    pods = (guaranteed("large", 100), ended, guaranteed("a", 1))
    node = booted(*map(Apply, pods), KillContainer("ended", "c", 0), release=release)
    for pod in ("large", "ended"):
        seen = do(node, AskPodResources(pod))
        assert (seen.got_pod is not None) is found
        assert ("not found" in seen.pod_resources_error) is not found
    assert do(node, AskPodResources("a")).got_pod == {"c": CPUSet([5])}


@pytest.mark.parametrize(
    ("release", "name"), [("1.36", POD_ERRORS), ("1.37", allocation_errors("pod"))]
)
def test_a_pod_that_is_refused_cpus_as_a_whole_is_counted(release: str, name: str) -> None:
    """Seen on 1.36.4: nothing is left for the container that shares."""
    node = booted(release=release, config=MANAGED)
    assert counts(node)[name] == 0
    node.do(Apply(pod_of("a", 2, exclusive("main", 2), shared("side"))))
    assert counts(node)[name] == 1


@pytest.mark.parametrize(
    ("release", "config", "names"),
    [
        ("1.31", CONFIG, set()),
        ("1.36", CONFIG, {POOL}),
        ("1.36", MANAGED, {POOL, NODE_ALLOCATIONS}),
        ("1.37", MANAGED, {POOL, allocations("node")}),
    ],
)
def test_a_release_counts_what_it_knows(
    release: str, config: KubeletConfig, names: set[str]
) -> None:
    """Sources of CPUs only with the feature gate, in 1.36 under other names."""
    some = {POOL, NODE_ALLOCATIONS, allocations("node")}
    assert some & counts(booted(release=release, config=config)).keys() == names


def test_an_admission_takes_as_long_as_the_device_plugin() -> None:
    """Also where it fails. Running pods that are admitted again have their devices."""
    slow = RegisterDevices("nic", (Device("d0"), Device("d1")), failures=1, seconds=2)
    wanting = replace(exclusive("c", 1), devices=(("nic", 1),))
    node = booted(slow, *(Apply(guaranteed_of(name, [wanting])) for name in ("a", "b")))
    assert counts(node)[ADMISSION_MS] == 4000
    do(node, Delete("a"), Stop(), Start())
    assert counts(node)[ADMISSION_MS] == 0


@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("TopologyAffinityError", "TopologyAffinityError"),
        ("UnexpectedAdmissionError", "UnexpectedAdmissionError"),
        ("OutOfcpu", "OutOfcpu"),
        ("OutOfhugepages-2Mi", "OutOfExtendedResources"),
        ("SMTAlignmentError", "Other"),
    ],
)
def test_refused_pods_are_counted_by_reason(reason: str, label: str) -> None:
    assert rejections(reason) == f'kubelet_admission_rejections_total{{reason="{label}"}}'


@pytest.mark.parametrize(("release", "times"), [("1.31", [0] * 4), ("1.32", [0, 2, 2, 2])])
def test_static_pods_are_refused_and_counted_again_at_a_start(
    release: str, times: list[int]
) -> None:
    """Seen on 1.32.2, 1.36.4 and 1.37.0. A refused pod that is deleted stays counted."""
    large = [Apply(guaranteed(name, 100)) for name in ("a", "b")]
    node, counter = booted(release=release), rejections("UnexpectedAdmissionError")
    seen = [counts(node).get(counter, 0)]
    for steps in (large, (Stop(), Start()), (Delete("a"),)):
        do(node, *steps)
        seen.append(counts(node).get(counter, 0))
    assert seen == times


def test_pods_that_an_api_server_shows_as_failed_are_not_counted_again() -> None:
    """Seen on 1.32.2, 1.36.4 and 1.37.0."""
    wanting = Apply(burstable("a", request="100"))
    node = booted(wanting, config=replace(CONFIG, api_server=True))
    assert counts(node)[rejections("OutOfcpu")] == 1
    do(node, Stop(), Start())
    assert rejections("OutOfcpu") not in counts(node)


def test_what_a_pod_that_comes_back_counts_is_left_to_chance() -> None:
    """Under its uid it may be started without admission (seen on 1.36.4)."""
    pod = Apply(best_effort("s"))
    node = booted(pod)
    assert counts(node)[ADMISSIONS] == 1
    do(node, Delete("s"), pod)
    counted = counts(node)
    assert ADMISSIONS not in counted
    assert counted[EXCLUSIVE] == 0


A, SHARED = Apply(guaranteed("a", 2)), Apply(best_effort("s"))
HALF = Container("init", "500m", "500m", "8Mi", "8Mi", Kind.INIT)
INIT = Apply(guaranteed_of("i", [HALF, exclusive("c", 1)]))


@pytest.mark.parametrize(
    ("steps", "raced"),
    [
        # Not those that have CPUs of their own, and no container that starts alone.
        ((A, SHARED, Start(), Apply(best_effort("late"))), {"a": False, "s": True, "late": False}),
        # The first round removes the entry of a pod that is gone, and the shared pool grows.
        ((Start(), A, SHARED, Stop(), Reboot(), Delete("a"), Start()), {"s": True}),
        # It may have done so by the start of an init container, which has ended since.
        ((Start(), A, INIT, Stop(), Reboot(), Delete("a"), Start()), {"i": True}),
        ((Start(), A, INIT), {"a": False, "i": False}),
        # It removes what its state file had for a refused one (seen on 1.36.4, after a reboot).
        ((Apply(guaranteed("a", 7)), SHARED, Start()), {"s": True}),
    ],
)
def test_containers_of_pods_that_are_admitted_together_race_for_the_pool(
    steps: tuple[Step, ...], raced: dict[str, bool]
) -> None:
    asked = nodes.node(*steps, config=CONFIG).view().asked
    assert {pod: any(one.raced for one in each.values()) for pod, each in asked.items()} == raced


def test_reserved_cpus_that_a_pod_gets_as_a_whole_are_counted_as_taken() -> None:
    """A core whose other thread is reserved counts as free where a third core has one thread
    (seen on 1.36.4)."""
    config = replace(
        MANAGED,
        reserved_system_cpus=CPUSet([0]),
        policy_options={"strict-cpu-reservation": "true"},
        topology_manager_policy="restricted",
    )
    whole = replace(guaranteed("a", 2), resources=PodResources("2", "2", "1Gi", "1Gi"))
    node = booted(Apply(whole), config=config, machine="1s-1n-4c-smt2-off7")
    assert node.view().assignments["a"]["c"] == CPUSet([0, 4])
    assert counts(node)[EXCLUSIVE] == 2


def test_cpus_of_a_pod_as_a_whole_are_counted_as_returned_once() -> None:
    """Its container is given CPU 6, which is not of the pod's: that CPU is not counted
    (``RemoveContainer`` counts the pod's CPUs; seen on 1.37.0)."""
    config = replace(
        MANAGED, reserved_system_cpus=CPUSet([0, 4]), topology_manager_policy="single-numa-node"
    )
    whole = replace(guaranteed("a", 2), resources=PodResources("4", "4", "1Gi", "1Gi"))
    node = booted(Apply(whole), config=config, machine="1s-1n-4c-smt2-off7")
    assert node.view().assignments["a"]["c"] == CPUSet([2, 6])
    assert node.view().shared_pool == CPUSet([0, 4, 6])
    do(node, Delete("a"))
    assert counts(node)[EXCLUSIVE] == 0


def test_cpus_that_two_containers_hold_are_counted_as_returned_twice() -> None:
    """On a hybrid machine a container is given CPUs of another one: the gauge goes back to 0
    (``updateMetricsOnRelease``; seen on 1.36.4 and 1.37.0)."""
    hybrid = "1s-1n-14c-smt2-near-e8-i7-1370p"
    config = KubeletConfig(reserved_system_cpus=CPUSet([0, 1]))
    sizes = {"a": 4, "b": 9, "c": 2}
    pods = (Apply(guaranteed(name, cpus)) for name, cpus in sizes.items())
    node = booted(*pods, config=config, machine=hybrid)
    held = node.view().assignments
    assert held["b"]["c"] & held["c"]["c"] == CPUSet([6])
    do(node, *map(Delete, sizes))
    assert counts(node)[EXCLUSIVE] == 0


def test_what_is_counted_of_cpus_that_others_hold_depends_on_a_map() -> None:
    """On cores of different sizes a pod is given a CPU that another one has. If the container with
    that CPU is the last of its pod to go, the gauge lacks the CPU (seen on 1.36.4)."""
    config = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]))
    node = booted(Apply(guaranteed("first", 2)), config=config, machine="1s-1n-4c-smt2-off7")
    assert counts(node)[of_numa_node(0)] == 2
    apps = [exclusive(f"c{number}", 1) for number in range(12)]
    do(node, Apply(guaranteed_of("a", [exclusive("init", 2, kind=Kind.INIT), *apps])))
    assert node.view().assignments["first"]["c"] == CPUSet([1, 3])
    assert of_numa_node(0) not in counts(node)


@pytest.mark.parametrize(
    ("sizes", "gone", "left"),
    [
        ({"a": [2], "b": [1]}, ["b"], 2),
        ({"a": [2], "b": [1]}, ["a", "b"], 1),  # no gauge is set to nothing
        ({"a": [2, 1]}, ["a"], None),
    ],
)
def test_what_is_counted_last_of_a_numa_node_depends_on_a_map(
    sizes: dict[str, list[int]], gone: list[str], left: int | None
) -> None:
    """A NUMA node without exclusive CPUs is not counted (``updateAllocationPerNUMAMetric``), so its
    gauge stays as it was before the last container went. Which that was among several of one
    clean-up is the order of a Go map."""
    pods = [
        guaranteed_of(name, [exclusive(f"c{at}", size) for at, size in enumerate(each)])
        for name, each in sizes.items()
    ]
    node = booted(*map(Apply, pods), *map(Delete, gone))
    assert counts(node).get(of_numa_node(0)) == left


@pytest.mark.parametrize(("release", "left"), [("1.37", 1), ("1.38", 0)])
def test_gauges_follow_the_state_from_1_38_on(release: str, left: int) -> None:
    """``updateMetricsFromState``, 1.38.0-beta.0: a NUMA node without exclusive CPUs has 0."""
    node = booted(Apply(guaranteed("a", 1)), release=release)
    assert counts(node)[of_numa_node(0)] == counts(node)[EXCLUSIVE] == 1
    do(node, Delete("a"))
    assert (counts(node)[of_numa_node(0)], counts(node)[EXCLUSIVE]) == (left, 0)
