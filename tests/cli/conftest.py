"""The command as a user runs it: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from conformance.results import Footer, Header, Result, read

Command: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]
Stream: TypeAlias = Callable[[Path], tuple[Header, list[Result], Footer]]


@pytest.fixture
def pinproof() -> Command:
    """Runs ``pinproof``; its output is text."""

    def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pinproof", *arguments],
            capture_output=True,
            text=True,
            env=dict(os.environ),
            cwd=cwd,
            timeout=600,
            check=False,
        )

    return run


@pytest.fixture
def results() -> Stream:
    """Reads the result stream in a report's directory."""

    def of(directory: Path) -> tuple[Header, list[Result], Footer]:
        header, *between, footer = read(directory / "result.jsonl")
        assert isinstance(header, Header)
        assert isinstance(footer, Footer)
        return header, [one for one in between if isinstance(one, Result)], footer

    return of
