"""Several processes search the tasks of one campaign.

What belongs here: which process searches which task, and what it sends back. What never does: what
is kept of that (``campaign``), and a search (``walk``).

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

#: Seconds after which a campaign that waits for its processes looks whether it is to stop.
_LOOK: Final = 0.2


class SearchOptions(NamedTuple):
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
    """A task was searched in full; ``met``: how often it met each find, by the find's key."""

    number: int
    tally: Tally
    met: dict[str, int]


#: ``None``: no process has sent anything for :data:`_LOOK`.
News: TypeAlias = Searched | Find | None
_Work: TypeAlias = tuple[int, Task]


class Processes:
    """``count`` processes that search; they end with the ``with`` block."""

    def __init__(self, count: int, options: SearchOptions) -> None:
        self._count, self._options = count, options
        self._running: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Processes:
        self._running.update(begun(self._count, _serve, self._options))
        return self

    def __exit__(self, *_: object) -> None:
        for connection, process in self._running.items():
            process.kill()
            process.join()
            connection.close()

    def search(self, work: Sequence[_Work]) -> Iterator[News]:
        """What the processes send until every task is searched. A process that is done with a task
        gets the next one. Raises :class:`SubjectError` where a process dies."""
        left, busy = list(reversed(work)), set(self._running)
        for connection in self._running:
            self._hand_out(connection, left, busy)
        while busy:
            ready = [one for one in wait(list(busy), _LOOK) if isinstance(one, Connection)]
            if not ready:
                yield None
            for connection in ready:
                news = self._received(connection)
                yield news
                if isinstance(news, Searched):
                    self._hand_out(connection, left, busy)

    def pending(self) -> Iterator[Find]:
        """The finds that processes have sent and :meth:`search` has not received."""
        for connection in self._running:
            with suppress(EOFError, OSError):
                while connection.poll():
                    news = connection.recv()
                    if isinstance(news, Find):
                        yield news

    def _received(self, connection: Connection) -> News:
        try:
            news: News = connection.recv()
        except (EOFError, OSError) as error:
            self._running[connection].join()
            status = self._running[connection].exitcode
            raise SubjectError(f"a process of the hunt has ended with status {status}") from error
        return news

    @staticmethod
    def _hand_out(connection: Connection, left: list[_Work], busy: set[Connection]) -> None:
        if left:
            with suppress(OSError):  # it has died: receiving from it reports that
                connection.send(left.pop())
        else:
            busy.discard(connection)


def _serve(connection: Connection, options: SearchOptions) -> None:
    """Search each task that is sent, until the connection or the campaign's process ends. The
    campaign alone handles an interrupt."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    campaign = os.getppid()
    finds, sent = Collection(blind=options.blind), dict[str, int]()
    with suppress(EOFError, OSError):
        while True:
            number, task = connection.recv()
            tally, before = Tally(), finds.met()
            for broken in options.search(number, task, tally, lambda: os.getppid() != campaign):
                if finds.add(broken) is not None:
                    _send_finds(connection, finds, sent)
            _send_finds(connection, finds, sent)
            connection.send(Searched(number, tally, finds.met() - before))


def _send_finds(connection: Connection, finds: Collection, sent: dict[str, int]) -> None:
    """Send each find that was met since it was sent, with how often it was met since then.

    ``sent`` has by key how often each find had been met when it was sent last.
    """
    for find in finds:
        more = find.met - sent.get(find.key, 0)
        if more:
            connection.send(msgspec.structs.replace(find, met=more))
            sent[find.key] = find.met
