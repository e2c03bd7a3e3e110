"""The node: what steps do, as a real 1.36.4 did it, and what it refuses. What the scenarios do is
held by their recordings (tests/conformance/test_recordings.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from reference import CPUSet, CPUTopology, IllegalStep, Node, NotModelled, StaticPolicy
from reference.cpumanager.policy import Policy
from reference.cpumanager.state.state_mem import State
from reference.errors import StateError
from reference.releases import NEWEST, AnyRelease
from reference.steps import (
    Apply,
    AwaitReconcile,
    Configure,
    Container,
    Delete,
    KillContainer,
    Kind,
    KubeletConfig,
    Pod,
    Reboot,
    RemoveState,
    Start,
    Step,
    Stop,
    Tamper,
    WriteState,
)
from reference.view import Phase, PodView, View
from tests.reference import nodes
from tests.reference.nodes import EIGHT, TWO_NODES, do, tree
from tests.support.pods import assignments, cpusets, pod

ONE = KubeletConfig(system_reserved="1")
node = partial(nodes.node, config=ONE)


def burstable(name: str, cpu: str) -> Pod:
    return Pod(name, (Container("c1", cpu),))


def test_a_first_start_and_two_pods() -> None:
    view = node(Start(), Apply(pod("a", "2", "1")), Apply(pod("b", "1500m"))).view()
    assert view.running
    assert assignments(view) == {"a": {"c1": "1,5", "c2": "4"}}
    assert str(view.shared_pool) == "0,2-3,6-7"
    assert cpusets(view) == {"a": {"c1": "1,5", "c2": "4"}, "b": {"c1": "0,2-3,6-7"}}
    assert view.pods == dict.fromkeys("ab", PodView(Phase.RUNNING, qos="Guaranteed"))


def test_a_pod_refused_is_tried_again_at_the_next_start() -> None:
    one = node(Start(), Apply(pod("a", "4")), Apply(pod("b", "4")))
    assert one.view().pods["b"].phase is Phase.REJECTED
    do(one, Delete("a"), AwaitReconcile(), Stop(), Start())
    assert assignments(one.view()) == {"b": {"c1": "1-2,5-6"}}


def test_cpus_of_a_pod_deleted_while_down_count_as_taken_at_the_start() -> None:
    one = node(Start(), Apply(pod("a", "4")), Stop(), Delete("a"))
    assert cpusets(one.view()) == {"a": {"c1": "1-2,5-6"}}
    assert assignments(one.view()) == {"a": {"c1": "1-2,5-6"}}
    view = do(one, Apply(pod("c", "4")), Start())
    assert view.pods["c"].phase is Phase.REJECTED
    assert view.cpusets == view.assignments == {}
    assert str(view.shared_pool) == "0-7"


def test_up_to_1_31_policy_none_does_not_look_at_the_cpus() -> None:
    """So a machine without any can still be started on; from 1.32 on it cannot
    (``cpu_manager.go``)."""
    error = "failed to run Kubelet: could not detect number of cpus"
    for release, said in (("1.31", ""), ("1.32", error), (NEWEST, error)):
        bare = Node(lambda _: {"proc/cpuinfo": ""}, "bare", KubeletConfig("none"), release=release)
        view = do(bare, Start())
        assert (view.running, view.error) == (not said, said)


def test_of_several_errors_the_node_knows_all() -> None:
    one = node(WriteState('{"policyName":"static","entries":{"x":"1","y":"2"}}'), Start())
    assert len(one.possible_errors) == 2
    assert one.view().error == one.possible_errors[0]


def test_a_cpuset_that_was_tampered_with_stays_until_the_pool_changes() -> None:
    one = node(Start(), Apply(pod("a", "2")), Apply(burstable("b", "1")))
    do(one, Tamper("a", "c1", CPUSet([7])), Tamper("b", "c1", CPUSet([7])), AwaitReconcile())
    assert cpusets(one.view()) == {"a": {"c1": "7"}, "b": {"c1": "7"}}
    one.do(Apply(pod("d", "1")))
    assert cpusets(one.view())["a"] == {"c1": "7"}
    assert cpusets(one.view())["b"] == {"c1": "0,2-3,6-7"}
    do(one, Stop(), Start())
    assert cpusets(one.view())["a"] == {"c1": "1,5"}


def test_a_uid_of_no_known_pod_stays_a_uid() -> None:
    text = '{"policyName":"static","defaultCpuSet":"0,2-7","entries":{"u":{"c":"1"}}}'
    one = node(WriteState(text))
    assert assignments(one.view()) == {"u": {"c": "1"}}
    one.do(Start())
    assert one.view().assignments == {}


# -- chance --------------------------------------------------------------------------------------


TWO_WITHOUT_A_FILE = (Apply(pod("a", "4")), Apply(pod("b", "3")), Start())


def test_a_start_follows_the_order_in_which_the_kubelet_took_the_pods() -> None:
    one = node(*TWO_WITHOUT_A_FILE)
    before = one.view()
    assert not one.follow(replace(before, shared_pool=CPUSet([1])))  # no order gives it
    assert (one.view(), one.outcomes) == (before, 2)
    assert assignments(one.view()) == {"a": {"c1": "1-2,5-6"}, "b": {"c1": "3-4,7"}}
    other = node(Start(), Apply(pod("b", "3")), Apply(pod("a", "4"))).view()
    assert assignments(other) != assignments(one.view())
    assert one.follow(other)
    assert one.view() == other
    one.do(Delete("b"))
    assert assignments(one.view())["a"] == assignments(other)["a"]


def test_where_order_does_not_matter_there_is_one_outcome() -> None:
    one = node(Apply(pod("a", "4")), Apply(pod("b", "500m")), Apply(burstable("c", "1")), Start())
    assert one.outcomes == 1
    do(one, Apply(pod("d", "1")), Stop(), Start())
    assert one.outcomes == 1
    # What does not fit any more is refused to whom comes last.
    do(one, Stop(), Apply(burstable("e", "2")), Start())
    assert one.outcomes > 1


def _refused_after_a_restart(release: str) -> Node:
    """Pod a lies over two NUMA nodes when restricted is configured; b holds a CPU."""
    reserved = KubeletConfig(reserved_system_cpus=CPUSet([0, 8]))
    aligned = replace(reserved, topology_manager_policy="best-effort")
    again = replace(reserved, topology_manager_policy="restricted")
    scatter = (Apply(pod("x", "6")), Apply(pod("b", "1")), Delete("x"), Apply(pod("y", "1")))
    steps = (Start(), *scatter, Apply(pod("a", "8")), Stop(), Configure(again), Start())
    return node(*steps, config=aligned, machine=TWO_NODES, release=release)


def test_a_pod_refused_at_a_start_is_stale_unless_it_came_last() -> None:
    """From 1.22 to 1.31 whoever was admitted last counts as active; kubelet 1.26.15 was seen to
    let go of the CPUs, by its random order."""
    one = _refused_after_a_restart("1.26")
    assert one.outcomes == 4  # and each with or without containers that run on
    held = one.view()
    cpus = CPUSet.parse("2-3,5-6,10-11,13-14")
    assert held.assignments["a"] == {"c1": cpus}
    freed = {name: named for name, named in held.assignments.items() if name != "a"}
    seen = replace(held, assignments=freed, shared_pool=held.shared_pool | cpus)
    assert not one.follow(seen)  # memory and file disagree
    newer = _refused_after_a_restart("1.32")
    assert one.follow(replace(seen, state_file=newer.view().state_file))
    assert newer.outcomes == 1
    assert "a" not in newer.view().assignments


@pytest.mark.parametrize(
    ("release", "qos"), [("1.20", ""), ("1.21", ""), ("1.22", "Guaranteed"), ("1.26", "Guaranteed")]
)
def test_a_refused_pod_whose_containers_are_ended_gets_a_whole_status(
    release: str, qos: str
) -> None:
    """Behaviour ``ENDED_PODS_HAVE_QOS``; seen on kubelets 1.20.15 and 1.26.15."""
    assert _refused_after_a_restart(release).view().pods["a"].qos == qos


def _running_on(ended: View) -> View:
    """With the container of pod a still on its CPUs."""
    return replace(
        ended,
        pods={**ended.pods, "a": replace(ended.pods["a"], qos="")},
        cpusets={**ended.cpusets, "a": {"c1": CPUSet.parse("2-3,5-6,10-11,13-14")}},
    )


@pytest.mark.parametrize("release", ["1.21", "1.22", "1.26", "1.27"])
def test_a_refused_pod_may_keep_its_containers(release: str) -> None:
    """Behaviour ``REFUSED_MAY_RUN_ON``, seen on 1.22.17: every other start, where somebody looks on
    all the time; and on 1.26.15. It counts as forgotten only once it is late."""
    one = _refused_after_a_restart(release)
    ended = one.view()
    kept = _running_on(ended)
    assert "a" not in ended.cpusets
    assert not one.follow(kept, late=False)
    assert one.view() == ended
    assert one.follow(kept) is (release in ("1.22", "1.26"))
    one.do(Delete("a"))
    assert "a" not in one.view().cpusets


def test_a_refused_pod_that_keeps_its_containers_loses_them_with_one() -> None:
    """Seen on 1.26.15: its worker hears that a container has ended, and ends the pod."""
    one = _refused_after_a_restart("1.26")
    assert one.follow(_running_on(one.view()))
    one.do(KillContainer("a", "c1"))
    assert "a" not in one.view().cpusets


def test_static_pods_come_in_the_order_of_their_manifests_begun_at_any_of_them() -> None:
    """1.36.4 and 1.37.0 were seen to; of more than 8 every order counts."""
    sizes = {"a": "1", "b": "3", "c": "2"}
    fresh = node(*(Apply(pod(one, sizes[one])) for one in "abc"), Start())
    assert fresh.outcomes == 3
    for order in ("abc", "bca", "cab"):
        by_hand = node(Start(), *(Apply(pod(one, sizes[one])) for one in order)).view()
        assert fresh.follow(by_hand)
    backwards = node(Start(), *(Apply(pod(one, sizes[one])) for one in "cba")).view()
    assert not fresh.follow(backwards)


def test_too_many_orders_are_not_modelled() -> None:
    applied = [Apply(pod(f"p{i}", "1" if i < 7 else "100m")) for i in range(9)]
    one = node(*applied)
    before = one.view()
    with pytest.raises(NotModelled, match="order"):
        one.do(Start())
    assert one.view() == before


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        Start(),
        Reboot(),
        Configure(ONE),
        RemoveState(),
        WriteState(""),
        Apply(pod("a", "1")),
        Apply(replace(pod("a", "1"), name="other")),
        Apply(Pod("none", ())),
        Apply(Pod("twins", (Container("c"), Container("c")))),
        Apply(Pod("late", (Container("c"), Container("i", kind=Kind.INIT)))),
        Apply(Pod("above", (Container("c", "2", "1"),))),
        Apply(Pod("nonsense", (Container("c", "two"),))),
        Apply(Pod("less", (Container("c", "-1"),))),
        Delete("nobody"),
        Tamper("a", "nobody", CPUSet([0])),
        Tamper("nobody", "c1", CPUSet([0])),
    ],
    ids=repr,
)
def test_an_illegal_step_on_a_running_node_changes_nothing(step: Step) -> None:
    one = node(Start(), Apply(pod("a", "1")))
    before = one.view()
    with pytest.raises(IllegalStep):
        one.do(step)
    assert one.view() == before
    assert do(one, AwaitReconcile()) == before


@pytest.mark.parametrize("step", [Stop(), AwaitReconcile(), Tamper("a", "c1", CPUSet([0]))])
def test_an_illegal_step_on_a_node_that_is_down_changes_nothing(step: Step) -> None:
    one = node()
    with pytest.raises(IllegalStep):
        one.do(step)
    assert one.view() == View(running=False)


@pytest.mark.parametrize(
    "gates",
    [
        {"DynamicResourceAllocation": True},
        {"PodLevelResourceManagers": True, "PodLevelResources": False},
        {"MemoryQoS": True},
    ],
)
def test_settings_outside_the_model_are_refused_at_once(gates: dict[str, bool]) -> None:
    config = replace(ONE, feature_gates=gates)
    with pytest.raises(NotModelled):
        node(config=config)
    one = node()
    with pytest.raises(NotModelled):
        one.do(Configure(config))
    assert do(one, Start()).running


def test_what_lies_outside_of_the_model() -> None:
    """A release, and a reservation above the machine without the static policy."""
    with pytest.raises(NotModelled):
        node(release="1.7")
    one = node(config=KubeletConfig("none", system_reserved="9"))
    with pytest.raises(NotModelled):
        one.do(Start())
    assert one.view() == View(running=False)


@pytest.mark.parametrize(
    ("size", "beside"),
    [("3", []), ("4", [Apply(pod("b", "4"))])],
    ids=["for another pod", "that would be refused"],
)
def test_a_uid_just_deleted_that_comes_back_is_not_modelled(size: str, beside: list[Step]) -> None:
    one = node(Start(), Apply(pod("a", "4" if beside else "2")), Delete("a"), *beside)
    before = one.view()
    with pytest.raises(NotModelled, match="give the pod a new one"):
        one.do(Apply(pod("a", size)))
    assert one.view() == before
    if not beside:
        assert assignments(do(one, Apply(pod("a", "2")))) == {"a": {"c1": "1,5"}}


# -- wrong variants ------------------------------------------------------------------------------


def test_a_policy_that_raises_at_start_gives_up_as_the_kubelet_does() -> None:
    class Grumpy(StaticPolicy):
        def validate(self, state: State) -> None:
            raise StateError("no")

    def grumpy(
        topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease = NEWEST
    ) -> Policy:
        return Grumpy(topology, CPUSet([0]), release=release)

    assert do(Node(tree, EIGHT, ONE, policy_factory=grumpy), Start()).error == "no"


@pytest.mark.parametrize("release", ["1.26", "1.32", "1.36", "1.37"])
def test_what_is_allocatable_is_rounded_up(release: str) -> None:
    """1.9999 CPUs are left; the kubelets of all four admit a pod of 2."""
    config = KubeletConfig(system_reserved="1.0001")
    pod = burstable("a", "2")
    view = nodes.booted(Apply(pod), config=config, machine="1s-1n-3c-smt1", release=release).view()
    assert view.pods["a"].phase is Phase.RUNNING
