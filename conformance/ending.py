"""A signal to end, which is like Ctrl-C: what was begun is taken away again."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Final, NoReturn

__all__ = ["ENDING", "deferring_interrupts", "ended_like_an_interrupt", "handled"]

#: How a service manager or a CI system ends a process, and how a terminal that goes away does.
ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def handled(
    signals: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Inside, ``handler`` gets these signals. One that is ignored stays ignored, as under
    ``nohup``; only a main thread gets signals, so anywhere else nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        sign: signal.signal(sign, handler)
        for sign in signals
        if signal.getsignal(sign) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for sign, earlier in before.items():
            signal.signal(sign, earlier)


def ended_like_an_interrupt() -> contextlib.AbstractContextManager[None]:
    """Inside, :data:`ENDING` raise ``KeyboardInterrupt``, where they are :func:`handled`."""

    def end(number: int, _: object) -> NoReturn:
        raise KeyboardInterrupt(signal.Signals(number).name)

    return handled(ENDING, end)


@contextlib.contextmanager
def deferring_interrupts() -> Iterator[None]:
    """Inside, an interrupt and :data:`ENDING` wait: ``KeyboardInterrupt`` is raised at the end. For
    what must not be cut off halfway, such as a process that is started and not yet known."""
    came: list[int] = []
    with handled((signal.SIGINT, *ENDING), lambda number, _: came.append(number)):
        yield
    if came:
        raise KeyboardInterrupt(signal.Signals(came[0]).name)
