"""``pinproof`` on a booted node, as a user starts it, and what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from conformance.results import Result
from conformance.results import read as read_stream


@dataclass(frozen=True, slots=True)
class Judged:
    """What the command wrote, and the results of its stream."""

    output: str
    results: list[Result]

    @property
    def verdicts(self) -> dict[str, str]:
        """By scenario."""
        return {one.scenario: one.verdict for one in self.results}


def results(*streams: Path) -> list[Result]:
    """Those of result streams, one after the other."""
    return [one for path in streams for one in read_stream(path) if isinstance(one, Result)]


def pinproof(*words: object, status: int) -> subprocess.CompletedProcess[str]:
    """The command, which ends with this status, in the time that a booted node may take."""
    done = subprocess.run(
        [sys.executable, "-m", "pinproof", *map(str, words)],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


def judged(inventory: Path, *scenarios: str, report: Path, status: int = 0) -> Judged:
    """A run of these scenarios on the node of an inventory, which ends with this status. ``report``
    is the folder of its stream."""
    words = ["run", "--subject", f"node:{inventory}", "-k", " or ".join(scenarios)]
    done = pinproof(*words, "--report", report, status=status)
    return Judged(done.stdout + done.stderr, results(report / "result.jsonl"))
