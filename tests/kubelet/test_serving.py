"""gRPC servers on unix sockets."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from conformance.subjects.kubelet.serving import serve


@pytest.fixture
def interrupts() -> Iterator[None]:
    """An alarm is an interrupt."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGALRM, before)


def test_a_server_is_started_whole_though_interrupted(
    interrupts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is started by half keeps the whole process waiting as it is freed."""
    whole, real = list[grpc.Server](), grpc.server

    def interrupted(*words: Any, **how: Any) -> grpc.Server:
        made = real(*words, **how)
        start = made.start

        def started() -> None:
            os.kill(os.getpid(), signal.SIGALRM)
            time.sleep(0.2)
            start()
            whole.append(made)

        monkeypatch.setattr(made, "start", started)
        return made

    monkeypatch.setattr(grpc, "server", interrupted)
    with ThreadPoolExecutor(1) as threads, pytest.raises(KeyboardInterrupt):
        serve(threads, [], tmp_path / "a.sock")
    end = time.monotonic() + 10
    while not whole and time.monotonic() < end:
        time.sleep(0.01)
    (made,) = whole
    made.stop(None).wait()


def test_a_socket_that_cannot_be_is_named(tmp_path: Path) -> None:
    with (
        ThreadPoolExecutor(1) as threads,
        pytest.raises(OSError, match="cannot listen on "),
    ):
        serve(threads, [], tmp_path / "nowhere" / "a.sock")
