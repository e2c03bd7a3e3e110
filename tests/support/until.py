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


def has_ended(process: int) -> bool:
    """Whether there is no process of this number, or a zombie until init has looked."""
    state = content(Path(f"/proc/{process}/stat")).rpartition(b")")[2].split()
    return not state or state[0] == b"Z"


def content(path: Path) -> bytes:
    """What a file holds; nothing where it is not there, or goes while it is looked at."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
