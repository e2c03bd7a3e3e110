"""Tests that wait for something wait no longer than they say."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def until(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    """Whether it is true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def content(path: Path) -> bytes:
    """What a file holds; nothing where it is not there, or goes while it is looked at."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
