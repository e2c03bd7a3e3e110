"""The catalogue on releases before 1.17, where no list of reserved CPUs can be given."""

from __future__ import annotations

from functools import partial

import pytest

import topologies
from conformance.catalogue import catalogue
from conformance.lockstep import LockstepNode
from conformance.oracle import ModelOracle
from conformance.promises import Situation, violations
from conformance.smoke import smoke
from conformance.subject import Capability
from conformance.subjects.reference import ReferenceSubject
from reference import CPUSet
from reference.releases import OLDEST
from reference.steps import Container, Kind, KubeletConfig, Pod
from reference.view import Phase, PodView, View
from tests.conformance.judging import judged

EIGHT = "1s-1n-4c-smt2"
EARLY = [f"1.{minor}" for minor in range(OLDEST, 17)]
#: Every promise that a release keeps on this machine; more is welcome, fewer is a loss.
PROMISES = {"1.8": 3, "1.9": 20, "1.12": 25, "1.14": 25, "1.16": 27}


@pytest.mark.parametrize("release", EARLY)
def test_the_model_keeps_what_each_release_promises(release: str) -> None:
    """Every scenario on the model of the release: none fails, none is left open."""
    results = [judged(one, one.machine or EIGHT, release=release) for one in catalogue()]
    wrong = [one for one in results if one.verdict not in ("pass", "skip")]
    assert [f"{one.scenario}: {one.reason}" for one in wrong] == []
    known = max((one for one in PROMISES if _minor(one) <= _minor(release)), key=_minor)
    assert sum(one.verdict == "pass" for one in results) >= PROMISES[known]


def _minor(release: str) -> int:
    return int(release.partition(".")[2])


@pytest.mark.parametrize("release", [*EARLY, "1.17"])
def test_the_first_core_is_reserved_by_number_or_by_list(release: str) -> None:
    node = LockstepNode(
        ReferenceSubject(release=release),
        topologies.machine(EIGHT),
        oracle=partial(ModelOracle, release=release),
        release=release,
    )
    assert node.reserved == CPUSet([0, 4])
    by_list = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]))
    assert node.config == (by_list if release == "1.17" else KubeletConfig(system_reserved="2"))
    assert node.boot().running


@pytest.mark.parametrize("release", EARLY)
def test_a_subject_is_tried_with_what_it_knows(release: str) -> None:
    smoke(ReferenceSubject(release=release))


@pytest.mark.parametrize(("release", "broken"), [("1.15", 0), ("1.16", 1)])
def test_whose_cpus_may_be_exclusive(release: str, broken: int) -> None:
    """Up to 1.15 the app containers alone make a pod Guaranteed."""
    app = Container("c", "2", "2", "64Mi", "64Mi")
    pod = Pod("a", (Container("i", "500m", None, "64Mi", None, Kind.INIT), app))
    own = CPUSet([1, 5])
    view = View(
        running=True,
        pods={"a": PodView(Phase.RUNNING)},
        assignments={"a": {"c": own}},
        shared_pool=CPUSet(range(8)) - own,
    )
    situation = Situation(
        config=KubeletConfig(system_reserved="1"),
        pods={"a": pod},
        cpus=CPUSet(range(8)),
        reserved=None,
        can=frozenset({Capability.STATE_FILE}),
        release=release,
    )
    assert len(violations(view, situation)) == broken
