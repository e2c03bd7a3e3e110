"""Something happened: what everybody who waits on a node waits for."""

from __future__ import annotations

import threading


class Bell:
    """Rung by the kubelet's exit, its log and its calls to the runtime.

    A waiter takes the number of rings first, then looks, then waits for more rings than that:
    what happens between looking and waiting is not missed.
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

    def wait(self, rings: int, seconds: float) -> None:
        """Return once there are more than ``rings`` rings, at the latest after ``seconds``."""
        with self._changed:
            self._changed.wait_for(lambda: self._rings > rings, seconds)
