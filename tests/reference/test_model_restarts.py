"""What a kubelet that starts makes of pods that another has refused, and of one that was killed;
and which containers that end are started again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from conformance.pods import best_effort, burstable, exclusive, guaranteed, guaranteed_of
from reference import CPUSet, IllegalStep, Node, NotModelled
from reference.cpumanager.metrics import ALIGNED_CONTAINERS, IN_ONE_CACHE, REQUESTS
from reference.steps import (
    CREATE,
    FOR_EVER,
    UPDATE,
    Apply,
    ApplyTogether,
    AskMetrics,
    AskPodResources,
    AwaitReconcile,
    Configure,
    Container,
    Delete,
    Device,
    FailUpdates,
    FailWrites,
    KillAtRename,
    KillContainer,
    Kind,
    KubeletConfig,
    Pod,
    Reboot,
    RegisterDevices,
    RemoveState,
    RestartPolicy,
    Start,
    Step,
    Stop,
    TamperQuota,
)
from reference.view import Phase, PodView, Version, View
from tests.reference import nodes
from tests.reference.nodes import FOUR, TWO_NODES, booted, do

CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]))
IN_CLUSTER = replace(CONFIG, api_server=True)
FULL = {"full-pcpus-only": "true"}
WHOLE_CORES = replace(CONFIG, policy_options=FULL)
STRICT = replace(CONFIG, policy_options={"strict-cpu-reservation": "true"})
RESIZES = {"InPlacePodVerticalScaling": True}


node = partial(nodes.booted, config=CONFIG)


@pytest.mark.parametrize("release", ["1.28.14", "1.29.9", "1.30.5", "1.31.1", "1.32", "1.37"])
def test_a_refused_pod_of_an_api_server_stays_refused(release: str) -> None:
    """The next kubelet finds its phase there: it keeps a reason that is none any more."""
    config = replace(IN_CLUSTER, policy_options=FULL)
    made = node(Apply(guaranteed("odd", 1)), config=config, release=release)
    before = made.view().pods["odd"]
    assert before.reason == "SMTAlignmentError"
    do(made, Stop(), Configure(IN_CLUSTER), Start())
    assert made.view().pods["odd"] == before
    assert made.view().assignments == {}
    made.do(Apply(guaranteed("whole", 6)))
    assert made.view().pods["whole"].phase is Phase.RUNNING
    do(made, Delete("odd"), Apply(Pod("odd", (Container("c"),), uid="another")))
    assert made.view().pods["odd"].phase is Phase.RUNNING


def test_earlier_releases_admit_it_once_more() -> None:
    """It may get another reason. Where it fits by now, it takes CPUs and stays refused."""
    large = guaranteed_of("large", [exclusive("a", 6), exclusive("b", 1)])
    made = node(Apply(guaranteed("first", 1)), Apply(large), config=IN_CLUSTER, release="1.26")
    before = made.view().pods["large"]
    none = replace(IN_CLUSTER, policy="none")
    do(made, Stop(), Configure(none), RemoveState(), Start())
    assert before.reason == "UnexpectedAdmissionError"
    assert made.view().pods["large"].reason == "OutOfcpu"

    odd = replace(IN_CLUSTER, policy_options=FULL)
    made = node(Apply(guaranteed("odd", 1)), config=odd, release="1.26")
    before = made.view().pods["odd"]
    do(made, Stop(), Configure(IN_CLUSTER), Start())
    assert made.view().pods["odd"] == before
    assert made.view().assignments == {"odd": {"c": CPUSet([1])}}
    assert made.view().cpusets == {}


def test_a_static_pod_that_was_refused_as_it_ran_may_have_ended_for_good() -> None:
    """Its containers were ended, and nobody starts them again where its policy says so: a real
    1.36.4 shows it as ended. No container of a pod that never ran has ended."""
    never = replace(guaranteed("odd", 1), restart_policy=RestartPolicy.NEVER)
    ran = node(Apply(never), Stop(), Configure(WHOLE_CORES), Start())
    assert ran.view().pods["odd"].phase is Phase.REJECTED
    do(ran, Stop(), Start(), Stop(), Configure(CONFIG))  # refused once more
    with pytest.raises(NotModelled, match="odd, refused while it ran"):
        ran.do(Start())
    fresh = node(Apply(never), Stop(), Configure(CONFIG), Start(), config=WHOLE_CORES)
    assert fresh.view().pods["odd"].phase is Phase.RUNNING


def test_a_refused_pod_has_a_class_in_1_26_if_it_has_containers() -> None:
    """Also at a later start, when they have ended before (seen on 1.26.15): chance decides, as it
    names the class if it hears of the pod before it hears of its containers. A reboot takes them
    away."""
    odd = (Apply(guaranteed("odd", 1)), Stop(), Configure(WHOLE_CORES), Start())
    made = node(*odd, release="1.26")
    assert made.view().pods["odd"].qos == "Guaranteed"
    for steps, qos in (((Stop(), Start()), "Guaranteed"), ((Stop(), Reboot(), Start()), "")):
        seen = do(made, *steps).pods["odd"]
        assert (seen.phase, seen.qos) == (Phase.REJECTED, qos)
    again = node(*odd, Stop(), Start(), release="1.26")
    shown = again.view()
    without = {"odd": replace(shown.pods["odd"], qos="")}
    assert again.follow(replace(shown, pods=without))


def test_which_of_several_pods_was_admitted_last_is_decided_by_chance() -> None:
    """Up to 1.31 it keeps its CPUs when it is deleted, until another pod is admitted; half of the
    kubelets that start have admitted the one last, half the other (seen on 1.26.15)."""
    steps = (Apply(guaranteed("a", 2)), Apply(guaranteed("b", 2)), Stop(), Start())
    assert node(*steps, Delete("a"), release="1.32").outcomes == 1
    made = node(*steps, release="1.26")
    before = made.view()
    made.do(Delete("a"))
    assert set(made.view().assignments) == {"b"}
    held = {"assignments": before.assignments, "shared_pool": before.shared_pool}
    kept = replace(made.view(), **held, state_file=before.state_file)  # type: ignore[arg-type]
    assert made.follow(kept)
    made.do(Apply(best_effort("passing")))
    assert set(made.view().assignments) == {"b"}


@pytest.mark.parametrize("release", ["1.26", "1.32"])
def test_cpus_of_a_pod_that_has_just_ended_may_not_be_free(release: str) -> None:
    """Up to 1.31, where it was admitted last, it counts for about a second more."""
    never = replace(guaranteed("a", 2), restart_policy=RestartPolicy.NEVER)
    made = node(Apply(never), KillContainer("a", "c"), Apply(best_effort("s")), release=release)
    made.do(Apply(guaranteed("b", 2)))  # after another it is known
    made = node(Apply(never), KillContainer("a", "c"), release=release)
    not_yet = pytest.raises(NotModelled, match="CPUs of the pod before it may not be free yet")
    with not_yet if release == "1.26" else nullcontext():
        made.do(Apply(guaranteed("b", 2)))


def test_1_32_with_the_gate_of_resizes_overlooks_what_pods_requested() -> None:
    """Its static policy reads the request of a container that has a status in that status, which
    lacks it: pods keep their CPUs, and what is counted is not known. In 1.33 and 1.34 the status
    may lack it."""
    config = replace(IN_CLUSTER, feature_gates=RESIZES)
    steps = (Apply(guaranteed("a", 2)), Stop(), Start(), AskMetrics())
    for release, counted in (("1.31", True), ("1.32", False), ("1.34", False), ("1.35", True)):
        view = node(*steps, config=config, release=release).view()
        assert (REQUESTS in (view.metrics or {})) is counted
        assert set(view.assignments) == {"a"}


@pytest.mark.parametrize(
    ("more", "lost"),
    [
        ({}, [RemoveState()]),
        # It may also decide who is refused.
        ({"policy_options": FULL, "topology_manager_policy": "best-effort"}, []),
        ({"topology_manager_scope": "pod", "topology_manager_policy": "best-effort"}, []),
    ],
)
def test_a_pod_whose_request_1_32_overlooks_and_that_needs_cpus(
    more: dict[str, Any], lost: list[Step]
) -> None:
    config = replace(IN_CLUSTER, feature_gates=RESIZES, **more)
    made = node(Apply(guaranteed("a", 2)), Stop(), *lost, config=config, release="1.32")
    with pytest.raises(NotModelled, match="pod a needs CPUs, and its request is overlooked"):
        made.do(Start())


def test_a_pod_of_an_api_server_that_is_never_restarted_may_end_with_a_reboot() -> None:
    """If the API server has heard by then that it runs (seen on 1.32.2 and 1.36.4)."""
    reboot = (Stop(), Reboot(), Start())
    never = replace(guaranteed("b", 1), restart_policy=RestartPolicy.NEVER)
    assert node(Apply(guaranteed("a", 1)), *reboot, config=IN_CLUSTER).view().running
    assert node(Apply(never), *reboot).view().running
    with pytest.raises(NotModelled, match="pod b, refused while it ran, or gone with a reboot"):
        node(Apply(never), *reboot, config=IN_CLUSTER)


def test_pods_that_come_at_once_get_what_they_would_one_after_the_other() -> None:
    """In the order of the step; of static pods alone it is known."""
    pods = (guaranteed("b", 2), guaranteed("a", 1), best_effort("idle"))
    together, in_turn = node(ApplyTogether(pods)), node(*map(Apply, pods))
    assert together.view() == in_turn.view()
    assert together.view().cpusets["idle"] == {"c": together.view().shared_pool}
    with pytest.raises(NotModelled, match="from an API server"):
        node(ApplyTogether(pods), config=IN_CLUSTER)
    with pytest.raises(IllegalStep, match="1 pods"):
        node(ApplyTogether(pods[:1]))
    with pytest.raises(IllegalStep, match="pod a is in place"):
        together.do(ApplyTogether((guaranteed("c", 1), guaranteed("a", 1))))
    assert "c" not in together.view().pods


def test_a_container_that_is_created_slowly_starts_on_the_pool_of_before() -> None:
    """The round after that sends it the smaller one. Of a pod's containers the first is slow."""
    both = Pod("shared", (Container("c1"), Container("c2")))
    made, before = node(), node().view().shared_pool
    view = do(made, ApplyTogether((both, guaranteed("a", 2)), CREATE))
    assert {name: one.started_on for name, one in view.asked["shared"].items()} == {
        "c1": before,
        "c2": view.shared_pool,
    }
    assert view == node(Apply(both), Apply(guaranteed("a", 2))).view()
    view = do(made, KillContainer("shared", "c1"))
    assert view.asked["shared"]["c1"].started_on == view.shared_pool


