"""Says what a run waits for on a node, while it shows nothing else."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

#: Seconds of silence before the first message, and between messages.
FIRST: Final = 4.0
NEXT: Final = 30.0


class Waiting:
    """Says through ``say`` that the node ``name`` is waited for: after ``first`` seconds, then
    every ``next_`` seconds. ``step`` is the step that the wait is for."""

    def __init__(
        self, name: str, say: Callable[[str], None], *, first: float = FIRST, next_: float = NEXT
    ) -> None:
        self.step = ""
        self._name = name
        self._say = say
        self._first, self._next = first, next_

    @contextlib.contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Say so while the block runs, which may take this long."""
        over = threading.Event()
        thread = threading.Thread(target=self._repeat, args=(over, seconds), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _repeat(self, over: threading.Event, seconds: float) -> None:
        waited, pause = 0.0, self._first
        while not over.wait(pause):
            waited += pause
            pause = self._next
            step = f" for “{self.step}”" if self.step else ""
            self._say(f"{self._name}: waiting{step}: {waited:.0f} s, at most {seconds:.0f} s")
