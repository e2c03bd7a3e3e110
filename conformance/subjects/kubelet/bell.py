"""Something happened: what everybody who waits on a node waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

#: Seconds between two looks, at first and at last.
_FIRST_LOOK: Final = 0.002
_LAST_LOOK: Final = 0.03
#: After a look nothing is looked at for so many times as long as the look took, rings or none, so
#: that twelve nodes on two processors leave some to their kubelets. A look that waited for an
#: answer took no processor: the rest has an end.
_REST: Final = 2
_LONGEST_REST: Final = 0.2


class Bell:
    """Rung by the kubelet's exit, its log and its calls to the runtime.

    What gives no sign when it changes (the kubelet's own view of its pods) is looked at again after
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
        """Call ``done`` until it is true or ``seconds`` have passed; whether it is true. It is
        called after every ring and, ever more rarely, every ``slowest`` seconds; a look that took
        long is followed by a longer rest."""
        deadline = time.monotonic() + seconds
        pause = _FIRST_LOOK
        while True:
            began, rings = time.monotonic(), self.rings  # what happens meanwhile is not missed
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
