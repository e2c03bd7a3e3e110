"""Differences shrink to what they take; what differs once is no difference."""

from __future__ import annotations

import itertools
import time
from contextlib import closing
from typing import Final

import pytest

from conformance.pods import guaranteed
from conformance.results import Result
from conformance.subject import Subject
from conformance.subjects import open_subject
from hunting.exploring.campaign import Cause, Exploration, Outcome, Scope
from hunting.exploring.causes import is_same, look_of
from hunting.exploring.drafting import is_legal
from hunting.exploring.driving import Walk, walked
from hunting.exploring.history import History
from hunting.scope import Task
from hunting.shrinking import simpler
from reference import CPUSet
from reference.steps import Apply, ApplyTogether, Delete, KubeletConfig, Start

RELEASE: Final = "1.36"
MACHINES: Final = ("1s-1n-4c-smt2", "2s-2n-8c-smt2")
#: Each with the most steps that its difference takes.
FAULTS: Final = {
    "splits-cores": 2,
    "forgets-to-give-back": 3,
    "ignores-full-pcpus-only": 2,
    "keeps-a-cpu-shared": 2,
    "ignores-the-hint": 3,
    "forgets-init-containers": 3,
    "pins-pods-with-pod-level-resources": 2,
    "trusts-its-state": 4,
    "never-updates": 5,  # what was done to a cpuset takes a kubelet that starts again
    "ignores-strict-reservation": 2,
    "lifts-quotas-of-pods": 3,
}


def _explored(exploration: Exploration, seconds: float) -> list[Outcome]:
    with closing(exploration.explore(until=time.monotonic() + seconds)) as outcomes:
        try:
            return list(outcomes)
        finally:
            exploration.close()


def _cause(subject: Subject) -> Cause:
    scope = Scope(MACHINES, RELEASE, seed=3, most=1, count=400)
    exploration = Exploration(subject, scope, at_a_time=1)
    _explored(exploration, 240)
    assert exploration.causes, f"not found in {exploration.walked} histories"
    return exploration.causes[0]


@pytest.mark.parametrize("name", FAULTS)
def test_a_shrunk_history_has_no_needless_step(name: str) -> None:
    """Without any one of its steps it is not possible, or does not differ so."""
    subject = open_subject(f"miniature:{name}")
    cause = _cause(subject)
    task, steps = cause.history.task(RELEASE), cause.history.taken
    assert len(steps) <= FAULTS[name], cause.result.explanation
    for at in range(1, len(steps)):
        left = (*steps[:at], *steps[at + 1 :])
        if not is_legal(task, left):
            continue
        result = walked(Walk("less", History.of(task, left)), subject, RELEASE)
        same = result.verdict == "fail" and is_same(look_of(result), look_of(cause.result))
        assert not same, f"step {at + 1} of {cause.result.steps} is needless"


def test_pods_that_come_at_once_come_one_after_the_other_where_that_differs_too() -> None:
    """Else with one pod less."""
    a, b, c = (guaranteed(name, 1) for name in "abc")
    found = list(simpler((Start(), ApplyTogether((a, b, c)))))
    assert found[0] == (Start(), Apply(a), Apply(b), Apply(c))
    assert (Start(), ApplyTogether((a, c))) in found
    assert list(simpler((Start(), ApplyTogether((a, b))))) == [(Start(), Apply(a), Apply(b))]


@pytest.mark.parametrize("times", [1, 2])
def test_what_differs_once_is_no_cause(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """It is walked again; how it differed is kept. What differs twice is one."""
    wrong = open_subject("miniature:forgets-to-give-back")
    calls = itertools.count()

    def at_first(walk: Walk, subject: Subject, release: str) -> Result:
        return walked(walk, wrong if next(calls) < times else subject, release)

    monkeypatch.setattr("hunting.exploring.campaign.walked", at_first)
    config = KubeletConfig(reserved_system_cpus=CPUSet([0]))
    steps = (Start(), Apply(guaranteed("a", 1)), Delete("a"))
    plan = [History.of(Task(RELEASE, MACHINES[0], config), steps)]
    scope = Scope(MACHINES, RELEASE, shrink=False)
    exploration = Exploration(open_subject("reference"), scope, at_a_time=1, plan=plan)
    (outcome,) = _explored(exploration, 60)
    assert len(exploration.causes) == times - 1
    assert outcome.result.verdict == ("pass" if times == 1 else "fail")
    if times == 1:
        assert outcome.once is not None
        assert "shared pool" in outcome.once.explanation
