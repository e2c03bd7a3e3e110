"""Programs that one thread starts while another changes the environment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.subjects.exec.channel import Channel, LineLost


@pytest.fixture
def another_thread_changes_it() -> Iterator[None]:
    over = threading.Event()

    def change() -> None:
        number = 0
        while not over.is_set():
            number += 1
            os.environ[f"PINPROOF_TEST_{number % 50}"] = "x" * (number % 200)
            if number % 50 == 0:
                for each in range(50):
                    os.environ.pop(f"PINPROOF_TEST_{each}", None)

    thread = threading.Thread(target=change)
    thread.start()
    yield
    over.set()
    thread.join()
    for name in [one for one in os.environ if one.startswith("PINPROOF_TEST_")]:
        del os.environ[name]


@pytest.mark.usefixtures("another_thread_changes_it")
def test_a_program_is_started_all_the_same(tmp_path: Path) -> None:
    """Without an environment of its own half of them fail with "Bad address"."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec cat\n")
    program.chmod(0o755)
    lost = 0
    for _ in range(40):
        try:
            channel = Channel([str(program)])
        except LineLost:
            lost += 1
        else:
            channel.close()
    assert not lost
