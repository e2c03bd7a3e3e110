"""Several commands of pinproof at the same time, each a process of its own."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.ending import deferring_interrupts, ended_like_an_interrupt

_PAUSE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Job:
    """A command of pinproof: its arguments, the file for its output, and its stdin."""

    name: str
    arguments: Sequence[str]
    log: Path
    stdin: bytes = b""


def run_each(jobs: Sequence[Job], at_once: int, ended: Callable[[Job, int], None]) -> list[int]:
    """The exit statuses of the jobs, in their order; ``ended`` is called as each ends. An interrupt
    is sent to all that run, and raised once they have ended: they restore their nodes first."""
    running: dict[int, subprocess.Popen[bytes]] = {}
    statuses: dict[int, int] = {}
    try:
        with ended_like_an_interrupt():
            while len(statuses) < len(jobs):
                for place, job in enumerate(jobs):
                    if len(running) >= at_once:
                        break
                    if place not in running and place not in statuses:
                        with deferring_interrupts():
                            running[place] = _started(job)
                for place, process in [*running.items()]:
                    status = process.poll()
                    if status is not None:
                        del running[place]
                        statuses[place] = status
                        ended(jobs[place], status)
                time.sleep(_PAUSE)
    except BaseException:
        for process in running.values():
            process.send_signal(signal.SIGINT)
        for process in running.values():
            process.wait()
        raise
    return [statuses[place] for place in range(len(jobs))]


def _started(job: Job) -> subprocess.Popen[bytes]:
    """Start a job in a session of its own: Ctrl-C on a terminal reaches it once, through this
    process."""
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pinproof", *job.arguments],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(job.stdin)  # a line at most, which a pipe takes at once
    return process
