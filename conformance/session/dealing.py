"""Which cases a worker of pytest-xdist runs next, so that it can begin them before their turn.

What belongs here: how the controller deals cases out, and what a worker sees of its own. What never
does: when a case is begun (:mod:`conformance.session.ahead`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import pytest
from xdist.scheduler import LoadScheduling, LoadScopeScheduling

from topologies import whole

#: How many cases are begun for each that may run at a time: if the first takes ten seconds, the
#: other threads still have work.
REACH = 6


class _Queue(Protocol):
    def lock(self) -> AbstractContextManager[Iterable[object]]:
        """The places of items, and a mark at the end; the queue does not change inside."""


@runtime_checkable
class _Interactor(Protocol):
    """xdist's own plugin in a worker, whose module runs under a name that cannot be imported."""

    torun: _Queue


class Steadily(LoadScheduling):  # type: ignore[misc]  # xdist has no types
    """Each worker always has ``least`` cases in its queue, and gets another one for each that it
    has judged. xdist's own chunks shrink to two cases at the end, and leave no case to begin early.
    The ``slow`` cases (ids) come early, and never many of them together: a case that waits uses no
    processor."""

    def __init__(
        self, config: pytest.Config, log: Any, *, least: int, slow: Collection[str]
    ) -> None:
        super().__init__(config, log)
        self.maxschedchunk = least
        self._slow = slow

    def schedule(self) -> None:
        """Begin, and fill up every worker's queue: xdist may give each only two cases."""
        super().schedule()
        slow = [at for at in self.pending if _id_of(self.collection[at]) in self._slow]
        self.pending[:] = _spread(slow, sorted({*self.pending} - {*slow}))
        for node in self.nodes if self.pending else ():
            self.check_schedule(node)

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        """Fill up this worker's queue."""
        if node.shutting_down:
            return
        if not self.pending:
            node.shutdown()
            return
        lacking = self.maxschedchunk - len(self.node2pending[node])
        if lacking > 0:
            self._send_tests(node, lacking)


def _spread(slow: Sequence[int], others: Sequence[int]) -> Iterator[int]:
    """``slow`` among the first four fifths of ``others``."""
    left = iter(slow)
    every = max(1, len(others) * 4 // 5 // max(1, len(slow)))
    for number, one in enumerate(others):
        if number % every == 0:
            yield from islice(left, 1)
        yield one
    yield from left


def _id_of(item: str) -> str:
    """The id of a case in the name of its item."""
    return item.partition("[")[2].removesuffix("]")


class Nodewise(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """One real node is one unit of work: all of its scenarios go to one worker. xdist's own groups
    (``--dist loadgroup``) do not work: pytest 9.2 no longer sees the ids that xdist 3.8 gives to
    tests of a group, so they go to several workers."""

    def _split_scope(self, nodeid: str) -> str:
        _, at, machine = _id_of(nodeid).rpartition("@")
        return whole(machine) if at else ""


def queue_of(config: pytest.Config) -> list[int] | None:
    """The places, among the items of a worker, of those that it runs after its next one, as far as
    it knows them; ``None`` if this process is not a worker."""
    for plugin in config.pluginmanager.get_plugins():
        if isinstance(plugin, _Interactor):
            with plugin.torun.lock() as places:
                return [one for one in places if isinstance(one, int)]
    return None
