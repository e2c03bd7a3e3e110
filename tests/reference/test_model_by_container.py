"""Nodes up to 1.17, where containers take CPUs as they start: docs/facts 5.5, 7.4 and 8.1 to 8.3.

Everything here was seen on a real 1.17.17, unless a test says otherwise.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import topologies
from reference import CPUSet, Node, NotModelled
from reference.behaviours import Behaviour
from reference.kubelet.runtime import container_id
from reference.releases import has
from reference.steps import (
    Apply,
    AwaitReconcile,
    Delete,
    KubeletConfig,
    Reboot,
    RemoveState,
    Start,
    Step,
    Stop,
    Tamper,
    WriteState,
)
from reference.view import Phase
from tests.support.pods import assignments, best_effort, pod

FOUR, EIGHT = "1s-1n-4c-smt1", "1s-1n-4c-smt2"
TREES = {name: topologies.machine(name).tree for name in (FOUR, EIGHT)}
ONE = KubeletConfig(reserved_system_cpus=CPUSet([0]))


def node(
    *steps: Step, config: KubeletConfig = ONE, machine: str = EIGHT, release: str = "1.17"
) -> Node:
    made = Node(TREES.__getitem__, machine, config, release=release)
    for step in steps:
        made.do(step)
    return made


def test_the_state_is_keyed_by_container_id() -> None:
    """The view has names all the same."""
    one = pod("a", "2")
    view = node(Start(), Apply(one)).view()
    content = json.loads(view.state_file or "")
    assert list(content["entries"]) == [container_id(one.uid, "c1", 1)]
    ((name, sizes),) = assignments(view).items()
    assert name == "a"
    assert [len(CPUSet.parse(text)) for text in sizes.values()] == [2]
    assert view.cpusets["a"]["c1"] == view.assignments["a"]["c1"]


def test_an_id_that_nobody_had_stays_an_id() -> None:
    """An entry of another machine's container: stale, and not before some pod is active."""
    text = node(Start(), Apply(pod("x", "1"))).view().state_file or ""
    other = node(WriteState(text), Start())
    assert list(assignments(other.view())) == [""]
    other.do(Apply(best_effort("b")))
    assert assignments(other.view()) == {}
    assert str(other.view().shared_pool) == "0-7"


def test_cpus_return_as_containers_are_stopped() -> None:
    one = node(Start(), Apply(pod("a", "2")), Apply(best_effort("b")), Delete("a"))
    assert assignments(one.view()) == {}
    assert one.view().cpusets == {"b": {"c1": CPUSet(range(8))}}


def test_a_restart_keeps_what_containers_hold() -> None:
    one = node(Start(), Apply(pod("a", "2")))
    before = one.view()
    for step in (Stop(kill=True), Start()):
        one.do(step)
    assert one.view() == before


def test_running_containers_take_cpus_anew_where_the_state_is_lost() -> None:
    """The reconcile round finds them without."""
    one = node(Start(), Apply(pod("a", "2")), Stop(), RemoveState(), Start())
    assert [len(cpus) for cpus in one.view().assignments["a"].values()] == [2]


def test_after_a_reboot_containers_are_others() -> None:
    """What the former ones held goes once every container of every pod is known."""
    one = node(Start(), Apply(pod("a", "2")))
    first = one.view().assignments["a"]["c1"]
    for step in (Stop(), Reboot(), Start()):
        one.do(step)
    (cpus,) = one.view().assignments["a"].values()
    assert len(cpus) == 2
    assert not cpus & first
    assert one.view().shared_pool == CPUSet(range(8)) - cpus


def test_an_init_container_that_ended_takes_cpus_again() -> None:
    """They returned when the app took its own, and the next round takes others."""
    view = node(Start(), Apply(pod("a", "2", init="2"))).view()
    setup, main = view.assignments["a"]["i"], view.assignments["a"]["c1"]
    assert (len(setup), len(main)) == (2, 2)
    assert not setup & main


def test_up_to_1_15_init_containers_keep_theirs() -> None:
    """Until they are removed (kubernetes/kubernetes#78762; from the sources of 1.14 and 1.16)."""
    assert not has("1.15", Behaviour.INIT_CPUS_RETURNED)
    kept = node(Start(), Apply(pod("a", "2", init="2")), release="1.17+init-cpus-returned=off")
    first, second = kept.view().assignments["a"]["i"], kept.view().assignments["a"]["c1"]
    assert min(first) < min(second)


