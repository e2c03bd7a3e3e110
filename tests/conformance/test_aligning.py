"""Scenarios with a Topology Manager policy, on machines with more NUMA nodes than a kubelet starts
on by default, or with ids of NUMA nodes that it cannot hold."""

from __future__ import annotations

from functools import partial

import pytest

from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.results import Result
from conformance.scenario import catalogue, find
from conformance.subjects.reference import ReferenceSubject
from topologies import machine

TOGETHER = "topology/single-numa-node-keeps-together"


def _judged(scenario: str, name: str, release: str) -> Result:
    found = find(scenario)
    assert found is not None
    return judge(
        Case(found, machine(name)),
        ReferenceSubject(release=release),
        oracle=partial(ModelOracle, release=release),
        release=release,
    ).result


@pytest.mark.parametrize("release", ["1.31", "1.32", "1.36"])
@pytest.mark.parametrize(("name", "nodes"), [("2s-2n-8c-smt2-mem7", 9), ("1s-9n-18c-smt1", 9)])
def test_the_limit_of_numa_nodes_is_raised_where_that_can_be(
    release: str, name: str, nodes: int
) -> None:
    """NUMA nodes without CPUs count for the limit."""
    result = _judged(TOGETHER, name, release)
    assert (result.verdict, result.reason) == ("pass", "")
    assert f"Topology Manager option max-allowable-numa-nodes={nodes}" in result.steps[0]


@pytest.mark.parametrize("release", ["1.20", "1.30"])
def test_before_there_was_an_option_the_scenario_does_not_apply(release: str) -> None:
    """The kubelet gives up on such a machine, as it must."""
    result = _judged(TOGETHER, "2s-2n-8c-smt2-mem7", release)
    assert result.verdict == "skip"
    assert result.reason == (
        "needs at most 8 NUMA nodes under a Topology Manager policy, the machine has 9; option "
        "max-allowable-numa-nodes is there from 1.31 on"
    )
    assert not result.unable


def test_many_numa_nodes_with_cpus_are_left_alone() -> None:
    """Each one more doubles the time in which a kubelet admits a pod; those without CPUs do not."""
    result = _judged(TOGETHER, "1s-13n-26c-smt1", "1.36")
    assert result.verdict == "skip"
    assert "at most 12 NUMA nodes with CPUs" in result.reason
    assert _judged(TOGETHER, "2s-2n-8c-smt2-mem38", "1.36").verdict == "pass"


def test_numa_nodes_beyond_63_are_left_alone() -> None:
    """The kubelet panics there, at the first pod of any kind."""
    result = _judged(TOGETHER, "2s-2n-8c-smt2-nodestep64", "1.36")
    assert result.verdict == "skip"
    assert "needs NUMA node ids of 0 to 63" in result.reason


def test_a_usual_machine_is_given_no_option() -> None:
    """What is not needed is not set."""
    assert "max-allowable" not in "".join(_judged(TOGETHER, "2s-2n-8c-smt2", "1.36").steps)


@pytest.mark.parametrize("name", ["2s-2n-16c-smt2-mem7", "2s-2n-8c-smt2-nodestep64"])
@pytest.mark.parametrize("release", ["1.30", "1.36"])
def test_no_scenario_accuses_a_genuine_kubelet(name: str, release: str) -> None:
    """Nor is there one that cannot tell."""
    results = [_judged(one.id, name, release) for one in catalogue() if not one.machine]
    wrong = [
        f"{one.scenario}: {one.reason}" for one in results if one.verdict in ("fail", "unknown")
    ]
    assert not wrong
    assert sum(one.verdict == "pass" for one in results) > 50
