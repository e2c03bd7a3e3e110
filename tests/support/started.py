"""Python in a process of its own that goes on while the test does something else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def started(*words: str, stderr: int | None = None, **environment: str) -> subprocess.Popen[str]:
    """Start this Python with pipes, in the repository, with variables beside those of the test."""
    return subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        cwd=ROOT,
        env=os.environ | environment,
    )
