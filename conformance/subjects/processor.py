"""Processor time of a program under test: whether it did nothing, or had no processor.

What belongs here: what Linux counts for a process and its descendants. What never does: judging a
program by it. Source: Linux, ``Documentation/scheduler/sched-stats.rst``, ``/proc/PID/schedstat``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ProcessorTime", "processor_time"]

#: Less than this share of a deadline is too little processor time to judge a program. An idle
#: kubelet that is asked for its pods uses 1/20, and a start takes 0.6 s in all.
_TOO_LITTLE: Final = 1 / 50


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """``used``: seconds on a processor. ``waited``: seconds ready to run without one, over all
    threads."""

    used: float = 0.0
    waited: float = 0.0

    def since(self, before: ProcessorTime) -> ProcessorTime:
        return ProcessorTime(self.used - before.used, self.waited - before.waited)

    def is_starved(self, seconds: float) -> bool:
        """Whether a program could do so little in ``seconds`` because others had the processors."""
        return self.used < seconds * _TOO_LITTLE and self.waited > seconds / 2

    def is_hindered(self, seconds: float) -> bool:
        """Whether a program may still be at work after ``seconds``: it had a processor for less
        than that, and waited for one for more than half of the time."""
        return self.used < seconds and self.waited > seconds / 2


def processor_time(pid: int) -> ProcessorTime:
    """The time of the process and all its living descendants until now."""
    used = waited = 0
    for thread in _threads(pid):
        try:
            on, ready, _ = (thread / "schedstat").read_text().split()
        except (OSError, ValueError):
            continue
        used, waited = used + int(on), waited + int(ready)
    return ProcessorTime(used / 1e9, waited / 1e9)


def _threads(pid: int) -> Iterator[Path]:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for thread in threads:
        yield thread
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _threads(int(child))