def test_only_a_slow_update_itself_has_the_pool_of_before() -> None:
    """The round reads the pool for each container, and the next one repairs what was slow."""
    both = Pod("shared", (Container("c1"), Container("c2")))
    pods = (guaranteed("a", 1), guaranteed("b", 2))
    made = node(Apply(both))
    view = do(made, ApplyTogether(pods, UPDATE))
    assert view == node(Apply(both), *map(Apply, pods)).view()
    before, now = view.shared_pool | view.assignments["b"]["c"], view.shared_pool
    sent = {name: one.sent for name, one in view.asked["shared"].items()}
    assert (sent["c1"][-2:], sent["c2"][1:]) == ((before, now), (now,))
    assert len(sent["c1"]) == view.asked["shared"]["c1"].updates
    alone = node(Apply(best_effort("shared")))
    sent_alone = do(alone, ApplyTogether(pods, UPDATE)).asked["shared"]["c"].sent
    assert sent_alone[1:] == (before, now)


def test_where_a_slow_update_is_not_modelled() -> None:
    pods = (guaranteed("a", 1), guaranteed("b", 2))
    with pytest.raises(NotModelled, match="nothing to update"):
        node(ApplyTogether(pods, UPDATE))
    made = node(Apply(best_effort("shared")), FailUpdates(1))
    with pytest.raises(NotModelled, match="a slow UpdateContainerResources"):
        made.do(ApplyTogether(pods, UPDATE))
    strict = replace(STRICT, reserved_system_cpus=CPUSet([0]))
    with pytest.raises(NotModelled, match="an empty shared pool"):
        node(
            Apply(best_effort("shared")),
            ApplyTogether((guaranteed("a", 1), guaranteed("b", 6)), UPDATE),
            config=strict,
        )


