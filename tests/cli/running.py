"""The command as a user runs it: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

Done: TypeAlias = subprocess.CompletedProcess[str]


def python(
    *words: str, cwd: Path | None = None, status: int | None = None, **environment: str
) -> Done:
    """Run this Python; its output is text. ``status``: how it has to end."""
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        cwd=cwd,
        timeout=600,
        check=False,
    )
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done


def pinproof(*words: str, **settings: Any) -> Done:
    """Run ``pinproof`` as :func:`python` does."""
    return python("-m", "pinproof", *words, **settings)
