"""Where chance decides in a release, a scenario that would name the CPUs does not apply.

A real kubelet 1.20.15 gave a request for three NUMA nodes other CPUs than the model, on a machine
with two NUMA nodes in each socket; a real kubelet 1.26.15 gave out a reserved CPU of a machine
whose cores are of different sizes (kubernetes/kubernetes#140498).
"""

from __future__ import annotations

import pytest

import topologies
from conformance.catalogue import find
from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.results import Result
from conformance.subjects.reference import ReferenceSubject


def judged(name: str, machine: str, release: str) -> Result:
    def oracle(*args: object, **kwargs: object) -> ModelOracle:
        return ModelOracle(*args, release=release, **kwargs)  # type: ignore[arg-type]

    scenario = find(name)
    assert scenario is not None
    case = Case(scenario, topologies.machine(machine))
    return judge(case, ReferenceSubject(release=release), oracle=oracle, release=release).result


@pytest.mark.parametrize(
    ("machine", "release", "verdict"),
    [
        ("2s-4n-64c-smt2-l3s", "1.20", "skip"),
        ("2s-4n-64c-smt2-l3s", "1.22", "pass"),
        ("4s-4n-48c-smt2", "1.20", "pass"),
    ],
)
def test_three_numa_nodes_of_two_sockets(machine: str, release: str, verdict: str) -> None:
    found = judged("topology/restricted-admits-three-numa-nodes", machine, release)
    assert found.verdict == verdict
    assert ("chance decides" in found.reason) is (verdict == "skip")


@pytest.mark.parametrize(
    ("machine", "verdict"), [("1s-1n-4c-smt2-off7", "skip"), ("1s-1n-4c-smt2", "pass")]
)
def test_amounts_are_reserved_of_cores_of_one_size(machine: str, verdict: str) -> None:
    assert judged("config/reservation-by-amount", machine, "1.26").verdict == verdict