def test_where_a_slow_runtime_is_not_modelled() -> None:
    pods = (best_effort("shared"), guaranteed("a", 2))
    with pytest.raises(IllegalStep, match="a slow StopContainer"):
        node(ApplyTogether(pods, "StopContainer"))
    with pytest.raises(NotModelled, match="a slow CreateContainer by release"):
        node(ApplyTogether(pods, CREATE), release="1.22")
    with pytest.raises(NotModelled, match="pod large, which is refused"):
        node(ApplyTogether((guaranteed("large", 100), *pods), CREATE))
    refused = node(ApplyTogether((*pods, guaranteed("large", 100)), CREATE)).view()
    assert refused.pods["large"].phase is Phase.REJECTED


def test_updates_that_are_refused_for_ever_leave_every_container_as_it_was() -> None:
    made = node(Apply(best_effort("shared")), FailUpdates(100_000))
    before = made.view()
    for step in (Apply(guaranteed("a", 2)), AwaitReconcile(), Apply(guaranteed("b", 1))):
        view = do(made, step)
        assert view.cpusets["shared"] == before.cpusets["shared"]
        assert view.asked["shared"] == before.asked["shared"]
    view = do(made, FailUpdates(0))  # the next round comes by itself
    assert view.cpusets["shared"] == {"c": view.shared_pool}


@pytest.mark.parametrize("times", [3, 100_000])
def test_updates_of_one_container_are_refused_and_others_follow(times: int) -> None:
    shared = Pod("shared", (Container("c1"), Container("c2")))
    made = node(Apply(shared), Apply(guaranteed("a", 2)), FailUpdates(times, "c1"))
    before = made.view().cpusets["shared"]["c1"]
    view = do(made, Delete("a"))
    refused_for_ever = times > 3
    assert view.cpusets["shared"]["c2"] == view.shared_pool
    assert view.cpusets["shared"]["c1"] == (before if refused_for_ever else view.shared_pool)
    assert FailUpdates(times, "c1").sentence.endswith("updates of container c1")


def test_a_state_file_that_cannot_be_written_is_behind_until_the_next_write() -> None:
    """A pod costs two writes of the whole state: one that fails hides nothing, two hide the pod."""
    shared = best_effort("shared")
    written, once = (
        do(node(Apply(shared), *failing), Apply(guaranteed("a", 2)))
        for failing in ((), (FailWrites(1),))
    )
    assert (once.state_file, once.cpusets) == (written.state_file, written.cpusets)
    assert written.versions is not None
    assert once.versions == written.versions[1:]
    made = node(Apply(shared), FailWrites(2))
    before = made.view().state_file
    view = do(made, Apply(guaranteed("a", 2)))
    assert (view.state_file, view.cpusets, view.versions) == (before, written.cpusets, ())
    view = do(made, Apply(guaranteed("b", 1)))
    assert view.assignments["a"]["c"] == view.cpusets["a"]["c"] == written.cpusets["a"]["c"]


