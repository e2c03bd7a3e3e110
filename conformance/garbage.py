"""How often Python collects garbage while much is kept."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """From now on what is there is not looked through any more, and what is new less often: every
    20,000 objects instead of every 700."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
