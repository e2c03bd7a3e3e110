"""The command as a user runs it: in this process, or in one of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pinproof import cli

Done: TypeAlias = subprocess.CompletedProcess[str]


def ran(
    *command: str | Path,
    cwd: Path | None = None,
    status: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Done:
    """Run a program; its output is text. ``status``: how it has to end."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, capture_output=True, text=True, env=env, cwd=cwd, timeout=600, check=False
    )
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done


def python(
    *words: str, cwd: Path | None = None, status: int | None = None, **environment: str
) -> Done:
    """Run this Python as :func:`ran` does, with variables beside those of this process."""
    return ran(sys.executable, *words, cwd=cwd, status=status, env={**os.environ, **environment})


def pinproof(*words: str, **settings: Any) -> Done:
    """Run ``pinproof`` as :func:`python` does: in a process of its own."""
    return python("-m", "pinproof", *words, **settings)


def here(
    *words: str, cwd: Path | None = None, status: int | None = None, **environment: str
) -> Done:
    """Run ``pinproof`` in this process, which takes a tenth of the time of :func:`pinproof`."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code: Any = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(cwd or Path.cwd()),
    ):
        patch.setattr(sys, "argv", ["pinproof", *words])
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code
    said, wrong = (one.buffer.getvalue().decode() for one in (out, err))
    done = Done(["pinproof", *words], int(code or 0), said, wrong)
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done


def lines(done: Done) -> list[str]:
    """What was printed, without the blanks around it and between the words."""
    return [" ".join(line.split()) for line in done.stdout.splitlines()]