def test_a_kubelet_that_starts_can_write_again() -> None:
    """It knows what the file says, and admits the pods over it."""
    made = node(Apply(guaranteed("a", 2)), FailWrites(FOR_EVER), Apply(guaranteed("b", 1)))
    own = made.view().cpusets["b"]["c"]
    assert "b" not in made.view().assignments
    view = do(made, Stop(kill=True), Start())
    assert view.assignments["b"]["c"] == view.cpusets["b"]["c"] == own


def test_where_failing_writes_are_not_modelled() -> None:
    with pytest.raises(NotModelled, match="before a kill"):
        node(KillAtRename(1), FailWrites(1))
    with pytest.raises(NotModelled, match="while writes fail"):
        node(FailWrites(1), KillAtRename(1))
    with pytest.raises(IllegalStep, match="does not run"):
        node(Stop(), FailWrites(1))


def test_a_refused_update_is_not_sent_again_once_the_former_cpuset_is_right() -> None:
    """What was sent before it still counts as sent."""
    made = node(Apply(best_effort("shared")), AwaitReconcile(), FailUpdates(100_000))
    sent = made.view().asked["shared"]["c"].updates
    view = do(made, Apply(guaranteed("a", 2)), Delete("a"), FailUpdates(0), AwaitReconcile())
    assert view.asked["shared"]["c"].updates == sent


def test_a_kubelet_that_is_killed_at_a_write_leaves_the_memory_as_it_was_then() -> None:
    """The memory manager has forgotten the refused pod before the CPU manager writes."""
    config = replace(
        CONFIG,
        topology_manager_policy="best-effort",
        topology_manager_scope="pod",
        memory_manager_policy="Static",
        reserved_memory={0: "8Mi", 1: "8Mi"},
    )

    def container(name: str, cpus: str, memory: str) -> Container:
        return Container(name, cpus, cpus, memory, memory)

    parts = [("a", "1", "32Mi"), ("b", "15", "640Mi"), ("c", "15", "640Mi")]
    large = Pod("pod", tuple(container(*part) for part in parts))
    steps = (Apply(large), KillAtRename(1), Apply(guaranteed("late", 1)), Start())
    pods = node(*steps, config=config, machine="2s-2n-8c-smt2-1024mib").view().pods
    assert pods["late"].phase is Phase.RUNNING
    assert "[memorymanager] preferred hint violates" in pods["pod"].message


WITH_DEVICE = replace(exclusive("c", 1), devices=(("example.com/device", 1),))


def with_devices() -> tuple[Apply, Apply]:
    """Pods of which the init container, and the app container, requests a device."""
    init = [replace(WITH_DEVICE, name="i", kind=Kind.INIT), exclusive("c", 1)]
    return Apply(guaranteed_of("a", init)), Apply(guaranteed_of("b", [WITH_DEVICE]))


@pytest.mark.parametrize("release", ["1.26", "1.30"])
@pytest.mark.parametrize(
    ("config", "reason", "alone", "beside"),
    [
        (CONFIG, "UnexpectedAdmissionError", "resources: [(res: example.com/device, q: 1), ]",
         "[(res: example.com/device, q: 2), ]"),
        (IN_CLUSTER, "OutOfexample.com/device",
         "example.com/device, requested: 1, used: 0, capacity: 0",
         "requested: 1, used: 1, capacity: 0"),
    ],
)  # fmt: skip
def test_a_missing_device_of_an_init_container_weighed_up_to_1_30(
    config: KubeletConfig, reason: str, alone: str, beside: str, release: str
) -> None:
    """And that of an app container did not. Those of other pods count, too."""
    init, app = with_devices()
    pods = node(init, app, config=config, release=release).view().pods
    assert pods["a"].reason == reason
    assert pods["a"].message.endswith(alone)
    assert pods["b"].phase is Phase.RUNNING
    both = node(app, init, config=config, release=release).view().pods
    assert both["a"].message.endswith(beside)
    assert node(init, config=config, release="1.31").view().pods["a"].phase is Phase.RUNNING


@pytest.mark.parametrize("end", ["killed", "pod applied again"])
@pytest.mark.parametrize(
    ("release", "known"), [("1.26.15", False), ("1.35", False), ("1.36", True)]
)
def test_a_restarted_container_keeps_its_devices_from_1_36_on(
    release: str, known: bool, end: str
) -> None:
    """Before, Go's map order says whether the kubelet takes it for the one that has ended, which
    may be one of a pod with the same uid."""
    devices = RegisterDevices("example.com/device", (Device("d0"),))
    pod = Apply(guaranteed_of("a", [WITH_DEVICE]))
    ends = [KillContainer("a", "c")] if end == "killed" else [Delete("a"), pod]
    made = node(devices, pod, *ends, Stop(), release=release)
    if known:
        assert do(made, Start()).pods["a"].phase is Phase.RUNNING
    else:
        with pytest.raises(NotModelled, match="restarted"):
            made.do(Start())


@pytest.mark.parametrize(
    ("release", "refusal"),
    [
        ("1.26", "unknown method Get for service v1.PodResourcesLister"),
        ("1.27", "PodResources API Get method disabled"),
    ],
)
def test_up_to_1_26_the_socket_knows_no_get(release: str, refusal: str) -> None:
    made = node(Apply(guaranteed("a", 1)), AskPodResources("a"), release=release)
    assert made.view().pod_resources_error == refusal


