"""Waits for a thoroughly broken subject: cut short only for what whole waits have shown before."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Final

import pytest
from msgspec.structs import replace

from conformance.lockstep import LockstepNode, comparison
from conformance.pods import best_effort, guaranteed
from conformance.results import Difference, Result
from conformance.scenario import Scenario, Source
from conformance.subjects.reference import ModelNode
from conformance.waiting import ENOUGH, Waiting
from hunting.exploring.driving import Walk, walked
from hunting.exploring.history import History
from hunting.scope import Task
from reference import CPUSet, Node
from reference.steps import Apply, KubeletConfig, Start, Step
from reference.view import Phase, PodView, View
from tests.conformance.doctored import Doctored
from tests.conformance.judging import judged

RELEASE: Final = "1.36"
PENDING = Difference(what="pod a", expected="running, Guaranteed", seen="pending")


def test_a_way_is_known_once_enough_waits_ended_in_it() -> None:
    waiting = Waiting()
    for name in ("a", "b", "c"):
        assert not waiting.is_known("Apply", [PENDING])
        waiting.note("Apply", [replace(PENDING, what=f"pod {name}")])
    assert waiting.is_known("Apply", [PENDING])
    assert not waiting.is_known("Start", [PENDING]), "another step"
    rejected = Difference(what="pod a", expected="running", seen="rejected: why")
    assert not waiting.is_known("Apply", [rejected]), "another way"
    assert not waiting.is_known("Apply", [PENDING, rejected]), "something else besides"
    assert not waiting.is_known("Apply", []), "nothing is owed"
    waiting.forget()
    assert not waiting.is_known("Apply", [PENDING])


class TakesNothingUp(Doctored):
    """A kubelet that leaves pods pending, with a deadline of 15 s by a clock of its own."""

    def __init__(self) -> None:
        super().__init__(lambda node, *_: Idle(self, node._node))
        self.now = 0.0
        self.takes = False


class Idle(ModelNode):
    def __init__(self, subject: TakesNothingUp, node: Node) -> None:
        super().__init__(node)
        self._subject = subject
        self._names: list[str] = []

    def do(self, step: Step) -> None:
        if isinstance(step, Apply) and not self._subject.takes:
            self._names.append(step.pod.name)
        else:
            super().do(step)

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        deadline = self._subject.now + 15
        while True:
            view = super().view()
            view.pods.update(dict.fromkeys(self._names, PodView(Phase.PENDING)))  # type: ignore[attr-defined]
            if satisfied(view) or self._subject.now >= deadline:
                return view
            self._subject.now += 0.5


def _applies(node: LockstepNode) -> None:
    node.boot()
    node.apply(guaranteed("a", 1))


def _applies_another(node: LockstepNode) -> None:
    node.boot()
    node.apply(best_effort("b"))


def _judged(subject: TakesNothingUp, body: Callable[[LockstepNode], None]) -> tuple[Result, float]:
    scenario = Scenario("test/one", "A fact", Source("a document", "https://example.org/"), body)
    before = subject.now
    return judged(scenario, "1s-1n-4c-smt2", subject), subject.now - before


@pytest.fixture
def subject(monkeypatch: pytest.MonkeyPatch) -> TakesNothingUp:
    """Time passes by its clock."""
    made = TakesNothingUp()
    monkeypatch.setattr(comparison, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def test_a_broken_kubelet_is_waited_for_less_after_a_few_scenarios(subject: TakesNothingUp) -> None:
    """The result says so; a pass brings the whole wait back."""
    for _ in range(ENOUGH):
        result, took = _judged(subject, _applies)
        assert (result.verdict, took) == ("fail", 15.0)
        assert "waited" not in result.reason
    result, took = _judged(subject, _applies)
    assert (result.verdict, took) == ("fail", 5.0)
    assert result.reason.endswith(
        "(waited 5 s: 3 full waits before ended with the same differences)"
    )
    assert "waited 5 s" in result.explanation
    subject.takes = True
    assert _judged(subject, _applies)[0].verdict == "pass"
    subject.takes = False
    assert _judged(subject, _applies)[1] == 15.0


def test_a_failure_in_another_way_is_waited_for_in_full(subject: TakesNothingUp) -> None:
    """Other pods keep the difference in the pod alone, which is known; the one in the state file
    of a request for exclusive CPUs is not."""
    for _ in range(ENOUGH):
        assert _judged(subject, _applies_another)[1] == 15.0
    assert _judged(subject, _applies_another)[1] == 5.0
    assert _judged(subject, _applies)[1] == 15.0


def test_a_drawn_history_is_always_waited_for_whole(subject: TakesNothingUp) -> None:
    """Others are walked in haste, and end like this on a busy host."""
    config = KubeletConfig(reserved_system_cpus=CPUSet([0]))
    steps = (Start(), Apply(guaranteed("a", 1)))
    history = History.of(Task(RELEASE, "1s-1n-4c-smt2", config), steps)
    for _ in range(ENOUGH + 1):
        before = subject.now
        assert walked(Walk("one", history), subject, RELEASE).verdict == "fail"
        assert subject.now - before == 15.0
