"""What tests of several captures share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder that every user may read. pytest's own are closed to other users, and each
    pytest that starts beside this one closes their parent again."""
    with tempfile.TemporaryDirectory(prefix="pinproof-open-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