def test_a_quota_from_elsewhere_is_of_the_period_that_there_was() -> None:
    gates = {"CustomCPUCFSQuotaPeriod": True}
    config = replace(CONFIG, cpu_cfs_quota_period=10_000, feature_gates=gates)
    made = node(Apply(best_effort("a")), TamperQuota("a", "c", 5_000), config=config)
    assert made.view().cfs["a"]["c"].period == 10_000


def test_a_refused_pod_that_ran_may_count_for_about_a_second() -> None:
    """Its worker ends, and the kubelet takes it for active until then, whose containers are gone
    already (seen on 1.36.4 and 1.37.0): another pod may find no room."""
    steps = (Apply(guaranteed("large", 6)), Stop(), Start())
    made = node(*steps, config=WHOLE_CORES)
    before = made.view()
    assert before.pods["large"].reason == "SMTAlignmentError"
    after = do(made, Apply(guaranteed("b", 2)))
    assert after.pods["b"].phase is Phase.RUNNING
    assert made.outcomes == 1  # the other is none for a search of the model
    lacking = node(Apply(burstable("b", request="8", limit="8"))).view().pods["b"]  # as 6 and 2 do
    refused = replace(lacking, qos="Guaranteed")
    versions = (*(after.versions or ())[:1], Version(before.shared_pool, CPUSet()))
    assert made.follow(replace(before, pods={**before.pods, "b": refused}, versions=versions))
    killed = node(*steps, KillAtRename(1), Apply(guaranteed("b", 2)), config=WHOLE_CORES)
    assert not killed.view().running  # it is killed before either answer
    assert made.view().pods["b"] == refused


def test_a_pod_whose_sidecar_is_stopped_may_count_for_about_a_second() -> None:
    """Its last app container has ended, so it has ended as well (seen on 1.36.4)."""
    containers = [Container("side", kind=Kind.SIDECAR), exclusive("c", 2)]
    pod = replace(guaranteed_of("a", containers), restart_policy=RestartPolicy.NEVER)
    made = node(Apply(pod), KillContainer("a", "c", exit_code=0))
    before = made.view()
    assert before.pods["a"].phase is Phase.ENDED
    made.do(Apply(guaranteed("b", 5)))
    assert made.view().pods["b"].phase is Phase.RUNNING
    lacking = node(Apply(burstable("b", request="7", limit="7"))).view().pods["b"]
    refused = replace(lacking, qos="Guaranteed")
    taken = (made.view().versions or ())[:1]
    versions = (*taken, Version(before.shared_pool, CPUSet()))
    assert made.follow(replace(before, pods={**before.pods, "b": refused}, versions=versions))


THREE = RegisterDevices("nic", (Device("d0"), Device("d1"), Device("d2")))


def _beside_its_sidecar(*steps: Step, config: KubeletConfig = CONFIG) -> Node:
    """Pod a, which holds both devices, has ended but for its sidecar; then ``steps``."""
    app = Container("c", "250m", devices=(("nic", 2),))
    pod = Pod("a", (Container("side", kind=Kind.SIDECAR), app), restart_policy=RestartPolicy.NEVER)
    devices = RegisterDevices("nic", (Device("d0"), Device("d1")))
    ended = KillContainer("a", "c", exit_code=0)
    return node(devices, Apply(pod), ended, *steps, config=config)


def test_a_pod_whose_sidecar_is_stopped_may_hold_its_devices_for_about_a_second() -> None:
    """No view shows who holds them, so nothing waits for it (seen on 1.36.4 and 1.37.0)."""
    made = _beside_its_sidecar()
    before = made.view()
    made.do(Apply(Pod("b", (Container("c", devices=(("nic", 2),)),))))
    assert made.view().pods["b"].phase is Phase.RUNNING
    text = (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
        "nic. Requested: 2, Available: 0, which is unexpected"
    )
    refused = PodView(Phase.REJECTED, "UnexpectedAdmissionError", text, "BestEffort")
    assert made.follow(replace(before, pods={**before.pods, "b": refused}))
    assert do(made, Delete("a"), Delete("b")).pods == {}


def test_a_pod_that_ends_may_be_gone_for_the_managers_and_not_for_the_node_predicates() -> None:
    """The kubelet lists the active pods for these before its managers ask for them (seen on
    1.32.2)."""
    made = _beside_its_sidecar()
    before = made.view()
    made.do(Apply(Pod("b", (Container("c", devices=(("nic", 2),)),))))
    text = (
        "Pod was rejected: Unexpected error while attempting to recover from admission failure: "
        "preemption: error finding a set of pods to preempt: no set of running pods found to "
        "reclaim resources: [(res: nic, q: 2), ]"
    )
    refused = PodView(Phase.REJECTED, "UnexpectedAdmissionError", text, "BestEffort")
    assert made.follow(replace(before, pods={**before.pods, "b": refused}))


