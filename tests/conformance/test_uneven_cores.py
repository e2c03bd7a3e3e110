"""On cores of different sizes 1.22 and later hand out CPUs that are not free (140498). A genuine
kubelet is not accused of that, a fork that does something else is."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from conformance.catalogue import find
from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.recording import PromisesOnly
from conformance.results import Result
from conformance.subject import Subject
from conformance.subjects.miniatures import miniature
from conformance.subjects.reference import ReferenceSubject
from topologies import machine

UNEVEN = "8s-8n-64c-smt2-near-mem1-off1"
MET = ("admission/several-containers", "pool/exclusive-sets-are-disjoint")


def _judged(scenario: str, subject: Subject, *, release: str, model: bool = True) -> Result:
    found = find(scenario)
    assert found is not None
    oracle: Any = (
        partial(ModelOracle, release=release) if model else lambda *_, **__: PromisesOnly()
    )
    case = Case(found, machine(UNEVEN))
    return judge(case, subject, oracle=oracle, release=release).result


@pytest.mark.parametrize("model", [True, False], ids=["model", "promise alone"])
@pytest.mark.parametrize("scenario", MET)
def test_the_known_defect_of_a_release_is_not_held_against_it(scenario: str, model: bool) -> None:
    result = _judged(scenario, ReferenceSubject(release="1.36"), release="1.36", model=model)
    assert result.verdict == "skip"
    assert "140498" in result.reason


@pytest.mark.parametrize("scenario", MET)
@pytest.mark.parametrize("release", ["1.20", "1.36+true-sizes"])
def test_releases_without_the_defect_are_judged(release: str, scenario: str) -> None:
    assert _judged(scenario, ReferenceSubject(release=release), release=release).verdict == "pass"


def test_a_fork_without_the_defect_may_not_have_it() -> None:
    """Judged by what it claims, the same CPUs given twice are a failure."""
    result = _judged(MET[0], ReferenceSubject(release="1.36"), release="1.36+true-sizes")
    assert result.verdict == "fail"
    assert "Exclusive CPUs belong to one container alone" in result.reason


def test_another_fault_is_found_all_the_same() -> None:
    """It is not what the release does."""
    subject = miniature("splits-cores", release="1.36")
    assert _judged("pool/exclusive-sets-are-disjoint", subject, release="1.36").verdict == "fail"
