"""Processes that each do one task after another.

Each process has its own connection, so that one that dies in the middle of an answer spoils no
other's. ``ProcessPoolExecutor`` has one for all, and waits forever for a process that hangs.
"""

from __future__ import annotations

import math
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")

#: Called and entered once in each process; it gives the function that does a task there.
Begin: TypeAlias = Callable[..., AbstractContextManager[Callable[[_Task], _Answer]]]

#: Seconds that a process has to clean up after SIGTERM.
_ENDS: Final = 10.0
#: Seconds that the kernel has to end a process after SIGKILL.
_DIES: Final = 5.0


def begun(
    count: int, serve: Callable[..., None], *given: object
) -> Iterator[tuple[Connection, BaseProcess]]:
    """Start ``count`` processes that run ``serve(connection, *given)``; each comes with the other
    end of its connection. They end with this process."""
    # A forked process would share the threads of gRPC.
    context = multiprocessing.get_context("spawn")
    for _ in range(count):
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, *given), daemon=True)
        process.start()
        theirs.close()
        yield ours, process


class Lost(NamedTuple):
    """In place of an answer: a task's process has died, or hangs. ``why``: the verb of a sentence
    about it, ``has died``."""

    why: str


class _Raised(NamedTuple):
    error: Exception


class Processes(Generic[_Task, _Answer]):
    """``count`` processes, in each of which ``begin(*given)`` is entered. Leaving the context ends
    them: each cleans up, and one that does not is killed."""

    def __init__(
        self, count: int, begin: Begin[_Task, _Answer], given: tuple[object, ...] = ()
    ) -> None:
        self._count, self._begin, self._given = count, begin, given
        self._running: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Processes[_Task, _Answer]:
        self._running.update(begun(self._count, _serve, self._begin, self._given))
        return self

    def __exit__(self, *_: object) -> None:
        self._end([*self._running])

    def do(
        self, tasks: Iterable[_Task], *, until: float = math.inf, patience: float = math.inf
    ) -> Iterator[tuple[_Task, _Answer | Lost]]:
        """Each task and its answer, in the order in which they end. No task begins after ``until``
        (of the monotonic clock). A process that takes more than ``patience`` seconds for one is
        killed. If no process is left, the remaining tasks are lost.

        An exception that a task raises is raised here. If the caller closes the iterator early, the
        processes at work are ended.
        """
        left, why = deque(tasks), "has died"
        busy: dict[Connection, tuple[_Task, float]] = {}
        try:
            while True:
                if time.monotonic() < until:
                    self._hand_out(left, busy)
                if not busy:
                    break
                for connection in _ready(busy, patience):
                    task, _ = busy.pop(connection)
                    answer = self._received(connection)
                    why = answer.why if isinstance(answer, Lost) else why
                    yield task, answer
                now = time.monotonic()
                overdue = [one for one, (_, began) in busy.items() if now - began >= patience]
                for connection in overdue:
                    task, _ = busy.pop(connection)
                    self._running[connection].kill()
                    self._end([connection])
                    why = f"has not answered for {patience:g} s"
                    yield task, Lost(why)
        finally:
            self._end([*busy])
        if not self._running:
            yield from ((task, Lost(why)) for task in left)

    def _hand_out(self, left: deque[_Task], busy: dict[Connection, tuple[_Task, float]]) -> None:
        for connection in self._running:
            if left and connection not in busy:
                busy[connection] = left.popleft(), time.monotonic()
                with suppress(OSError):  # a dead process shows when its answer is read
                    connection.send(busy[connection][0])

    def _received(self, connection: Connection) -> _Answer | Lost:
        try:
            received = connection.recv()
        except (EOFError, OSError):
            self._end([connection])
            return Lost("has died")
        if isinstance(received, _Raised):
            raise received.error
        answer: _Answer = received
        return answer

    def _end(self, ending: Collection[Connection]) -> None:
        """End those of these processes that still run, within a bounded time."""
        processes = [self._running.pop(one) for one in ending if one in self._running]
        for process in processes:
            process.terminate()
        until = time.monotonic() + _ENDS
        try:
            for process in processes:
                process.join(max(0.0, until - time.monotonic()))
        finally:
            for process in processes:
                process.kill()
                process.join(_DIES)
            for connection in ending:
                connection.close()


def _ready(busy: dict[Connection, tuple[_Task, float]], patience: float) -> list[Connection]:
    """The connections of processes that have answered or died; none once a process is overdue."""
    left = min(began for _, began in busy.values()) + patience - time.monotonic()
    ready = wait([*busy], None if math.isinf(left) else max(left, 0.0))
    return [one for one in ready if isinstance(one, Connection)]


def _serve(connection: Connection, begin: Begin[Any, Any], given: tuple[object, ...]) -> None:
    """Do each task that is sent, until the connection ends or SIGTERM comes. SIGINT of a terminal
    is left to the parent process."""
    signal.signal(signal.SIGINT, _go_on)
    signal.signal(signal.SIGTERM, _leave)
    with begin(*given) as do:
        while True:
            try:
                task = connection.recv()
            except (EOFError, OSError):
                return  # the parent process has died
            connection.send(_answer(do, task))


def _answer(do: Callable[[Any], Any], task: object) -> object:
    try:
        return do(task)
    except Exception as error:
        return _Raised(error)


def _go_on(*_: object) -> None:
    """A handler that does nothing: programs that are started would inherit an ignored signal."""


def _leave(*_: object) -> None:
    signal.signal(signal.SIGTERM, _go_on)  # further signals must not disturb the cleanup
    raise SystemExit(0)