def test_which_devices_a_pod_gets_beside_one_that_ends_is_not_known() -> None:
    """Any that are free by then."""
    with pytest.raises(NotModelled, match="devices of pod b beside pods that still end"):
        _beside_its_sidecar(THREE, Apply(Pod("b", (Container("c", devices=(("nic", 1),)),))))
    shared = _beside_its_sidecar(THREE, Apply(guaranteed("b", 1)))
    assert shared.view().pods["b"].phase is Phase.RUNNING


def _of_memory(name: str, mebibytes: int, *more: Container) -> Pod:
    one = Container("c", "250m", "250m", f"{mebibytes}Mi", f"{mebibytes}Mi")
    return Pod(name, (*more, one), restart_policy=RestartPolicy.NEVER)


def test_memory_of_a_pod_that_ends_is_seen_by_where_the_next_one_has_its_own() -> None:
    """A pod whose sidecar is stopped holds its memory for about a second more. A pod that lies in
    the same NUMA node either way does not show it, so what is free by then is not known (seen on
    1.26.15)."""
    config = replace(
        CONFIG, memory_manager_policy="Static", reserved_memory=dict.fromkeys((0, 1), "1Mi")
    )
    side = Container("side", "100m", "100m", "40Mi", "40Mi", Kind.SIDECAR)
    ended = Apply(_of_memory("a", 40, side)), KillContainer("a", "c", exit_code=0)
    machine = "2s-2n-8c-smt2-128mib"
    made = node(*ended, Apply(_of_memory("b", 100)), config=config, machine=machine)
    free = made.view()
    assert free.asked["b"]["c"].mems == CPUSet([0])
    there = {"b": {"c": replace(free.asked["b"]["c"], mems=CPUSet([1]))}}
    held = replace(free, asked={**free.asked, **there})
    assert made.follow(held)
    assert made.view().asked["b"]["c"].mems == CPUSet([1])
    later = node(*ended, Apply(_of_memory("b", 40)), config=config, machine=machine)
    assert later.view().pods["b"].phase is Phase.RUNNING
    later.do(Apply(best_effort("none")))
    for step in (AwaitReconcile(), KillAtRename(1)):  # also as it is killed on the way
        later.do(step)
        with pytest.raises(NotModelled, match="memory beside that of pods that still end"):
            later.do(Apply(_of_memory("c", 40)))


def test_the_memory_of_a_refused_pod_is_not_known_to_the_next_kubelet() -> None:
    """It may be in the file that the former has left, unless a pod came a second later (seen on
    1.36.4)."""
    config = replace(CONFIG, memory_manager_policy="Static", reserved_memory={0: "1Mi"})
    app = Container("c", "1", "1", "100Mi", "100Mi")
    one = Pod("a", (replace(app, name="i", kind=Kind.INIT), app))
    refused = Apply(one), Stop(), Start()
    made = node(*refused, config=config, machine="1s-1n-4c-smt2-128mib")
    assert made.view().pods["a"].phase is Phase.REJECTED
    do(made, Apply(best_effort("b")), Stop(), Start())
    phases = [kubelet.pods["a"].phase for kubelet, _ in made._branches]
    assert phases == [Phase.RUNNING, Phase.REJECTED]


def test_a_pod_that_ends_may_hold_its_device_beside_the_second_one_too() -> None:
    """It is refused at a start, because its plugin has not come yet. A pod that is refused either
    way does not show whether it still holds its device then (seen on 1.32.2)."""
    devices = RegisterDevices("nic", (Device("d0"), Device("d1")))
    has_one = Container("c", devices=(("nic", 1),))
    init = replace(has_one, name="i", kind=Kind.INIT)
    one = Pod("a", (init, has_one), restart_policy=RestartPolicy.NEVER)
    aligned = replace(CONFIG, topology_manager_policy="restricted")
    made = node(devices, Apply(one), Stop(), Start(), devices, config=aligned, release="1.32")
    assert made.view().pods["a"].phase is Phase.REJECTED
    other = replace(one, name="b", uid="")
    with pytest.raises(NotModelled, match="devices of pod b beside pods that still end"):
        made.do(Apply(other))
    made.do(Apply(guaranteed("large", 7)))
    assert made.view().pods["large"].phase is Phase.REJECTED
    with pytest.raises(NotModelled, match="devices of pod b beside pods that still end"):
        made.do(Apply(other))
    view = do(made, Apply(guaranteed("plain", 1)))
    assert view.pods["plain"].phase is Phase.RUNNING


def test_what_is_counted_beside_a_pod_that_ends_is_not_known() -> None:
    """Pod b is refused in one way, though one or three of its containers had devices before (seen
    on 1.36.4)."""
    one_each = tuple(Container(name, devices=(("nic", 1),)) for name in "cdef")
    aligned = replace(CONFIG, topology_manager_policy="single-numa-node")
    steps = (THREE, Apply(Pod("b", one_each)), AskMetrics())
    beside = _beside_its_sidecar(*steps, config=aligned).view()
    assert beside.pods["b"].phase is Phase.REJECTED
    assert ALIGNED_CONTAINERS not in (beside.metrics or {})
    alone = node(THREE, Apply(Pod("b", one_each)), AskMetrics(), config=aligned).view()
    assert ALIGNED_CONTAINERS in (alone.metrics or {})


