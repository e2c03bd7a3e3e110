"""The model of pods that come through an API server: resizes in place (docs/facts 5.11 and 12.6)
and ephemeral containers. What scenarios ``resize/…`` do is held by their recordings
(tests/conformance/test_recordings.py)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from conformance.pods import burstable, exclusive, guaranteed, guaranteed_of
from reference import CPUSet, IllegalStep, NotModelled
from reference.cpumanager.metrics import ADMISSIONS, of_numa_node
from reference.kubelet.in_cluster import DEFERRED_ACCEPTED
from reference.kubelet.in_place_resize import resize_refusal
from reference.pods.pod import NODE_CRITICAL
from reference.steps import (
    AddEphemeral,
    Apply,
    AskMetrics,
    Configure,
    Container,
    Delete,
    KillContainer,
    Kind,
    KubeletConfig,
    Pod,
    PodResources,
    Reboot,
    Resize,
    RestartPolicy,
    Start,
    Step,
    Stop,
)
from reference.view import Phase, PodView
from tests.reference import nodes
from tests.reference.nodes import do

CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]), api_server=True)
EXCLUSIVE = {"InPlacePodVerticalScalingExclusiveCPUs": True}
INIT_GATE = "InPlacePodVerticalScalingInitContainers"
MEMORY_GATE = {"InPlacePodVerticalScalingExclusiveMemory": True}
MANIFESTS = replace(CONFIG, api_server=False)
NEITHER = "the pods of this node are manifests"
UNALIGNED = "Resources cannot be allocated with Topology locality"


node = partial(nodes.booted, config=CONFIG)


def test_a_container_with_the_limit_of_its_pod_loses_its_weight_at_a_resize() -> None:
    """Seen of 1.36.4 and 1.37.0: a request of zero is sent for it. Other containers are left."""
    containers = (Container("one"), Container("two", "100m", "500m"))

    def whole(cpus: str, memory: str = "64Mi") -> Pod:
        return Pod("a", containers, resources=PodResources(cpus, cpus, memory, memory))

    made = node(Apply(whole("2")), Resize(whole("3")))
    shares = {name: (cfs.quota, cfs.shares) for name, cfs in made.view().cfs["a"].items()}
    assert shares == {"one": (300_000, 2), "two": (50_000, 102)}
    assert do(made, KillContainer("a", "one")).cfs["a"]["one"].shares == 3072


def test_the_containers_of_a_pod_shrink_before_others_grow() -> None:
    """The first grows by what the others give up, then everything grows; a peak stays."""

    def sized(*limits: int) -> Pod:
        every = (Container(f"c{n}", "100m", f"{milli}m") for n, milli in enumerate(limits))
        return Pod("b", tuple(every))

    made = node(Apply(sized(500, 1000, 500)), Resize(sized(1500, 250, 250)))
    assert made.view().peak_quotas == {"b": 200_000}
    do(made, Resize(sized(1500, 500, 500)), Resize(sized(250, 250, 250)))
    assert made.view().peak_quotas == {"b": 250_000}
    assert [*made._runtime.copy().peak_quotas().values()] == [250_000]
    assert do(made, Delete("b"), Apply(sized(500, 1000, 500))).peak_quotas == {"b": 200_000}


def test_a_container_with_a_limit_alone_keeps_its_weight_at_a_resize_of_memory() -> None:
    """Its limit is its request (seen on 1.36.4)."""
    small, large = (Pod("a", (Container("c", None, "2", None, one),)) for one in ("64Mi", "128Mi"))
    other = Container("other", kind=Kind.INIT)  # so it is no Guaranteed pod
    steps = [replace(one, containers=(other, *one.containers)) for one in (small, large)]
    cfs = node(Apply(steps[0]), Resize(steps[1])).view().cfs["a"]["c"]
    assert (cfs.quota, cfs.shares) == (200_000, 2048)


@pytest.mark.parametrize("release", ["1.35", "1.36"])
def test_a_pod_keeps_its_size_as_a_whole_up_to_1_35(release: str) -> None:
    """And its ended init containers."""
    whole = [Pod("a", (Container("c"),), resources=PodResources(one, one)) for one in ("2", "3")]
    init = [pod(one, kind=Kind.INIT) for one in ("1", "2")]
    for before, after in (whole, init):
        made = node(Apply(before), release=release)
        with pytest.raises(IllegalStep) if release == "1.35" else nullcontext():
            made.do(Resize(after))


def test_up_to_1_32_no_message_is_shown() -> None:
    on = replace(CONFIG, feature_gates={"InPlacePodVerticalScaling": True})
    made = node(Apply(guaranteed("a", 2)), Resize(guaranteed("a", 3)), config=on, release="1.32")
    assert made.view().pods["a"].resize == "Infeasible"


def waiting(name: str, cpus: str) -> Pod:
    return burstable(name, request=cpus, limit="6")


_LARGE: Final = [
    Apply(waiting("large", "4")), Apply(waiting("b", "500m")), Apply(waiting("c", "500m")),
]  # fmt: skip


def test_a_resize_lets_others_be_tried_again() -> None:
    """In the order in which they were asked for; what asks for less goes first (seen of 1.36.4)."""
    more = [Resize(waiting(name, "4")) for name in ("b", "c")]
    made = node(*_LARGE, *more, Resize(waiting("large", "500m")), release="1.34")
    assert [name for name, one in made.view().pods.items() if one.resize] == ["c"]
    do(made, Resize(waiting("b", "250m")))
    assert [name for name, one in made.view().pods.items() if one.resize] == []


@pytest.mark.parametrize(("release", "count"), [("1.33", None), ("1.34", 1)])
def test_an_accepted_resize_is_counted_if_it_had_to_wait(release: str, count: int | None) -> None:
    """From 1.34 on. A smaller size than the one that waits is counted as well."""

    def counted(*steps: Step) -> float | None:
        return (do(made, *steps, AskMetrics()).metrics or {}).get(DEFERRED_ACCEPTED)

    made = node(Apply(waiting("a", "1")), Apply(waiting("b", "1")), release=release)
    assert counted(Resize(waiting("a", "2"))) is None
    assert counted(Resize(waiting("b", "5"))) is None
    assert counted(Resize(waiting("b", "2"))) == count


def test_up_to_1_33_a_resize_is_tried_again_at_any_time() -> None:
    """Which of several comes first, chance decides."""
    made = node(
        *_LARGE, Resize(waiting("b", "4")), Resize(waiting("large", "500m")), release="1.33"
    )
    assert not [name for name, one in made.view().pods.items() if one.resize]
    both = [Resize(waiting(name, "4")) for name in ("b", "c")]
    with pytest.raises(NotModelled, match="b and c wait"):
        node(*_LARGE, *both, Resize(waiting("large", "500m")), release="1.33")


@pytest.mark.parametrize(("release", "used"), [("1.35", 1000), ("1.36", 5000), ("1.37", 5000)])
def test_a_resize_is_tried_again_once_a_pod_is_refused(release: str, used: int) -> None:
    """From 1.36 on; so its message tells what another pod has taken since (seen on 1.35.0, 1.36.4
    and 1.37.0)."""
    small, large = (burstable("a", request=cpus) for cpus in ("1", "6"))
    made = node(Apply(small), Apply(guaranteed("b", 1)), Resize(large), release=release)
    do(made, Apply(burstable("rest", request="4")))
    assert "used: 1000," in made.view().pods["a"].resize
    view = do(made, Apply(burstable("more", request="3")))
    assert view.pods["more"].phase is Phase.REJECTED
    assert f"used: {used}," in view.pods["a"].resize


@pytest.mark.parametrize(("release", "reason"), [("1.35", "Infeasible"), ("1.36", "Deferred")])
def test_what_the_whole_node_does_not_have_is_infeasible_up_to_1_35(
    release: str, reason: str
) -> None:
    small, large = (burstable("a", request=cpus, limit="8") for cpus in ("1", "7"))
    why = node(Apply(small), Resize(large), release=release).view().pods["a"].resize
    what = {"Infeasible": "capacity", "Deferred": "resource"}[reason]
    assert why.startswith(f"{reason}: Node didn't have enough {what}: cpu, requested: 7000, ")


def test_no_limit_is_removed() -> None:
    made = node(Apply(burstable("a", request="1", limit="2")))
    with pytest.raises(IllegalStep, match="no request and no limit can be removed"):
        made.do(Resize(burstable("a", request="1")))


def test_1_33_resizes_no_guaranteed_pod_beside_the_static_memory_manager() -> None:
    """Whatever changes; the gate for exclusive CPUs lifts that, too."""
    refusal = partial(resize_refusal, policy="none", memory_policy="Static", release="1.33")
    text = "Resize is infeasible for Guaranteed Pods alongside Memory Manager static policy"
    assert refusal(pod("2"), pod("3")) == text
    assert refusal(pod("2"), pod("3"), feature_gates=EXCLUSIVE) == ""


@pytest.mark.parametrize("gates", [{}, EXCLUSIVE])
@pytest.mark.parametrize("sizes", [["2"], ["2000m"], ["3", "2"]])
def test_a_pod_that_asks_for_what_it_has_is_not_admitted_again(
    sizes: list[str], gates: dict[str, bool]
) -> None:
    """Seen of 1.36.4: it counts no admission more, however the size is spelled."""
    pods = [replace(guaranteed("a", 2), containers=(_sized(one),)) for one in sizes]
    steps: list[Step] = [Apply(guaranteed("a", 2)), *map(Resize, pods), AskMetrics()]
    made = node(*steps, config=replace(CONFIG, feature_gates=gates))
    counted = made.view().metrics or {}
    granted = 1 if len(sizes) == 2 and gates else 0
    assert counted["kubelet_topology_manager_admission_requests_total"] == 1 + 2 * granted
    assert made.view().pods["a"].resize == ""


def _sized(cpu: str) -> Container:
    (one,) = guaranteed("a", 2).containers
    return replace(one, cpu_request=cpu, cpu_limit=cpu)


def test_a_pod_that_has_ended_waits_for_no_size() -> None:
    """Its status does not say any more why a resize was not granted (seen on 1.36.4)."""
    never, larger = (
        replace(burstable("b", request=cpus, limit="6"), restart_policy=RestartPolicy.NEVER)
        for cpus in ("1", "5")
    )
    made = node(Apply(guaranteed("a", 2)), Apply(never), Resize(larger))
    assert made.view().pods["b"].resize
    ended = do(made, KillContainer("b", "c")).pods["b"]
    assert (ended.phase, ended.resize) == (Phase.ENDED, "")


@pytest.mark.parametrize(
    "steps", [[], [Stop(), Start()], [Stop(), Start(), Delete("b")]],
    ids=["", "after a restart", "until it is deleted after a restart"],
)  # fmt: skip
@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_a_kubelet_tries_a_deferred_resize_again_whenever_a_status_changes(
    release: str, steps: list[Step]
) -> None:
    """Each time is an admission that it counts."""
    large = Resize(burstable("b", request="7", limit="7"))
    small = Apply(burstable("b", request="1", limit="6"))
    view = node(small, large, *steps, AskMetrics(), release=release).view()
    assert ADMISSIONS not in (view.metrics or {})


@pytest.mark.parametrize("other", [False, True])
def test_a_pod_that_waits_for_a_size_may_have_it_as_it_goes(other: bool) -> None:
    """A NUMA node without exclusive CPUs keeps the count of the last one; another pod's stay."""
    config = replace(CONFIG, topology_manager_policy="restricted", feature_gates=EXCLUSIVE)
    pods = [guaranteed("a", 1), *([guaranteed("b", 1)] if other else [])]
    made = node(*map(Apply, pods), Resize(guaranteed("a", 2)), config=config)
    assert made.view().pods["a"].resize == f"Deferred: {UNALIGNED}"
    counted = do(made, Delete("a"), AskMetrics()).metrics or {}
    assert counted.get(of_numa_node(0)) == (1 if other else None)


