"""Ctrl-C, or being told to end, while a node is restored: the first goes on restoring, the second
says what a person can do instead."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from conformance.ending import ENDING


@contextlib.contextmanager
def second_interrupt_tells(
    manual: str, say: Callable[[str], None], *, already: bool = False
) -> Iterator[None]:
    """Inside, the first SIGINT, SIGTERM or SIGHUP is told and otherwise passed over; the second
    tells ``manual`` and raises ``KeyboardInterrupt``. ``already``: the first was before. What is
    ignored stays ignored. Only the main thread can be interrupted, so anywhere else nothing
    changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = int(already)

    def interrupted(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count < 2:
            say("restoring first; press Ctrl-C again to leave the node as it is")
            return
        say(f"not restored; {manual}")
        raise KeyboardInterrupt

    earlier = {
        sign: signal.signal(sign, interrupted)
        for sign in (signal.SIGINT, *ENDING)
        if signal.getsignal(sign) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for sign, handler in earlier.items():
            signal.signal(sign, handler)
