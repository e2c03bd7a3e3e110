"""Being told to end, which is like Ctrl-C: what was begun is taken away again.

What belongs here: which signals say so, and how long. What never does: what there is to take away.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Final, NoReturn

__all__ = ["ENDING", "ended_like_an_interrupt"]

#: How a service manager or a CI system ends a process, and how a terminal that goes away does.
ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def ended_like_an_interrupt() -> Iterator[None]:
    """Inside, :data:`ENDING` raise ``KeyboardInterrupt``. One that is ignored stays ignored, as
    under ``nohup``; only a main thread gets signals, so anywhere else nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> NoReturn:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {
        sign: signal.signal(sign, end)
        for sign in ENDING
        if signal.getsignal(sign) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
