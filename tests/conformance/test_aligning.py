"""Scenarios with a Topology Manager policy, on machines with more NUMA nodes than a kubelet starts
on by default, or with ids of NUMA nodes that it cannot hold."""

from __future__ import annotations

import pytest

from conformance.catalogue import catalogue
from conformance.results import Result
from reference import discover
from tests.conformance.judging import judged
from topologies import Machine, Tree, machine

TOGETHER = "topology/single-numa-node-keeps-together"


@pytest.mark.parametrize("release", ["1.31", "1.32", "1.36"])
@pytest.mark.parametrize(("name", "nodes"), [("2s-2n-8c-smt2-mem7", 9), ("1s-9n-18c-smt1", 9)])
def test_the_limit_of_numa_nodes_is_raised_where_that_can_be(
    release: str, name: str, nodes: int
) -> None:
    """NUMA nodes without CPUs count for the limit."""
    result = judged(TOGETHER, name, release=release)
    assert (result.verdict, result.reason) == ("pass", "")
    assert f"Topology Manager option max-allowable-numa-nodes={nodes}" in result.steps[0]


@pytest.mark.parametrize("release", ["1.20", "1.30"])
def test_before_there_was_an_option_the_scenario_does_not_apply(release: str) -> None:
    """The kubelet gives up on such a machine, as it must."""
    result = judged(TOGETHER, "2s-2n-8c-smt2-mem7", release=release)
    assert result.verdict == "skip"
    assert result.reason == (
        "needs at most 8 NUMA nodes under a Topology Manager policy, the machine has 9; option "
        "max-allowable-numa-nodes is there from 1.31 on"
    )
    assert not result.unable


def test_many_numa_nodes_with_cpus_are_left_alone() -> None:
    """Each one more doubles the time in which a kubelet admits a pod; those without CPUs do not."""
    result = judged(TOGETHER, "1s-13n-26c-smt1")
    assert result.verdict == "skip"
    assert "at most 12 NUMA nodes with CPUs" in result.reason
    assert judged(TOGETHER, "2s-2n-8c-smt2-mem38").verdict == "pass"


def test_numa_nodes_beyond_63_are_left_alone() -> None:
    """The kubelet panics there, at the first pod of any kind."""
    result = judged(TOGETHER, "2s-2n-8c-smt2-nodestep64")
    assert result.verdict == "skip"
    assert "needs NUMA node ids of 0 to 63" in result.reason


def _all_on(shown: Machine, release: str) -> list[Result]:
    return [judged(one, shown, release=release) for one in catalogue() if not one.machine]


def _without(spec: str, *parts: str) -> Machine:
    """As s390x shows itself: no NUMA node, packages without an id, and nothing of these parts."""
    tree = {
        path: "-1\n" if path.endswith("/physical_package_id") else text
        for path, text in machine(spec).tree.items()
        if not any(part in path for part in ("sys/devices/system/node/", *parts))
    }
    return Machine("of-s390x", Tree(tree), spec)


def test_a_machine_whose_numa_node_is_minus_1() -> None:
    """All but the scenarios with a Topology Manager policy apply."""
    shown = _without("1s-1n-8c-smt2")
    assert discover(shown.tree).numa_node_ids == (-1,)
    results = _all_on(shown, "1.36")
    assert {one.verdict for one in results} == {"pass", "skip"}
    assert sum(one.verdict == "pass" for one in results) > 50
    strange = "needs NUMA node ids of 0 to 63 under a Topology Manager policy, the machine has -1"
    assert any(one.reason.startswith(strange) for one in results)


@pytest.mark.parametrize("release", ["1.30", "1.36"])
def test_a_machine_that_shows_no_cpu_in_any_core(release: str) -> None:
    """As under z/VM. A kubelet with the static policy does not start there, and no scenario
    applies."""
    shown = _without("1s-1n-4c-smt1", "/topology/")
    assert not discover(shown.tree).cpu_topology().details
    reasons = {(one.verdict, one.reason) for one in _all_on(shown, release) if one.area != "node"}
    lacking = ("skip", "needs CPUs, the kubelet finds none on the machine")
    assert lacking in reasons
    assert all(reason.startswith("promised ") for _, reason in reasons - {lacking})


def test_a_usual_machine_is_given_no_option() -> None:
    """What is not needed is not set."""
    assert "max-allowable" not in "".join(judged(TOGETHER, "2s-2n-8c-smt2").steps)


@pytest.mark.parametrize("name", ["2s-2n-16c-smt2-mem7", "2s-2n-8c-smt2-nodestep64"])
@pytest.mark.parametrize("release", ["1.30", "1.36"])
def test_no_scenario_accuses_a_genuine_kubelet(name: str, release: str) -> None:
    """Nor is there one that cannot tell."""
    results = _all_on(machine(name), release)
    wrong = [
        f"{one.scenario}: {one.reason}" for one in results if one.verdict in ("fail", "unknown")
    ]
    assert not wrong
    assert sum(one.verdict == "pass" for one in results) > 50
