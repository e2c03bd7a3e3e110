"""What one fault does is told as one cause, what two faults do as two, each in the steps that it
takes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Final

import pytest

import hunting.exploring.campaign as campaign_module
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.results import Result
from conformance.subject import Subject
from conformance.subjects import open_subject
from conformance.subjects.miniatures import MINIATURES, Miniature
from conformance.subjects.miniatures.managers import LiftsQuotasOfPods
from conformance.subjects.miniatures.policies import (
    ForgetsToGiveBack,
    IgnoresWholeCores,
    KeepsACPUShared,
)
from hunting.exploring.campaign import Cause, Exploration, Outcome, Scope
from hunting.exploring.causes import is_same, ways_of
from hunting.exploring.drafting import is_legal
from hunting.exploring.driving import Walk, walked
from hunting.exploring.history import History
from hunting.scope import Task
from hunting.shrinking import simpler
from reference import CPUSet
from reference.steps import (
    CREATE,
    Apply,
    ApplyTogether,
    Delete,
    Kind,
    KubeletConfig,
    Start,
    Step,
    Stop,
)

RELEASE: Final = "1.36"
MACHINE: Final = "1s-1n-4c-smt2"
_SIDECAR: Final = exclusive("side", "500m", kind=Kind.SIDECAR)
_APP: Final = exclusive("app", 1)

#: Histories that show a fault, each by other steps or containers.
_SHOWN: Final[dict[str, list[tuple[Step, ...]]]] = {
    "forgets-to-give-back": [
        (Apply(guaranteed("a", 2)), Delete("a")),
        (Apply(best_effort("b")), Apply(guaranteed("a", 1, 6))),
        (Apply(guaranteed("a", 2)), Stop(), Delete("a"), Start()),
    ],
    "lifts-quotas-of-pods": [
        (Apply(guaranteed("a", 1, "250m")),),
        (Apply(guaranteed_of("a", [_SIDECAR, _APP])), Apply(best_effort("b"))),
        (Apply(guaranteed("a", "250m", "250m", "1500m", 2)),),
    ],
    "ignores-full-pcpus-only": [
        (Apply(guaranteed("a", 3)),),
        (Apply(guaranteed("b", 2)), Apply(guaranteed("a", 2, 1))),
    ],
    "keeps-a-cpu-shared": [(Apply(guaranteed("a", 6)),), (Apply(guaranteed("b", 2, 2, 2)),)],
}


def _history(*steps: Step, options: Mapping[str, str] | None = None) -> History:
    """On a node whose first core is reserved."""
    config = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]), policy_options=options or {})
    return History.of(Task(RELEASE, MACHINE, config), (Start(), *steps))


def _plan(fault: str) -> list[History]:
    options = {"full-pcpus-only": "true"} if fault == "ignores-full-pcpus-only" else {}
    return [_history(*steps, options=options) for steps in _SHOWN[fault]]


def _explored(subject: Subject, plan: Sequence[History]) -> tuple[Exploration, list[Outcome]]:
    exploration = Exploration(subject, Scope((MACHINE,), RELEASE), at_a_time=1, plan=plan)
    return exploration, _walked(exploration)


@pytest.mark.parametrize("fault", _SHOWN)
def test_what_one_fault_does_is_one_cause(fault: str) -> None:
    """However the kubelet gets there, and with whatever containers."""
    plan = _plan(fault)
    exploration, outcomes = _explored(open_subject(f"miniature:{fault}"), plan)
    (cause,) = exploration.causes
    assert len(cause.met) == len(outcomes) == len(plan)
    assert [one.first for one in outcomes] == [True] + [False] * (len(plan) - 1)


class _GivesNothingBackOfHalfCores(ForgetsToGiveBack, IgnoresWholeCores):
    """Both faults of a policy."""


class _KeepsOneAndGivesHalfCores(KeepsACPUShared, IgnoresWholeCores):
    """Both faults of a policy."""


_TWO: Final = {
    ("forgets-to-give-back", "lifts-quotas-of-pods"): Miniature(
        (ForgetsToGiveBack, LiftsQuotasOfPods), ""
    ),
    ("ignores-full-pcpus-only", "lifts-quotas-of-pods"): Miniature(
        (IgnoresWholeCores, LiftsQuotasOfPods), ""
    ),
    ("forgets-to-give-back", "ignores-full-pcpus-only"): Miniature(
        _GivesNothingBackOfHalfCores, ""
    ),
    ("keeps-a-cpu-shared", "ignores-full-pcpus-only"): Miniature(_KeepsOneAndGivesHalfCores, ""),
}


@pytest.mark.parametrize("faults", _TWO)
def test_two_faults_are_two_causes(
    monkeypatch: pytest.MonkeyPatch, faults: tuple[str, str]
) -> None:
    """The history of each cause differs for one of the faults alone, and each fault has one."""
    monkeypatch.setitem(MINIATURES, "both", _TWO[faults])
    plan = [one for fault in faults for one in _plan(fault)]
    exploration, _ = _explored(open_subject("miniature:both"), plan)
    shown = [
        [fault for fault in faults if _differs(cause.history, fault)]
        for cause in exploration.causes
    ]
    assert sorted(shown) == sorted([fault] for fault in faults)


def _differs(history: History, fault: str) -> bool:
    return walked(Walk("again", history), open_subject(f"miniature:{fault}"), RELEASE).verdict == (
        "fail"
    )


# -- differences shrink to what they take; what differs once is no difference ----------------------

MACHINES: Final = (MACHINE, "2s-2n-8c-smt2")
#: Each with the most steps that its difference takes.
FAULTS: Final = {
    "splits-cores": 2,
    "forgets-to-give-back": 3,
    "ignores-full-pcpus-only": 2,
    "keeps-a-cpu-shared": 2,
    "ignores-the-hint": 3,
    "forgets-init-containers": 3,
    "pins-pods-with-pod-level-resources": 3,
    "trusts-its-state": 4,
    "never-updates": 5,  # what was done to a cpuset takes a kubelet that starts again
    "ignores-strict-reservation": 2,
    "lifts-quotas-of-pods": 3,
}


def _walked(exploration: Exploration) -> list[Outcome]:
    with closing(exploration.explore(until=time.monotonic() + 240)) as outcomes:
        try:
            return list(outcomes)
        finally:
            exploration.close()


def _cause(subject: Subject) -> Cause:
    scope = Scope(MACHINES, RELEASE, seed=4, most=1, count=400)
    exploration = Exploration(subject, scope, at_a_time=1)
    _walked(exploration)
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
        same = result.verdict == "fail" and is_same(ways_of(result), ways_of(cause.result))
        assert not same, f"step {at + 1} of {cause.result.steps} is needless"


def test_pods_that_come_at_once_come_one_after_the_other_where_that_differs_too() -> None:
    """Else with one pod less."""
    a, b, c = (guaranteed(name, 1) for name in "abc")
    found = list(simpler((Start(), ApplyTogether((a, b, c)))))
    assert found[0] == (Start(), Apply(a), Apply(b), Apply(c))
    assert (Start(), ApplyTogether((a, c))) in found
    found = list(simpler((Start(), ApplyTogether((a, b, c), CREATE))))
    assert (Start(), ApplyTogether((a, c), CREATE)) in found
    assert list(simpler((Start(), ApplyTogether((a, b))))) == [(Start(), Apply(a), Apply(b))]


def _differs_at_first(monkeypatch: pytest.MonkeyPatch, times: int) -> Iterator[int]:
    """So many walks are those of a wrong subject. The next number is how many there were."""
    wrong = open_subject("miniature:forgets-to-give-back")
    calls = itertools.count()

    def at_first(walk: Walk, subject: Subject, release: str) -> Result:
        return walked(walk, wrong if next(calls) < times else subject, release)

    monkeypatch.setattr(campaign_module, "walked", at_first)
    return calls


@pytest.mark.parametrize("times", [1, 2])
def test_what_differs_once_is_no_cause(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """It is walked again; how it differed is kept. What differs twice is one."""
    _differs_at_first(monkeypatch, times)
    plan = [_history(Apply(guaranteed("a", 1)), Delete("a"))]
    scope = Scope(MACHINES, RELEASE, shrink=False)
    exploration = Exploration(open_subject("reference"), scope, at_a_time=1, plan=plan)
    (outcome,) = _walked(exploration)
    assert len(exploration.causes) == times - 1
    assert outcome.result.verdict == ("pass" if times == 1 else "fail")
    if times == 1:
        assert outcome.once is not None
        assert "shared pool" in outcome.once.explanation


def test_what_chance_decides_is_not_shrunk_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It differs twice; then no simpler history does, nor itself. What comes after the difference
    is left out all the same."""
    calls = _differs_at_first(monkeypatch, 2)
    steps = Apply(guaranteed("a", 2, *["10m"] * 60)), Delete("a")
    plan = [_history(*steps, Apply(best_effort("later")))]
    exploration, _ = _explored(open_subject("reference"), plan)
    assert [one.history.taken for one in exploration.causes] == [(Start(), *steps)]
    assert 35 <= next(calls) < 45


