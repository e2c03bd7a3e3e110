"""Which cases a worker of pytest-xdist has before it, where it begins cases before their turn.

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

#: How many cases are begun, of those that may run at a time: while the first one takes ten seconds,
#: the others do not come to an end of their work.
REACH = 6


class _Queue(Protocol):
    def lock(self) -> AbstractContextManager[Iterable[object]]:
        """The places of items, and a mark at the end, while nobody changes them."""


@runtime_checkable
class _Interactor(Protocol):
    """xdist's own plugin in a worker, whose module runs under a name that cannot be imported."""

    torun: _Queue


class Steadily(LoadScheduling):  # type: ignore[misc]  # xdist has no types
    """Each worker always has ``least`` cases before it, and gets another one for each that it has
    judged. Chunks of xdist's own shrink to two cases at the end, and none is left to begin.
    The ``slow`` ones, cases by their ids, come early, and never many of them together: what waits
    takes no processor."""

    def __init__(
        self, config: pytest.Config, log: Any, *, least: int, slow: Collection[str]
    ) -> None:
        super().__init__(config, log)
        self.maxschedchunk = least
        self._slow = slow

    def schedule(self) -> None:
        """Begin: xdist gives a short run's workers two cases each, and waits for the first."""
        super().schedule()
        slow = [at for at in self.pending if _id_of(self.collection[at]) in self._slow]
        self.pending[:] = _spread(slow, sorted({*self.pending} - {*slow}))
        for node in self.nodes if self.pending else ():
            self.check_schedule(node)

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        """Fill up what this worker has before it."""
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
    """Of a case, by the name of its item."""
    return item.partition("[")[2].removesuffix("]")


class Nodewise(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """One real node is one unit of work: all of its scenarios go to one worker. xdist's own groups
    (``--dist loadgroup``) would say the same, but pytest 9.2 no longer sees the ids that xdist 3.8
    gives to tests of a group, and deals them out."""

    def _split_scope(self, nodeid: str) -> str:
        _, at, machine = _id_of(nodeid).rpartition("@")
        return whole(machine) if at else ""


def queue_of(config: pytest.Config) -> list[int] | None:
    """The places, among the items of a worker, of those that it runs after its next one, as far as
    it was told. ``None``: this is no worker."""
    for plugin in config.pluginmanager.get_plugins():
        if isinstance(plugin, _Interactor):
            with plugin.torun.lock() as queue:
                return [one for one in queue if isinstance(one, int)]
    return None
