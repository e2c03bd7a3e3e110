"""The process that forks sandboxes: there while it is needed, replaced where it was killed."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.subject import SubjectSetupError
from conformance.subjects.kubelet import forking
from conformance.subjects.kubelet.bell import Bell
from conformance.subjects.kubelet.sandbox import Sandbox
from tests.support.until import until

pytestmark = pytest.mark.needs("sandbox")


def born() -> Sandbox:
    made = Sandbox(Bell())
    made.await_birth()
    return made


@pytest.fixture
def first() -> Iterator[Sandbox]:
    made = born()
    yield made
    made.close()


def _server() -> int:
    process = forking._SERVER._process
    assert process is not None
    return process.pid


def test_one_process_forks_all_and_ends_with_the_last(first: Sandbox) -> None:
    server = _server()
    second = born()
    assert _server() == server
    second.close()
    assert Path(f"/proc/{server}").exists()
    first.close()
    assert forking._SERVER._process is None
    assert not Path(f"/proc/{server}").exists()


def test_a_sandbox_has_ended_when_its_process_is_reaped(first: Sandbox) -> None:
    """Not before: in a container whose first process reaps nothing it would stay for ever."""
    second, server = born(), _server()
    os.kill(server, signal.SIGSTOP)
    try:
        os.kill(second.pid, signal.SIGKILL)
        assert not second._process.ends_within(0.3)
        os.kill(second.pid, 0)
    finally:
        os.kill(server, signal.SIGCONT)
    assert second._process.ends_within(30)
    with pytest.raises(ProcessLookupError):
        os.kill(second.pid, 0)
    second.close()


def test_one_that_was_killed_is_replaced_and_its_sandboxes_live(first: Sandbox) -> None:
    os.kill(_server(), signal.SIGKILL)
    second = born()
    assert first.path("/proc").is_dir()
    assert not first.lost
    second.close()


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(first: Sandbox) -> None:
    """As Ctrl-C between question and answer has it."""

    class Interrupted:
        def __init__(self, real: socket.socket) -> None:
            self.fileno, self.close, self.sendmsg = real.fileno, real.close, real.sendmsg

        def recv(self, size: int) -> bytes:
            raise KeyboardInterrupt

    before = _server()
    asking = forking._SERVER._asking
    assert asking is not None
    forking._SERVER._asking = Interrupted(asking)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        Sandbox(Bell())
    second = born()
    assert _server() != before
    assert Path(f"/proc/{second.pid}/exe").exists()
    second.close()


def test_no_python_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    assert forking._SERVER._process is None
    monkeypatch.setattr(sys, "executable", "/nothing/python")
    with pytest.raises(SubjectSetupError, match=r"no sandbox could be made: .*No such file"):
        Sandbox(Bell())


def test_a_sandbox_that_does_not_end_is_killed(first: Sandbox) -> None:
    assert not first._process.ends_within(0)
    first._process.kill()
    assert first._process.ends_within(10)
    first._process.kill()
    until(lambda: first.lost)