@pytest.mark.parametrize(("late", "most"), [(False, 25), (True, 16)])
def test_shrinking_ends_with_its_time(
    monkeypatch: pytest.MonkeyPatch, late: bool, most: int
) -> None:
    """However many simpler histories there are: there is one for each of forty containers. By this
    clock each walk takes ten seconds, and after fifteen walks those that confirm are left; after
    six, where the time of the exploration is over."""
    walks: list[Walk] = []

    def counted(walk: Walk, subject: Subject, release: str) -> Result:
        walks.append(walk)
        return walked(walk, subject, release)

    clock = SimpleNamespace(monotonic=lambda: 10.0 * len(walks))
    monkeypatch.setattr(campaign_module, "walked", counted)
    monkeypatch.setattr(campaign_module, "time", clock)
    monkeypatch.setattr(campaign_module, "_SHRINKING_WALKS", 0)
    plan = [_history(Apply(guaranteed("a", 2, *["10m"] * 40)), Delete("a"))]
    subject = open_subject("miniature:forgets-to-give-back")
    exploration = Exploration(subject, Scope((MACHINE,), RELEASE), at_a_time=1, plan=plan)
    list(exploration.explore(until=1.0 if late else 1_000.0))
    assert len(exploration.causes) == 1
    assert most - 10 <= len(walks) < most


def test_what_differs_only_in_haste_is_shrunk_again_with_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the haste of shrinking each node seems to differ, as on a host that is too busy."""
    subject = open_subject("miniature:forgets-to-give-back")
    waits: list[float | None] = []
    monkeypatch.setattr(subject, "hurry", waits.append, raising=False)
    (whole,) = plan = [_history(Apply(best_effort("b")), Apply(guaranteed("a", 2)), Delete("a"))]

    def in_haste(walk: Walk, subject: Subject, release: str) -> Result:
        is_late = waits[-1] is not None and waits[-1] < campaign_module.HASTE
        return walked(Walk(walk.name, whole) if is_late else walk, subject, release)

    monkeypatch.setattr(campaign_module, "walked", in_haste)
    exploration, _ = _explored(subject, plan)
    (cause,) = exploration.causes
    assert cause.history.taken == (Start(), Apply(guaranteed("a", 1)), Delete("a"))
    assert waits[-1] == campaign_module.HASTE
