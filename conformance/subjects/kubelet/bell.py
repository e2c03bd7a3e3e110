"""Wakes the threads that wait for a change of a node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

#: Seconds between two looks, at first and at last.
_FIRST_LOOK: Final = 0.002
_LAST_LOOK: Final = 0.03
#: The rest after a look is so many times as long as the look, even if the bell rings, so that
#: twelve nodes on two processors leave time for their kubelets. It is bounded, since a look that
#: waited for an answer used no processor.
_REST: Final = 2
_LONGEST_REST: Final = 0.2


class Bell:
    """The kubelet's exit, its log and its calls to the runtime ring it.

    A change that rings no bell (the kubelet's own view of its pods) is seen by looking again after
    a few milliseconds.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        #: How often it was rung.
        self.rings = 0

    def ring(self) -> None:
        """Wake all who wait."""
        with self._changed:
            self.rings += 1
            self._changed.notify_all()

    def until(
        self, done: Callable[[], bool], seconds: float, *, slowest: float = _LAST_LOOK
    ) -> bool:
        """Call ``done`` until it is true or ``seconds`` have passed; returns whether it is true. It
        is called after every ring, and else at growing intervals of at most ``slowest`` seconds. A
        long call is followed by a longer rest."""
        deadline = time.monotonic() + seconds
        pause = _FIRST_LOOK
        while True:
            began, rings = time.monotonic(), self.rings  # before it looks: no ring is missed
            if done():
                return True
            now = time.monotonic()
            if now >= deadline:
                return False
            time.sleep(min(_REST * (now - began), _LONGEST_REST, deadline - now))
            self._wait(rings, min(pause, max(deadline - time.monotonic(), 0)))
            pause = min(pause * 1.5, slowest)

    def _wait(self, rings: int, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.rings > rings, seconds)
