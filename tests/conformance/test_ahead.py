"""The next scenario runs while the one before it waits, and none outlives the run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Set
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Final

import pytest
from xdist.remote import Producer

import topologies
from conformance.catalogue import catalogue
from conformance.judge import Case, Judgement, unjudged
from conformance.session.ahead import Ahead
from conformance.session.dealing import Steadily
from conformance.subjects.reference import ReferenceSubject

PATIENCE = 30.0
#: How many cases a worker has before it.
LEAST = 5


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
    return [Case(one, machine) for one in catalogue()[:6]]


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
    made.session = session or session_of()
    made.config = made.session.config
    made.session.items.append(made)
    return made


def session_of(*plugins: object) -> Any:
    """An empty session; ``plugins`` are those of pytest."""
    manager = SimpleNamespace(get_plugins=lambda: plugins)
    return SimpleNamespace(items=[], config=SimpleNamespace(pluginmanager=manager))


def collected(cases: list[Case], *plugins: object) -> list[Any]:
    """The items of one session."""
    session = session_of(*plugins)
    return [item(case, session=session) for case in cases]


class Interactor:
    """As a worker of xdist keeps the items that it was given."""

    def __init__(self, *queue: object) -> None:
        self.torun = self
        self._queue = queue

    def lock(self) -> contextlib.AbstractContextManager[tuple[object, ...]]:
        return contextlib.nullcontext(self._queue)


def test_the_next_case_runs_while_one_waits(ahead: Ahead, judge: Judge, cases: list[Case]) -> None:
    first, second, third, *_ = cases
    items = collected([first, second, third])
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


def test_more_are_begun_than_may_run(
    judge: Judge, cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a case that takes long leaves no thread without work."""
    monkeypatch.setattr("conformance.session.ahead.REACH", 2)
    ahead = Ahead(judge, judge.interrupt, at_a_time=2)
    items = collected(cases)
    ahead.pytest_runtest_protocol(items[0], items[1])
    for case in cases[1:4]:
        assert judge.begun[case.id].wait(PATIENCE)
        judge.allowed[case.id].set()
    assert not judge.begun[cases[4].id].wait(0.1)
    judge.interrupt()
    ahead.stop()


def test_a_worker_begins_what_it_was_given(judge: Judge, cases: list[Case]) -> None:
    """Which need not be what follows in the order of collection."""
    ahead = Ahead(judge, judge.interrupt, at_a_time=4)
    first, second, *_ = collected(cases, object(), Interactor(4, "shutdown"))
    ahead.pytest_runtest_protocol(first, second)
    assert all(judge.begun[cases[place].id].wait(PATIENCE) for place in (0, 1, 4))
    assert not any(judge.begun[cases[place].id].wait(0.1) for place in (2, 3))
    judge.interrupt()
    ahead.stop()


_OPTIONS: Final = {"tx": ["2*popen"], "maxschedchunk": None}
_OF_TWO: Final[Any] = SimpleNamespace(getoption=_OPTIONS.__getitem__, getvalue=_OPTIONS.__getitem__)


class Worker:
    """As xdist's controller sees a worker: what it is sent."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.sent: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def _dealing(cases: list[str], *, slow: Set[str] = frozenset()) -> tuple[Steadily, list[Worker]]:
    """A scheduler that has begun to deal cases out to two workers."""
    scheduler = Steadily(_OF_TWO, Producer("test", enabled=False), least=LEAST, slow=slow)
    workers = [Worker("gw0"), Worker("gw1")]
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, cases)
    scheduler.schedule()
    return scheduler, workers


@pytest.mark.parametrize("count", [3, 11, 100])
def test_each_worker_always_has_enough_before_it(count: int) -> None:
    """A worker that is slow is left with less in the end, and each case is dealt once."""
    scheduler, workers = _dealing([str(one) for one in range(count)])
    quick, slow = workers
    done = {"gw0": 0, "gw1": 0}
    for turn in range(2 * count):
        worker = slow if turn % 4 == 3 else quick
        if done[worker.gateway.id] < len(worker.sent):
            scheduler.mark_test_complete(worker, worker.sent[done[worker.gateway.id]])
            done[worker.gateway.id] += 1
        if scheduler.pending:
            assert {len(scheduler.node2pending[one]) for one in workers} == {LEAST}
    assert sorted(quick.sent + slow.sent) == list(range(count))
    assert len(quick.sent) >= len(slow.sent)
    assert quick.shutting_down


def test_slow_cases_are_dealt_early_and_not_together() -> None:
    scheduler, workers = _dealing(
        [f"test.py::test[case-{one}]" for one in range(80)], slow={"case-77", "case-78", "case-79"}
    )
    at = 0
    while scheduler.pending:
        for worker in workers:
            scheduler.mark_test_complete(worker, worker.sent[at])
        at += 1
    dealt = [one for pair in zip(*(worker.sent for worker in workers), strict=True) for one in pair]
    assert sorted(dealt) == list(range(80))
    places = [dealt.index(one) for one in (77, 78, 79)]
    assert places[0] < 20
    assert all(after - before > 10 for before, after in pairwise(places))
    assert places[-1] < 64


def test_no_more_run_than_may(judge: Judge, cases: list[Case]) -> None:
    ahead = Ahead(judge, judge.interrupt, at_a_time=1)
    first, second, *_ = cases
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
    first, second, third, *_ = cases
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
