"""What the interpreter spends on itself while many nodes are walked."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from conformance.garbage import collect_rarely

#: Seconds that a thread computes before another one that waits gets its turn. Python's 0.005 s and
#: its garbage collection took the time of an eighth of the histories that two processors walk.
_TURN: Final = 0.03


@contextmanager
def long_turns() -> Iterator[None]:
    """Threads take longer turns, and garbage is collected less often, until the block ends."""
    turn, threshold = sys.getswitchinterval(), gc.get_threshold()
    collect_rarely()
    sys.setswitchinterval(_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(turn)
        gc.set_threshold(*threshold)
        gc.unfreeze()
