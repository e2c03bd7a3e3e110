"""Which cases a worker of pytest-xdist has before it, where it begins cases before their turn.

What belongs here: how the controller deals cases out, and what a worker sees of its own. What never
does: when a case is begun (:mod:`conformance.session.ahead`).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import pytest
from xdist.scheduler import LoadScheduling

#: How many cases are begun, of those that may run at a time: while the first one takes long, the
#: others do not come to an end of their work.
REACH = 2


class _Queue(Protocol):
    def lock(self) -> AbstractContextManager[Iterable[object]]:
        """The places of items, and a mark at the end, while nobody changes them."""


@runtime_checkable
class _Interactor(Protocol):
    """xdist's own plugin in a worker, whose module runs under a name that cannot be imported."""

    torun: _Queue


class Steadily(LoadScheduling):  # type: ignore[misc]  # xdist has no types
    """Each worker always has ``least`` cases before it, and gets another one for each that it has
    judged. Chunks of xdist's own shrink to two cases at the end, and none is left to begin."""

    def __init__(self, config: pytest.Config, log: Any, *, least: int) -> None:
        super().__init__(config, log)
        self.maxschedchunk = least

    def schedule(self) -> None:
        """Begin: xdist gives a short run's workers two cases each, and waits for the first."""
        super().schedule()
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


def queue_of(config: pytest.Config) -> list[int] | None:
    """The places, among the items of a worker, of those that it runs after its next one, as far as
    it was told. ``None``: this is no worker."""
    for plugin in config.pluginmanager.get_plugins():
        if isinstance(plugin, _Interactor):
            with plugin.torun.lock() as queue:
                return [one for one in queue if isinstance(one, int)]
    return None