def test_it_counts_exactly_again_once_nothing_waits_at_a_start() -> None:
    small, large = (burstable("b", request=cpus, limit="7") for cpus in ("1", "7"))
    steps: list[Step] = [Apply(small), Resize(large), Delete("b"), Stop(), Start(), AskMetrics()]
    assert (node(*steps).view().metrics or {})[ADMISSIONS] == 0


def test_a_resize_for_which_memory_cannot_be_allocated_says_so_as_an_admission_does() -> None:
    """The memory of the ended init container is allocated again, and the other pod has the rest
    (seen on 1.36.4)."""
    config = replace(CONFIG, memory_manager_policy="Static", feature_gates=EXCLUSIVE,
                     reserved_memory={0: "1Mi"})  # fmt: skip

    def pod(name: str, *containers: Container) -> Pod:
        each = (replace(one, memory_request="64Mi", memory_limit="64Mi") for one in containers)
        return guaranteed_of(name, [*each])

    init = exclusive("init", 1, kind=Kind.INIT)
    small, large = (pod("b", init, exclusive("c", cpus)) for cpus in (2, 3))
    steps = (Apply(pod("a", exclusive("c", 1))), Apply(small), Resize(large))
    made = node(*steps, config=config, machine="1s-1n-4c-smt2-192mib")
    assert made.view().pods["b"].resize == (
        "Deferred: Allocate failed due to [memorymanager] failed to get the default NUMA affinity, "
        "no NUMA nodes with enough memory is available, which is unexpected"
    )


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("release", ["1.34", "1.36", "1.37"])
def test_who_asks_the_topology_manager_about_a_resize(release: str, policy: str) -> None:
    """1.35 and 1.36 do, with the size that is asked for: CPUs of another number than requested give
    an empty list of hints (docs/facts 6.3). No release gives other CPUs, nor does a restart, which
    is an admission again (kubernetes/kubernetes#140031)."""
    config = replace(CONFIG, topology_manager_policy=policy, feature_gates=EXCLUSIVE)
    deferred = release == "1.36" and policy in ("restricted", "single-numa-node")
    for cpus in (1, 3):
        made = node(Apply(guaranteed("a", 2)), config=config, release=release)
        before = made.view()
        view = do(made, Resize(guaranteed("a", cpus)))
        assert view.pods["a"].resize == (f"Deferred: {UNALIGNED}" if deferred else "")
        assert (view.state_file, view.cpusets) == (before.state_file, before.cpusets)
        if policy in ("none", "best-effort"):
            assert do(made, Stop(), Start()).assignments == before.assignments