@pytest.mark.parametrize("refused", [("large",), ("large", "late")])
def test_what_a_start_counts_is_known_where_its_order_does_not_matter(
    refused: tuple[str, ...],
) -> None:
    """Memory for a third pod is lacking, so the kubelet refuses it after it has taken CPUs. Those
    of the large one have one uncore cache if the other is refused before it (seen on 1.34.0)."""
    config = KubeletConfig(
        reserved_system_cpus=CPUSet([0, 1, 8, 9]),
        memory_manager_policy="Static",
        reserved_memory=dict.fromkeys((0, 1), "1Mi"),
    )
    cpus = {"held": "1", "other": "1", "large": "6", "late": "1"}
    pods = [
        Pod(name, (Container("c", cpus[name], cpus[name], "100Mi", "100Mi"),))
        for name in ("held", "other", *refused)
    ]
    made = node(*map(Apply, pods), config=config, machine="2s-2n-8c-smt2-128mib")
    view = do(made, Stop(), Start(), AskMetrics())
    assert {view.pods[name].phase for name in refused} == {Phase.REJECTED}
    assert (IN_ONE_CACHE in (view.metrics or {})) is (len(refused) == 1)


def elsewhere(view: View, cpusets: Mapping[str, CPUSet | None]) -> View:
    """The view with containers of pod shared on other CPUs, which one more update gave them."""
    before, asked = view.cpusets["shared"], dict(view.asked["shared"])
    for name, cpus in cpusets.items():
        if cpus != before[name]:
            asked[name] = replace(asked[name], updates=asked[name].updates + 1)
    shown = {**view.cpusets, "shared": {**before, **cpusets}}
    return replace(view, cpusets=shown, asked={**view.asked, "shared": asked})


def test_a_round_may_come_before_the_last_cpus_of_the_pool_are_taken() -> None:
    """A shared container stays where that round put it, as no round has CPUs for it any more."""
    made = node(Apply(best_effort("shared")), Apply(guaranteed("all", 4, 2)), config=STRICT)
    view = made.view()
    assert (view.shared_pool, str(view.cpusets["shared"]["c"])) == (CPUSet(), "1-3,5-7")
    left = view.cpusets["all"]["c2"]
    assert made.follow(elsewhere(view, {"c": left}))
    assert made.view().cpusets["shared"]["c"] == left
    assert not made.follow(elsewhere(view, {"c": CPUSet([1])}))


def test_a_round_on_the_way_leaves_each_shared_container_what_is_left_by_then() -> None:
    """In their order: a later one of the pod never has more than one before it (seen on 1.36.4)."""
    shared = Pod("shared", (Container("one"), Container("two")))
    steps = (Apply(shared), Apply(guaranteed("all", 2, 2, 2)))

    def follows(one: str, two: str) -> bool:
        made = node(*steps, config=STRICT)
        seen = {"one": CPUSet.parse(one), "two": CPUSet.parse(two)}
        return made.follow(elsewhere(made.view(), seen))

    assert follows("1-3,5-7", "1-3,5-7")
    assert follows("2-3,6-7", "3,7")
    assert follows("3,7", "1-3,5-7")
    assert not follows("3,7", "2-3,6-7")
    assert not follows("1-3,5-7", "3,7")


def test_of_many_shared_containers_a_round_leaves_some_on_the_same_cpus() -> None:
    shared = Pod("shared", tuple(Container(f"c{number:02}") for number in range(12)))
    made = node(Apply(shared), Apply(guaranteed("all", 1, 1, 1, 1, 1, 1)), config=STRICT)
    view = made.view()
    left = view.cpusets["all"]["c6"]
    assert made.follow(elsewhere(view, dict.fromkeys(("c00", "c01"), left)))


@pytest.mark.parametrize("release", ["1.26", "1.36"])
def test_a_pod_may_start_before_the_cpus_of_a_refused_one_return(release: str) -> None:
    """Which ran until then (seen on 1.26.15, where a round removed its entry too late)."""
    steps = (Apply(guaranteed("odd", 1)), Stop(), Configure(WHOLE_CORES), Start())
    made = node(*steps, Apply(best_effort("b")), release=release)
    assert made.view().pods["odd"].phase is Phase.REJECTED
    assert made.view().asked["b"]["c"].raced
    assert not node(Apply(best_effort("b")), release=release).view().asked["b"]["c"].raced


def test_a_pod_of_policy_never_gets_no_second_sandbox() -> None:
    """Whatever the policy of its containers: a kubelet 1.36.4 that had refused it tries for ever
    to stop it."""
    own = replace(exclusive("c", 8), restart_policy=RestartPolicy.ALWAYS)
    never = replace(guaranteed_of("a", [own]), restart_policy=RestartPolicy.NEVER)
    config = replace(WHOLE_CORES, reserved_system_cpus=CPUSet([0, 8]))
    made = node(Apply(never), Stop(), Start(), Stop(), config=config, machine=TWO_NODES)
    with pytest.raises(NotModelled, match="pod a, refused while it ran"):
        made.do(Start())


