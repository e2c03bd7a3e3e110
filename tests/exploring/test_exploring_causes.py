"""What one fault does is told as one cause, and what two faults do as two."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import pytest

from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.subject import Subject
from conformance.subjects import open_subject
from conformance.subjects.miniatures import MINIATURES, Miniature
from conformance.subjects.miniatures.managers import LiftsQuotasOfPods
from conformance.subjects.miniatures.policies import (
    ForgetsToGiveBack,
    IgnoresWholeCores,
    KeepsACPUShared,
)
from hunting.exploring.campaign import Exploration, Outcome, Scope
from hunting.exploring.driving import Walk, walked
from hunting.exploring.history import History
from hunting.scope import Task
from reference import CPUSet
from reference.steps import Apply, Delete, Kind, KubeletConfig, Start, Step, Stop

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


def _plan(fault: str) -> Iterator[History]:
    for steps in _SHOWN[fault]:
        options = {"full-pcpus-only": "true"} if fault == "ignores-full-pcpus-only" else {}
        config = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]), policy_options=options)
        yield History.of(Task(RELEASE, MACHINE, config), (Start(), *steps))


def _explored(subject: Subject, plan: Sequence[History]) -> tuple[Exploration, list[Outcome]]:
    exploration = Exploration(subject, Scope((MACHINE,), RELEASE), at_a_time=1, plan=plan)
    with closing(exploration.explore(until=time.monotonic() + 240)) as outcomes:
        return exploration, list(outcomes)


@pytest.mark.parametrize("fault", _SHOWN)
def test_what_one_fault_does_is_one_cause(fault: str) -> None:
    """However the kubelet gets there, and with whatever containers."""
    plan = list(_plan(fault))
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
