"""The next scenario runs while the one before it waits, and none outlives the run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import topologies
from conformance.catalogue import catalogue
from conformance.judge import Case, Judgement, unjudged
from conformance.session.ahead import Ahead
from conformance.subjects.reference import ReferenceSubject

PATIENCE = 30.0


class Judge:
    """Judges a case once it is allowed to, or interrupted."""

    def __init__(self) -> None:
        self.begun: dict[str, threading.Event] = {}
        self.allowed: dict[str, threading.Event] = {}
        self.interrupted = threading.Event()

    def expect(self, *cases: Case) -> None:
        for case in cases:
            self.begun[case.id] = threading.Event()
            self.allowed[case.id] = threading.Event()

    def __call__(self, case: Case) -> Judgement:
        self.begun[case.id].set()
        self.allowed[case.id].wait(PATIENCE)
        reason = "interrupted" if self.interrupted.is_set() else "judged"
        return Judgement(unjudged(case, ReferenceSubject(), reason, case.id))

    def interrupt(self) -> None:
        self.interrupted.set()
        for one in self.allowed.values():
            one.set()


@pytest.fixture
def cases() -> list[Case]:
    machine = topologies.machine("1s-1n-4c-smt2")
    return [Case(one, machine) for one in catalogue()[:3]]


@pytest.fixture
def judge(cases: list[Case]) -> Judge:
    made = Judge()
    made.expect(*cases)
    return made


@pytest.fixture
def ahead(judge: Judge) -> Iterator[Ahead]:
    made = Ahead(judge, judge.interrupt, at_a_time=2)
    yield made
    judge.interrupt()
    made.stop()


def item(case: Case, *, session: Any = None) -> Any:
    """As pytest has an item of the suite; alone in its session, unless one is given."""
    made = SimpleNamespace(callspec=SimpleNamespace(params={"pin_case": case}), nodeid=case.id)
    made.session = session or SimpleNamespace(items=[made])
    return made


def collected(cases: list[Case]) -> list[Any]:
    """The items of one session."""
    session = SimpleNamespace(items=[])
    session.items += [item(case, session=session) for case in cases]
    return list(session.items)


def test_the_next_case_runs_while_one_waits(ahead: Ahead, judge: Judge, cases: list[Case]) -> None:
    first, second, third = cases
    items = collected(cases)
    ahead.pytest_runtest_protocol(items[0], items[1])
    assert judge.begun[first.id].wait(PATIENCE)
    assert judge.begun[second.id].wait(PATIENCE)
    judge.allowed[second.id].set()
    judge.allowed[first.id].set()
    assert ahead.judgement(first).result.explanation == first.id
    ahead.pytest_runtest_protocol(items[1], items[2])
    assert judge.begun[third.id].wait(PATIENCE)
    assert ahead.judgement(second).result.explanation == second.id
    judge.allowed[third.id].set()
    ahead.pytest_runtest_protocol(items[2], None)
    assert ahead.judgement(third).result.explanation == third.id
    ahead.stop()
    assert not judge.interrupted.is_set(), "nothing ran any more"


def test_the_case_that_was_collected_after_the_next_one_runs_as_well(
    judge: Judge, cases: list[Case]
) -> None:
    ahead = Ahead(judge, judge.interrupt, at_a_time=3)
    first, second, _ = collected(cases)
    ahead.pytest_runtest_protocol(first, second)
    assert all(judge.begun[case.id].wait(PATIENCE) for case in cases)
    judge.interrupt()
    ahead.stop()


def test_a_case_that_another_worker_was_given_is_ended_with_the_run(
    judge: Judge, cases: list[Case]
) -> None:
    ahead = Ahead(judge, judge.interrupt, at_a_time=3)
    first, second, _ = collected(cases)
    ahead.pytest_runtest_protocol(first, second)
    judge.allowed[cases[0].id].set()
    judge.allowed[cases[1].id].set()
    assert ahead.judgement(cases[0]).result.explanation == cases[0].id
    assert judge.begun[cases[2].id].wait(PATIENCE)
    ahead.pytest_runtest_protocol(second, None)
    assert ahead.judgement(cases[1]).result.explanation == cases[1].id
    ahead.stop()
    assert judge.interrupted.is_set()


def test_no_more_run_than_may(judge: Judge, cases: list[Case]) -> None:
    ahead = Ahead(judge, judge.interrupt, at_a_time=1)
    first, second, _ = cases
    ahead.pytest_runtest_protocol(item(first), item(second))
    assert judge.begun[first.id].wait(PATIENCE)
    assert not judge.begun[second.id].wait(0.1)
    judge.allowed[first.id].set()
    assert judge.begun[second.id].wait(PATIENCE)
    judge.interrupt()
    ahead.stop()


def test_the_end_of_a_run_interrupts_what_was_begun(
    ahead: Ahead, judge: Judge, cases: list[Case]
) -> None:
    """As after ``-x`` or Ctrl-C: nothing runs on, and what has not begun never does."""
    first, second, third = cases
    ahead.pytest_runtest_protocol(item(first), item(second))
    ahead.pytest_runtest_protocol(item(third), None)
    assert judge.begun[second.id].wait(PATIENCE)
    ahead.stop()
    assert judge.interrupted.is_set()
    assert not judge.begun[third.id].is_set()
    ahead.stop()


def test_tests_of_others_are_left_alone(ahead: Ahead) -> None:
    ahead.pytest_runtest_protocol(SimpleNamespace(), None)  # type: ignore[arg-type]
    ahead.stop()
