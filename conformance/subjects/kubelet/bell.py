"""Something happened: what everybody who waits on a node waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

#: Seconds between two looks, at first and at last.
_FIRST_LOOK: Final = 0.002
_LAST_LOOK: Final = 0.03


class Bell:
    """Rung by the kubelet's exit, its log and its calls to the runtime.

    What gives no sign when it changes (the kubelet's own view of its pods) is looked at again after
    a few milliseconds.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rings = 0

    @property
    def rings(self) -> int:
        """How often it was rung."""
        return self._rings

    def ring(self) -> None:
        """Wake all who wait."""
        with self._changed:
            self._rings += 1
            self._changed.notify_all()

    def until(
        self, done: Callable[[], bool], seconds: float, *, slowest: float = _LAST_LOOK
    ) -> bool:
        """Call ``done`` until it is true or ``seconds`` have passed; whether it is true. It is
        called after every ring and, ever more rarely, every ``slowest`` seconds."""
        deadline = time.monotonic() + seconds
        pause = _FIRST_LOOK
        while True:
            rings = self._rings  # what happens between looking and waiting is not missed
            if done():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._wait(rings, min(pause, left))
            pause = min(pause * 1.5, slowest)

    def _wait(self, rings: int, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._rings > rings, seconds)
