"""Signals that end a process are handled like Ctrl-C: what was begun is cleaned up."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Final, NoReturn

__all__ = ["ENDING", "deferring_interrupts", "ended_like_an_interrupt", "handled"]

#: Sent by a service manager or a CI system that ends a process, and by a terminal that closes.
ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def handled(
    signals: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Inside, ``handler`` gets these signals. One that is ignored stays ignored, as under
    ``nohup``. Only a main thread gets signals: in any other, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, handler)
        for number in signals
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def ended_like_an_interrupt() -> contextlib.AbstractContextManager[None]:
    """Inside, :data:`ENDING` raise ``KeyboardInterrupt``, where they are :func:`handled`."""

    def end(number: int, _: object) -> NoReturn:
        raise KeyboardInterrupt(signal.Signals(number).name)

    return handled(ENDING, end)


@contextlib.contextmanager
def deferring_interrupts() -> Iterator[None]:
    """Inside, an interrupt and :data:`ENDING` wait: ``KeyboardInterrupt`` is raised at the end. For
    what must not be cut off halfway, such as a process that is started and not yet known."""
    received: list[int] = []
    with handled((signal.SIGINT, *ENDING), lambda number, _: received.append(number)):
        yield
    if received:
        raise KeyboardInterrupt(signal.Signals(received[0]).name)