def test_every_round_repairs_what_was_changed() -> None:
    """docs/facts 8.3: up to 1.21."""
    one = node(Start(), Apply(pod("a", "1")), Apply(best_effort("b")))
    before = one.view()
    one.do(Tamper("a", "c1", CPUSet([0])))
    one.do(Tamper("b", "c1", CPUSet([0])))
    one.do(AwaitReconcile())
    assert one.view() == before


def test_policy_none_asks_for_nothing() -> None:
    one = node(Start(), Apply(pod("a", "2")), config=KubeletConfig("none"))
    assert one.view().cpusets == {"a": {"c1": None}}


def test_admission_takes_no_cpus() -> None:
    """A pod too large is refused by the node's predicates, in their words."""
    view = node(Start(), Apply(pod("a", "5")), Apply(pod("b", "3"))).view()
    assert view.pods["b"].phase is Phase.REJECTED
    assert view.pods["b"].reason == "UnexpectedAdmissionError"
    assert "(res: cpu, q: 1000)" in view.pods["b"].message
    assert "b" not in view.assignments


def test_a_container_that_cannot_have_its_cpus_is_not_modelled() -> None:
    """The kubelet tries again, later and later. Init containers can take what the predicates count
    once."""
    one = node(Start(), Apply(pod("a", "3", init="3")))
    with pytest.raises(NotModelled, match="later and later"):
        one.do(Apply(pod("b", "4")))
    assert one.view().pods.keys() == {"a"}


@pytest.mark.parametrize("text", ["", "{", '{"policyName":"static","checksum":7}'])
def test_a_state_file_that_cannot_be_read(text: str) -> None:
    """Exit status 255, and the first line of two."""
    one = node(WriteState(text), Start())
    assert one.view().exit_status == 255
    assert one.view().error.startswith(
        "failed to run Kubelet: could not initialize checkpoint manager: "
        "could not restore state from checkpoint: "
    )
    assert "\n" not in one.view().error


def test_a_state_of_other_cpus_makes_the_policy_panic() -> None:
    """``panic`` in ``policy_static.go``: Go's exit status for it is 2. A 1.17.17 catches it, and
    goes on without CPU manager and device manager, which no scenario waits for."""
    text = node(Start(), machine=FOUR).view().state_file or ""
    one = node(WriteState(text), Start())
    assert one.view().error == (
        'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-3"'
    )
    assert one.view().exit_status == 2


def test_an_overlap_names_the_container() -> None:
    """docs/facts 5.8, row 4: ``container id`` up to 1.17."""
    whole = node(Start(), Apply(pod("a", "2"))).view().state_file or ""
    content = json.loads(whole)
    (key,) = content["entries"]
    broken = replace_default(content, "0-7")
    assert f'container id: {key} cpuset: "' in node(WriteState(broken), Start()).view().error


def replace_default(content: dict[str, object], cpus: str) -> str:
    """Without a checksum, which counts as right."""
    return json.dumps(content | {"defaultCpuSet": cpus, "checksum": 0})


def test_a_reservation_that_is_not_to_be_had_panics() -> None:
    """Up to 1.17; from 1.18 on an error (docs/facts 5.3)."""
    config = KubeletConfig(system_reserved="9")
    text = "[cpumanager] unable to reserve the required amount of CPUs (size of  did not equal 9)"
    old = node(Start(), config=config).view()
    assert (old.error, old.exit_status) == (f"panic: {text}", 2)
    new = node(Start(), config=config, release="1.18").view()
    assert text in new.error
    assert new.exit_status == 255


def test_the_topology_manager_only_says_where() -> None:
    """Its gate is off by default; CPUs are taken later (``topology_manager.go``, 1.17)."""
    gates = {"TopologyManager": True}
    config = replace(ONE, topology_manager_policy="single-numa-node", feature_gates=gates)
    view = node(Start(), Apply(pod("a", "2")), config=config).view()
    assert [len(cpus) for cpus in view.assignments["a"].values()] == [2]
    shut = replace(config, feature_gates={})
    assert "requires feature gate TopologyManager" in node(Start(), config=shut).view().error
