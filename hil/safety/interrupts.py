"""Ctrl-C, or another signal to end, while a node is restored: after the first, restoring goes on;
the second says what a person can do instead."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from types import FrameType

from conformance.ending import ENDING, handled


def second_interrupt_tells(
    manual: str, say: Callable[[str], None], *, already: bool = False
) -> contextlib.AbstractContextManager[None]:
    """Inside, the first SIGINT, SIGTERM or SIGHUP is answered and otherwise passed over; the second
    says ``manual`` and raises ``KeyboardInterrupt``. ``already``: the first was before. Where
    they are not :func:`~conformance.ending.handled`, nothing changes."""
    count = int(already)

    def interrupted(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count < 2:
            say("restoring first; press Ctrl-C again to leave the node as it is")
            return
        say(f"not restored; {manual}")
        raise KeyboardInterrupt

    return handled((signal.SIGINT, *ENDING), interrupted)
