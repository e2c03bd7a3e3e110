"""Each room of hil/ can be the first that a process imports: none needs another one's order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import hil

ROOMS: Final = sorted(path.parent.name for path in Path(hil.__file__).parent.glob("*/__init__.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_can_be_imported_first(room: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import hil.{room}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_there_are_rooms() -> None:
    assert len(ROOMS) >= 7
