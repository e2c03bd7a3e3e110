"""Progress of a build: for the user who asked for it, and for processes that wait for it.

The builder keeps a small file beside its lock: its process, since when it builds, and how far it
is. Only a process that waits for the lock reads it, so a file of a dead builder does no harm.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

Progress: TypeAlias = Callable[[str], None]

#: Seconds between two counts. Printed lines are fewer (:func:`now_and_then`).
_BETWEEN: Final = 1.0


class Stage(str):
    """A stage with a count: ``done`` of ``total`` packages, or of another ``noun``. ``what`` is the
    text without the count, so it stays the same while the count goes up."""

    __slots__ = ("done", "total", "what")

    what: str
    done: int
    total: int

    def __new__(cls, what: str, done: int, total: int, noun: str = "packages") -> Stage:
        stage = super().__new__(cls, f"{what}: {done} of {total} {noun}")
        stage.what, stage.done, stage.total = what, done, total
        return stage


def now_and_then(tell: Progress, seconds: float = 30.0) -> Progress:
    """A progress callback that passes stages on to ``tell``. Of a stage with a count, it passes on
    the first, then one every ``seconds``."""
    last, due = "", 0.0

    def say(stage: str) -> None:
        nonlocal last, due
        if isinstance(stage, Stage):
            now = time.monotonic()
            if stage.what == last and now < due:
                return
            last, due = stage.what, now + seconds
        tell(str(stage))

    return say


class Builder:
    """One builder's progress, for ``tell`` and, in the file ``place``, for waiting processes."""

    def __init__(self, place: Path, tell: Progress) -> None:
        self._place = place
        self._tell = tell
        self._since = time.time()
        self._due = 0.0

    def say(self, stage: str) -> None:
        """Report a stage, here and to processes that wait."""
        said = {"pid": os.getpid(), "since": self._since, "stage": str(stage)}
        if isinstance(stage, Stage):
            said |= {"stage": stage.what, "done": stage.done, "total": stage.total}
        draft = self._place.with_name(f"{self._place.name}.new")
        # Without the file, a process that waits shows less; the build itself goes on.
        with contextlib.suppress(OSError):
            draft.write_text(json.dumps(said))
            draft.replace(self._place)
        self._tell(stage)

    def count(self, what: str, done: int, total: int) -> None:
        """Say how many packages are done, at most once a second."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _BETWEEN
            self.say(Stage(what, done, total))


def of_another(place: Path, name: str) -> str:
    """What the builder that holds the lock is doing, as far as its file says it."""
    waiting = f"waiting for another build of {name}"
    try:
        said = json.loads(place.read_text())
        since = time.strftime("%H:%M:%S", time.localtime(said["since"]))
        waiting += f" (process {int(said['pid'])}, since {since}): {said['stage']}"
        return Stage(waiting, said["done"], said["total"]) if "done" in said else waiting
    except (OSError, ValueError, KeyError, TypeError):
        return waiting