@pytest.mark.parametrize(
    ("steps", "of", "error", "text"),
    [
        ([Resize(guaranteed("x", 1))], {}, IllegalStep, "Resize: no pod x"),
        ([Resize(burstable("a", request="1"))], {}, IllegalStep, "would be of another QoS class"),
        ([Resize(guaranteed("a", 1, 1))], {}, IllegalStep, "differs in more than its resources"),
        ([AddEphemeral("a", "c")], {}, IllegalStep, "pod a has a container c"),
        ([AddEphemeral("a", "d"), AddEphemeral("a", "d")], {}, IllegalStep, "has a container d"),
        ([Stop(), AddEphemeral("a", "d")], {}, IllegalStep, "the kubelet does not run"),
        ([Stop(), Configure(KubeletConfig())], {}, IllegalStep, "from its first boot on"),
        ([AddEphemeral("a", "d"), Stop(), Reboot()], {}, NotModelled, "ephemeral containers"),
        ([Resize(guaranteed("a", 3))], {"release": "1.32"}, NotModelled,
         "without feature gate InPlacePodVerticalScaling"),
        # Manifests have neither.
        ([Resize(guaranteed("a", 3))], {"config": MANIFESTS}, IllegalStep, NEITHER),
        ([AddEphemeral("a", "debug")], {"config": MANIFESTS}, IllegalStep, NEITHER),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for(
    steps: list[Step], of: dict[str, Any], error: type[Exception], text: str
) -> None:
    made = node(Apply(guaranteed("a", 2)), *steps[:-1], **of)
    with pytest.raises(error, match=text):
        made.do(steps[-1])


def test_a_size_above_what_the_api_server_filled_in_as_a_whole_is_refused() -> None:
    """The API server adds the requests up when the pod is created, and never again (seen on
    1.36.4)."""
    whole = PodResources(cpu_limit="4", memory_limit="128Mi")
    before, after = (replace(burstable("a", request=cpu), resources=whole) for cpu in "23")
    made = node(Apply(before))
    with pytest.raises(IllegalStep, match=r"request .* is below that of its containers"):
        made.do(Resize(after))


def test_what_the_api_server_filled_in_as_a_whole_outlives_a_resize_and_a_restart() -> None:
    """So a pod whose containers ask for less than its limit stays Guaranteed (seen on 1.36.4)."""
    whole = PodResources(cpu_limit="4", memory_limit="64Mi")
    before, after = (replace(guaranteed("a", cpus), resources=whole) for cpus in (4, 3))
    made = node(Apply(before), Resize(after), config=replace(CONFIG, feature_gates=EXCLUSIVE))
    for restart in ((), (Stop(), Start())):
        assert do(made, *restart).pods["a"] == PodView(Phase.RUNNING, qos="Guaranteed")


def test_1_32_overlooks_at_a_start_what_a_container_was_granted() -> None:
    """It finds no request in the status of the pod, and gives the container no CPU (seen on
    1.32.2). Its neighbour, which has its CPU, does not count."""
    config = replace(CONFIG, feature_gates={"InPlacePodVerticalScaling": True, **EXCLUSIVE})
    before, whole = guaranteed("a", 1, "500m"), guaranteed("a", 1, 1)
    steps = (Apply(before), Stop(), Start(), Resize(whole), Stop())
    made = node(*steps, config=config, release="1.32")
    with pytest.raises(NotModelled, match="pod a needs CPUs, and its request is overlooked"):
        made.do(Start())


def test_limits_as_a_whole_make_a_pod_guaranteed_whose_cpus_cannot_change() -> None:
    """The API server fills the requests in (seen on 1.36.4)."""
    whole = PodResources(cpu_limit="3", memory_limit="128Mi")  # what the containers request
    before, after = (
        Pod("a", (exclusive("c", cpu), exclusive("d", 1)), resources=whole) for cpu in (2, 1)
    )
    made = node(Apply(before), Resize(after))
    assert made.view().pods["a"].resize.startswith("Infeasible: Resize is infeasible")


# -- who is refused a resize under the static policy -----------------------------------------------


OLD = "Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy"
NEW = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
MEMORY = 'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"'


def pod(cpu: str, *, memory: str = "64Mi", kind: Kind = Kind.APP) -> Pod:
    app = Container("c", cpu, cpu, memory, memory)
    if kind is Kind.APP:
        return Pod("a", (app,))
    other = Container("i", cpu, cpu, memory, memory, kind)
    return Pod("a", (other, replace(app, cpu_request="2", cpu_limit="2")))


@pytest.mark.parametrize(
    ("release", "cpu", "memory"),
    [
        ("1.31", "", ""), ("1.32", OLD, OLD), ("1.33", OLD, OLD), ("1.34", NEW, ""),
        ("1.36", NEW, ""), ("1.37", NEW, ""),
    ],
)  # fmt: skip
def test_who_is_refused(release: str, cpu: str, memory: str) -> None:
    """Any resize of a Guaranteed pod in 1.32 and 1.33, one of its cpu from 1.34 on; and nobody
    with feature gate InPlacePodVerticalScalingExclusiveCPUs, alpha from 1.32 on."""
    refusal = partial(resize_refusal, pod("2"), release=release)
    assert refusal(pod("3")) == cpu
    assert refusal(pod("2", memory="128Mi")) == memory
    assert refusal(pod("3"), policy="none") == ""
    assert refusal(pod("3"), feature_gates=EXCLUSIVE) == ""
    assert refusal(pod("3"), feature_gates=dict.fromkeys(EXCLUSIVE, False)) == cpu
    assert refusal(Pod("a", (Container("c", "3"),))) == ""


@pytest.mark.parametrize(
    ("release", "gates", "text"),
    [("1.35", {}, ""), ("1.36", {}, NEW), ("1.36", {INIT_GATE: False}, ""), ("1.37", {}, NEW)],
)
def test_an_init_container_that_ended_has_a_size_since_1_36(
    release: str, gates: dict[str, bool], text: str
) -> None:
    """A sidecar had one before (``IsResizableContainer``)."""
    refusal = partial(resize_refusal, release=release, feature_gates=gates)
    assert refusal(pod("1", kind=Kind.INIT), pod("2", kind=Kind.INIT)) == text
    assert refusal(pod("1", kind=Kind.SIDECAR), pod("2", kind=Kind.SIDECAR)) == NEW


@pytest.mark.parametrize(
    ("release", "gates", "text"),
    [("1.32", {}, ""), ("1.34", {}, MEMORY), ("1.37", {}, MEMORY), ("1.37", MEMORY_GATE, "")],
)
def test_the_static_memory_manager_refuses_another_memory(
    release: str, gates: dict[str, bool], text: str
) -> None:
    """1.32 compares its policy with another spelling of it."""
    refusal = partial(
        resize_refusal, policy="none", memory_policy="Static", feature_gates=gates, release=release
    )
    assert refusal(pod("2"), pod("3", memory="128Mi")) == text
    assert refusal(pod("2"), pod("3")) == ""


def test_a_resize_starts_a_container_again_where_its_policy_says_so() -> None:
    """Of a change of its cpu alone; a pod that never starts containers again may not ask for it."""
    first = Container("c", "500m", "1", "64Mi", "64Mi", resize_restarts=("cpu",))
    pod = Pod("a", (first, Container("d", "500m", "1", "64Mi", "64Mi")))
    made = node(Apply(pod))
    before = made.view().asked["a"]
    larger = replace(pod, containers=(replace(first, cpu_request="1"), pod.containers[1]))
    after = do(made, Resize(larger)).asked["a"]
    assert [after[name].id != before[name].id for name in ("c", "d")] == [True, False]
    never = replace(pod, name="b", uid="", restart_policy=RestartPolicy.NEVER)
    with pytest.raises(IllegalStep, match="container c: a resize may not restart it"):
        made.do(Apply(never))


@pytest.mark.parametrize(("release", "known"), [("1.34", False), ("1.35", True)])
def test_whose_status_decides_its_exclusive_cpus(release: str, known: bool) -> None:
    """Seen on 1.33.0 and 1.34.0: one that a resize has started again counts no request."""
    pods = [
        Pod("a", (Container("c", cpus, cpus, "64Mi", "64Mi", resize_restarts=("cpu",)),))
        for cpus in ("2", "3", "2")
    ]
    config = replace(CONFIG, feature_gates=EXCLUSIVE)
    made = node(Apply(pods[0]), Resize(pods[1]), config=config, release=release)
    with nullcontext() if known else pytest.raises(NotModelled, match="has started again"):
        made.do(Resize(pods[2]))
        assert not made.view().pods["a"].resize


def test_a_critical_pod_that_is_resized_puts_others_out() -> None:
    """Seen of 1.36.4. Which of them is not modelled; where it fits, none is."""
    small, large = (
        replace(burstable("critical", request=one, limit="6"), priority=NODE_CRITICAL)
        for one in ("1", "5")
    )
    made = node(Apply(burstable("b", request="3")), Apply(small))
    with pytest.raises(NotModelled, match="critical pod critical puts others out"):
        made.do(Resize(large))
    made.do(Resize(replace(burstable("critical", request="3", limit="6"), priority=NODE_CRITICAL)))
    assert made.view().pods["critical"].resize == ""


def test_a_refused_pod_may_be_the_last_that_a_start_admits() -> None:
    """It keeps the CPUs then that it was given before its refusal; up to 1.26 a kubelet admits it
    again though it has ended, and in which order is chance."""
    shared = (Apply(burstable("a", request="3")), Apply(burstable("e", request="2")))
    steps = (*shared, Apply(guaranteed("b", 3)), Stop(), Delete("a"), Start())
    made = node(*steps, release="1.26")
    assert made.view().pods["b"].phase is Phase.REJECTED
    assert made.outcomes == 2
    assert node(*steps, release="1.32").outcomes == 1
