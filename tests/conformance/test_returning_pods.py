"""A pod that comes back under its uid: kubelets up to 1.31 do not always admit it again.

Real kubelets 1.22.17 and 1.26.15 kept the CPUs of another pod that was deleted afterwards, because
that one was still the pod admitted last (``pendingAdmissionPod``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

import topologies
from conformance.catalogue import find
from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.subjects.reference import ReferenceSubject, right_node
from reference import CPUManager, Node
from reference.steps import KubeletConfig, Pod


class AdmitsOnce(CPUManager):
    """Knows the pods that it has admitted: one that comes back is not admitted again."""

    def begin_admission(self, pod: Pod) -> None:
        known = vars(self).setdefault("admitted", set())
        before = self.last_admitted
        super().begin_admission(pod)
        if pod.uid in known:
            self.last_admitted = before
        known.add(pod.uid)


def admits_once(
    trees: Callable[[str], Mapping[str, str]], machine: str, config: KubeletConfig, release: str
) -> Node:
    return Node(trees, machine, config, release=release, manager_factory=AdmitsOnce)


@pytest.mark.parametrize("release", ["1.22", "1.26", "1.31", "1.36"])
def test_a_kubelet_that_does_not_admit_it_again_is_not_accused(release: str) -> None:
    def oracle(*args: object, **kwargs: object) -> ModelOracle:
        return ModelOracle(*args, release=release, **kwargs)  # type: ignore[arg-type]

    scenario = find("containers/pod-that-comes-back-follows-the-pool")
    assert scenario is not None
    for make in (admits_once, right_node):
        subject = ReferenceSubject(release=release, make=make)
        case = Case(scenario, topologies.machine("1s-1n-4c-smt2"))
        result = judge(case, subject, oracle=oracle, release=release).result
        assert (result.verdict, result.explanation) == ("pass", "")
