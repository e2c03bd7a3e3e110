"""Scenarios that begin before their turn: while one waits for its kubelet, the next ones run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import pytest

from conformance.judge import Case, Judgement
from conformance.session.dealing import REACH, queue_of

PLUGIN: Final = "pinproof-ahead"


class Ahead:
    """A pytest plugin in the process that judges. ``judge`` is called in up to ``at_a_time``
    threads; ``interrupt`` is called at the end if a case that was begun is still unused."""

    def __init__(
        self, judge: Callable[[Case], Judgement], interrupt: Callable[[], None], *, at_a_time: int
    ) -> None:
        self._judge = judge
        self._interrupt = interrupt
        self._threads = ThreadPoolExecutor(at_a_time, thread_name_prefix=PLUGIN)
        self._reach = REACH * at_a_time
        self._begun: dict[str, Future[Judgement]] = {}
        self._places: dict[str, int] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Begin this case, the next one, and those that come after it in this process."""
        for one in (item, nextitem, *self._after(nextitem)):
            case = case_of(one)
            if case is not None:
                self._begin(case)

    def judgement(self, case: Case) -> Judgement:
        """Wait for a case; begin it first if it has not begun."""
        self._begin(case)
        judged = self._begun[case.id].result()  # after an interrupt it still counts as begun
        del self._begun[case.id]
        return judged

    def stop(self) -> None:
        """Begin no more cases, and wait until none runs. May be called twice."""
        if self._begun:
            self._interrupt()
        self._threads.shutdown(cancel_futures=True)

    def _after(self, item: pytest.Item | None) -> list[pytest.Item]:
        """The items that this process runs after its next one. In a worker of xdist they are those
        it has been given; without workers, those collected, in order."""
        if item is None:
            return []
        items, most = item.session.items, self._reach - 2
        given = queue_of(item.config)
        if given is not None:
            return [items[place] for place in given[:most]]
        if not self._places:
            self._places = {one.nodeid: place for place, one in enumerate(items)}
        after = self._places[item.nodeid] + 1
        return items[after : after + most]

    def _begin(self, case: Case) -> None:
        if case.id not in self._begun:
            self._begun[case.id] = self._threads.submit(self._judge, case)


def case_of(item: pytest.Item | None) -> Case | None:
    """The case of an item of the suite; ``None`` for any other."""
    found = asked_of(item)
    return found if isinstance(found, Case) else None


def asked_of(item: pytest.Item | None) -> object:
    """What an item of the suite is to judge; ``None`` for any other."""
    spec = vars(item).get("callspec") if item is not None else None
    return spec.params.get("pin_case") if spec is not None else None
