"""What tests of several captures, and of what other programs say of a machine, share."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import lacking


def printed_by(program: str, *words: str | Path) -> str:
    """What a program prints in plain English that finds nothing to complain of. Where there is no
    such program, the test skips."""
    command = [lacking.program(program), *map(str, words)]
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder that every user may read. pytest's own are closed to other users, and each
    pytest that starts beside this one closes their parent again."""
    with tempfile.TemporaryDirectory(prefix="pinproof-open-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
