"""What releases do by chance, or do wrong, is not held against a genuine kubelet.

Each was seen on real kubelets, as docstrings say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from conformance.subjects.miniatures import miniature
from conformance.subjects.reference import ReferenceSubject, right_node
from reference import CPUManager, Node
from reference.steps import KubeletConfig, Pod
from tests.conformance.judging import judged


@pytest.mark.parametrize(
    ("machine", "release", "verdict"),
    [
        ("2s-4n-64c-smt2-l3s", "1.20", "skip"),
        ("2s-4n-64c-smt2-l3s", "1.22", "pass"),
        ("4s-4n-48c-smt2", "1.20", "pass"),
    ],
)
def test_three_numa_nodes_of_two_sockets(machine: str, release: str, verdict: str) -> None:
    """A real kubelet 1.20.15 gave a request for three NUMA nodes other CPUs than the model, on a
    machine with two NUMA nodes in each socket. A scenario that names the CPUs does not apply."""
    found = judged("topology/restricted-admits-three-numa-nodes", machine, release=release)
    assert found.verdict == verdict
    assert ("chance decides" in found.reason) is (verdict == "skip")


@pytest.mark.parametrize(
    ("machine", "verdict"), [("1s-1n-4c-smt2-off7", "skip"), ("1s-1n-4c-smt2", "pass")]
)
def test_amounts_are_reserved_of_cores_of_one_size(machine: str, verdict: str) -> None:
    """A real kubelet 1.26.15 gave out a reserved CPU of a machine whose cores are of different
    sizes (kubernetes/kubernetes#140498)."""
    assert judged("config/reservation-by-amount", machine, release="1.26").verdict == verdict


# -- on cores of different sizes 1.22 and later hand out CPUs that are not free (140498) ----------

UNEVEN = "8s-8n-64c-smt2-near-mem1-off1"
MET = ("admission/several-containers", "pool/exclusive-sets-are-disjoint")


@pytest.mark.parametrize("model", [True, False], ids=["model", "promise alone"])
@pytest.mark.parametrize("scenario", MET)
def test_the_known_defect_of_a_release_is_not_held_against_it(scenario: str, model: bool) -> None:
    result = judged(scenario, UNEVEN, release="1.36", model=model)
    assert result.verdict == "skip"
    assert "140498" in result.reason


@pytest.mark.parametrize("scenario", MET)
@pytest.mark.parametrize("release", ["1.20", "1.36+true-sizes"])
def test_releases_without_the_defect_are_judged(release: str, scenario: str) -> None:
    assert judged(scenario, UNEVEN, release=release).verdict == "pass"


def test_a_fork_without_the_defect_may_not_have_it() -> None:
    """Judged by what it claims, the same CPUs given twice are a failure."""
    subject = ReferenceSubject(release="1.36")
    result = judged(MET[0], UNEVEN, subject, release="1.36+true-sizes")
    assert result.verdict == "fail"
    assert "Exclusive CPUs belong to one container alone" in result.reason


def test_another_fault_is_found_all_the_same() -> None:
    """It is not what the release does."""
    subject = miniature("splits-cores", release="1.36")
    assert judged(MET[1], UNEVEN, subject, release="1.36").verdict == "fail"


# -- pods that come back under their uid -----------------------------------------------------------


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


@pytest.mark.parametrize("make", [admits_once, right_node])
@pytest.mark.parametrize("release", ["1.22", "1.26", "1.31", "1.36"])
def test_a_kubelet_may_admit_a_pod_that_comes_back_or_not(
    release: str, make: Callable[..., Node]
) -> None:
    """Kubelets up to 1.31 do not always admit it again. Real kubelets 1.22.17 and 1.26.15 kept the
    CPUs of another pod that was deleted afterwards, because that one was still the pod admitted
    last (``pendingAdmissionPod``)."""
    subject = ReferenceSubject(release=release, make=make)
    scenario = "containers/pod-that-comes-back-follows-the-pool"
    result = judged(scenario, "1s-1n-4c-smt2", subject, release=release)
    assert (result.verdict, result.explanation) == ("pass", "")
