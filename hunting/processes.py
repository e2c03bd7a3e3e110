"""Several processes search the tasks of one campaign.

What belongs here: who searches which task, and what comes back. What never does: what is kept of it
(``campaign``), and a search (``walk``).

Each process makes finds by itself, so that only finds are sent, not every broken promise. A process
ends when its connection does, so that none outlives the campaign.

``conformance.processes`` has one answer for each task, and goes on where a process dies. Here a
task sends each find as it is made, and a process that dies ends the campaign.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, NamedTuple, TypeAlias

import msgspec

from conformance.processes import begun
from conformance.subject import SubjectError
from hunting.finds import Collection, Find
from hunting.scope import Task
from hunting.walk import Broken, Tally, search
from hunting.wandering import wander

#: How often a campaign that waits for its processes looks whether it is to stop, in seconds.
_LOOK: Final = 0.2


class How(NamedTuple):
    """How every task is searched."""

    depth: int
    ignored: tuple[str, ...]
    blind: bool
    families: tuple[str, ...] = ()
    seed: int | None = None

    def search(
        self, number: int, task: Task, tally: Tally, stop: Callable[[], bool]
    ) -> Iterator[Broken]:
        """The task of this number: by breadth, or with a ``seed`` by random walks."""
        by = search if self.seed is None else partial(wander, seed=f"{self.seed}/{number}")
        left_out, families = self.ignored, self.families
        return by(task, self.depth, tally=tally, ignored=left_out, families=families, stop=stop)


class Searched(NamedTuple):
    """A task was searched in full; ``met``: how often it met each find, by its key."""

    number: int
    tally: Tally
    met: dict[str, int]


#: ``None`` where nothing has come for a while.
News: TypeAlias = Searched | Find | None
_Work: TypeAlias = tuple[int, Task]


class Processes:
    """So many processes that search; leave the context to end them."""

    def __init__(self, count: int, how: How) -> None:
        self._count, self._how = count, how
        self._running: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Processes:
        self._running.update(begun(self._count, _serve, self._how))
        return self

    def __exit__(self, *_: object) -> None:
        for connection, process in self._running.items():
            process.kill()
            process.join()
            connection.close()

    def search(self, work: Sequence[_Work]) -> Iterator[News]:
        """What the processes say until every task is searched; each gets the next one when it is
        done with one. Raises :class:`SubjectError` where a process dies."""
        left, busy = list(reversed(work)), set(self._running)
        for connection in self._running:
            self._hand_out(connection, left, busy)
        while busy:
            ready = [one for one in wait(list(busy), _LOOK) if isinstance(one, Connection)]
            if not ready:
                yield None
            for connection in ready:
                said = self._said(connection)
                yield said
                if isinstance(said, Searched):
                    self._hand_out(connection, left, busy)

    def pending(self) -> Iterator[Find]:
        """The finds that have been sent by now."""
        for connection in self._running:
            with suppress(EOFError, OSError):
                while connection.poll():
                    said = connection.recv()
                    if isinstance(said, Find):
                        yield said

    def _said(self, connection: Connection) -> News:
        try:
            said: News = connection.recv()
        except (EOFError, OSError) as error:
            self._running[connection].join()
            status = self._running[connection].exitcode
            raise SubjectError(f"a process of the hunt has ended with status {status}") from error
        return said

    @staticmethod
    def _hand_out(connection: Connection, left: list[_Work], busy: set[Connection]) -> None:
        if left:
            with suppress(OSError):  # it has died, which shows when it is heard
                connection.send(left.pop())
        else:
            busy.discard(connection)


def _serve(connection: Connection, how: How) -> None:
    """Search what is sent until the connection ends, or the campaign's process does. An interrupt
    is the campaign's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    campaign = os.getppid()
    finds, told = Collection(blind=how.blind), dict[str, int]()
    with suppress(EOFError, OSError):
        while True:
            number, task = connection.recv()
            tally, before = Tally(), finds.met()
            for broken in how.search(number, task, tally, lambda: os.getppid() != campaign):
                if finds.add(broken) is not None:
                    _tell(connection, finds, told)
            _tell(connection, finds, told)
            connection.send(Searched(number, tally, finds.met() - before))


def _tell(connection: Connection, finds: Collection, told: dict[str, int]) -> None:
    """Each find that was met since it was told, with how often."""
    for find in finds:
        more = find.met - told.get(find.key, 0)
        if more:
            connection.send(msgspec.structs.replace(find, met=more))
            told[find.key] = find.met
