"""Calls of the fake container runtime that take their time.

What belongs here: which calls wait, and for how long. What never does: what a call does.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

#: The most seconds that a call waits. No kubelet waits longer.
_LONGEST: Final = 150.0


@dataclass(slots=True)
class _Hold:
    """``more``: how many further calls wait. ``waiting``: how many have come."""

    more: float
    waiting: int = 0
    over: threading.Event = field(default_factory=threading.Event)


class HeldCalls:
    """The calls that wait, by method. ``changed`` is called when one begins to wait."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._holds: dict[str, _Hold] = {}

    def hold(self, method: str, most: float = math.inf) -> None:
        """Let the next calls of this method, ``most`` of them, wait until :meth:`end`."""
        self.end(method)
        with self._lock:
            self._holds[method] = _Hold(most)

    def wait(self, method: str) -> bool:
        """Whether calls of this method wait."""
        with self._lock:
            hold = self._holds.get(method)
            return hold is not None and hold.waiting > 0

    def end(self, method: str = "") -> None:
        """Let calls of this method go on, ``""``: of every one. No later one waits."""
        with self._lock:
            for one in [method] if method else [*self._holds]:
                hold = self._holds.pop(one, None)
                if hold is not None:
                    hold.over.set()

    def pass_through(self, method: str) -> None:
        """A call has come: return when it may go on."""
        with self._lock:
            hold = self._holds.get(method)
            if hold is None or hold.more <= 0:
                return
            hold.more, hold.waiting = hold.more - 1, hold.waiting + 1
        self._changed()
        hold.over.wait(_LONGEST)