def test_which_entry_goes_at_which_write_is_not_known() -> None:
    """A map has them."""
    two = guaranteed_of("two", [exclusive("c", 1), exclusive("d", 1)])
    made = node(Apply(two), Apply(guaranteed("one", 1)), KillAtRename(1))
    with pytest.raises(NotModelled, match="which of several entries goes at which write"):
        made.do(Delete("two"))
    made.do(Delete("one"))
    assert not made.view().running


def test_a_pod_that_was_deleted_as_the_kubelet_was_killed_may_be_admitted_again() -> None:
    """An API server has it until a kubelet says that it has ended; a manifest is gone."""
    for config, known in ((CONFIG, True), (IN_CLUSTER, False)):
        made = node(Apply(guaranteed("a", 1)), KillAtRename(1), Delete("a"), Start(), config=config)
        made.do(AskMetrics())
        assert (REQUESTS in (made.view().metrics or {})) is known


@pytest.mark.parametrize(("release", "known"), [("1.32", False), ("1.36", True)])
def test_1_32_with_the_gate_of_resizes_needs_cfs_quotas(release: str, known: bool) -> None:
    config = replace(CONFIG, cpu_cfs_quota=False, feature_gates=RESIZES)
    with nullcontext() if known else pytest.raises(NotModelled, match="cpuCFSQuota false"):
        node(config=config, release=release)


def test_1_32_with_the_gate_of_resizes_may_restore_a_quota() -> None:
    config = replace(CONFIG, feature_gates=RESIZES)
    half, tamper = burstable("a", request="1", limit="2"), TamperQuota("a", "c", 50_000)
    for release, given in (("1.32", CONFIG), ("1.33", config)):
        made = node(Apply(half), tamper, config=given, release=release)
        assert made.view().pods["a"].phase is Phase.RUNNING
    with pytest.raises(NotModelled, match=r"TamperQuota by release 1\.32 with"):
        node(Apply(half), tamper, config=config, release="1.32")


# -- containers that end while the kubelet is down -------------------------------------------------


def test_a_container_that_ends_beside_no_kubelet_is_created_again_on_its_cpus() -> None:
    """Seen on 1.26.15, 1.32.2, 1.36.4 and 1.37.0."""
    made = node(Apply(guaranteed("a", 2)), Apply(best_effort("s")))
    before = made.view()
    ended = do(made, Stop(), KillContainer("a", "c"), KillContainer("s", "c"))
    assert ended.cpusets == {}
    after = do(made, Start())
    assert (after.cpusets, after.assignments) == (before.cpusets, before.assignments)
    assert after.asked["a"]["c"].id != before.asked["a"]["c"].id


@pytest.mark.parametrize(
    ("policy", "code", "known"),
    [("Always", 0, True), ("OnFailure", 1, True), ("OnFailure", 0, False), ("Never", 1, False)],
)
def test_it_is_not_known_what_follows_if_no_kubelet_creates_it_again(
    policy: str, code: int, known: bool
) -> None:
    pod = replace(guaranteed("a", 2), restart_policy=RestartPolicy(policy))
    made = node(Apply(pod), Stop())
    with nullcontext() if known else pytest.raises(NotModelled, match="while the kubelet is down"):
        made.do(KillContainer("a", "c", code))


# -- a restart policy of its own, which outranks the pod's, and rules that bring one ---------------


def _node(*codes: int) -> Node:
    one = Pod("a", (replace(exclusive("c", 2), restarts_all_on=codes),))
    return booted(Apply(one), config=KubeletConfig(system_reserved="1"), machine=FOUR)


@pytest.mark.parametrize("code", [0, 1, 137])
def test_an_exit_code_without_a_rule_ends_the_container(code: int) -> None:
    """The policy of its own is Never, whatever the pod's is (seen on 1.36.4)."""
    view = do(_node(42), KillContainer("a", "c", code))
    assert (view.pods["a"].phase, view.assignments) == (Phase.ENDED, {})


@pytest.mark.parametrize(("own", "code"), [("Always", 0), ("Always", 137), ("OnFailure", 1)])
def test_its_own_policy_outranks_a_pods_that_never_restarts(own: str, code: int) -> None:
    """The other way round it is recorded (``containers/own-restart-policy-decides``)."""
    container = replace(exclusive("c", 1), restart_policy=RestartPolicy(own))
    pod = Pod("b", (container,), restart_policy=RestartPolicy.NEVER)
    view = do(_node(), Apply(pod), KillContainer("b", "c", code))
    assert view.pods["b"].phase is Phase.RUNNING


@pytest.mark.parametrize("qos", ["Guaranteed", ""])
def test_chance_decides_whether_a_refused_pod_names_its_class(qos: str) -> None:
    """Its container ended while the kubelet was down (seen on 1.26.15). What it held is free."""
    wanting = replace(exclusive("c", 1), devices=(("nic", 1),))
    node = booted(
        RegisterDevices("nic", (Device("d0"),)),
        Apply(guaranteed_of("a", [wanting])),
        config=CONFIG,
        release="1.26",
    )
    do(node, Stop(), KillContainer("a", "c", 137), Start())
    view = node.view()
    seen = replace(view, pods={"a": replace(view.pods["a"], qos=qos)})
    assert node.follow(seen)
    assert node.view() == seen
    assert view.pods["a"].reason == "UnexpectedAdmissionError"
