"""Sandboxes are made one ahead, end while the next one is used, and are all gone in the end. The
process that forks them is there while it is needed, and replaced where it was killed."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.subject import SubjectNotRestored, SubjectSetupError
from conformance.subjects import open_subject
from conformance.subjects.kubelet import forking, inside
from conformance.subjects.kubelet.bell import Bell
from conformance.subjects.kubelet.sandbox import Sandbox
from conformance.subjects.kubelet.sandboxes import Sandboxes
from reference.steps import KubeletConfig
from tests.kubelet.conftest import Script
from tests.support.until import until
from topologies import machine

pytestmark = pytest.mark.needs("sandbox")


class Made:
    """Makes sandboxes, and keeps them for the test."""

    def __init__(self) -> None:
        self.all: list[Sandbox] = []

    def __call__(self) -> Sandbox:
        self.all.append(Sandbox(Bell()))
        return self.all[-1]


@pytest.fixture
def made() -> Made:
    return Made()


@pytest.fixture
def ahead(made: Made) -> Iterator[Sandboxes]:
    sandboxes = Sandboxes(made, ahead=True)
    yield sandboxes
    sandboxes.close()


def is_there(sandbox: Sandbox) -> bool:
    """Whether the sandbox's outer process is there, which ends last."""
    return not sandbox._process.ends_within(0)


def test_one_is_made_ahead_and_none_is_used_twice(ahead: Sandboxes, made: Made) -> None:
    first = ahead.take()
    assert len(made.all) == 2
    second = ahead.take()
    assert [first, second] == made.all[:2]
    assert len(made.all) == 3
    ahead.close()
    ahead.close()
    assert not any(map(is_there, made.all)), "what was not given back ends, too"


def test_at_most_one_is_ending(ahead: Sandboxes, made: Made) -> None:
    first, second = ahead.take(), ahead.take()
    outer = os.pidfd_open(first.pid)
    ahead.give_back(first)
    assert select.select([outer], [], [], 30)[0], "it was told to end"
    os.close(outer)
    ahead.give_back(second)
    assert not is_there(first)
    ahead.close()
    assert not any(map(is_there, made.all))


def test_one_by_one_there_is_no_spare_and_what_is_given_back_is_gone(made: Made) -> None:
    sandboxes = Sandboxes(made, ahead=False)
    first = sandboxes.take()
    assert made.all == [first]
    sandboxes.give_back(first)
    assert not is_there(first)
    sandboxes.close()


def test_an_interrupt_ends_all_and_lets_none_be_made(ahead: Sandboxes, made: Made) -> None:
    """Whoever waits for something in one learns at once that it is gone."""
    used = ahead.take()
    ahead.interrupt()
    assert used.bell.until(lambda: used.lost, 30)
    ahead.give_back(used)
    with pytest.raises(SubjectSetupError, match="the run is over"):
        ahead.take()
    ahead.close()
    assert not any(map(is_there, made.all))


def test_a_spare_that_cannot_be_made_is_no_matter_of_the_one_before(made: Made) -> None:
    def refuse() -> Sandbox:
        if made.all:
            raise SubjectSetupError("no more processes")
        return made()

    sandboxes = Sandboxes(refuse, ahead=True)
    sandboxes.give_back(sandboxes.take())
    with pytest.raises(SubjectSetupError, match="no more processes"):
        sandboxes.take()
    sandboxes.close()


def test_a_failure_while_one_ends_is_reported(
    ahead: Sandboxes, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ahead.take(), ahead.take()
    close = first.close

    def fail() -> None:
        close()
        raise OSError("it stays")

    monkeypatch.setattr(first, "close", fail)
    ahead.give_back(first)
    ahead.give_back(second)
    with pytest.raises(SubjectNotRestored, match="a sandbox could not be ended: it stays"):
        ahead.close()
    assert not any(map(is_there, made.all))


def test_a_run_makes_sandboxes_ahead(made: Made, script: Script) -> None:
    """And a subject that is closed leaves none, with or without its nodes closed before."""
    poser = script("print('Kubernetes v1.36.4')")
    subject = open_subject(f"kubelet:{poser}")
    before = sandboxes()
    subject.node(machine("1s-1n-4c-smt1"), KubeletConfig(), machines=machine)
    assert len(sandboxes() - before) == 2
    subject.close()
    assert sandboxes() == before


def sandboxes() -> set[str]:
    """The processes that were forked by a process that this one has started."""
    mine = [pid for task in Path("/proc/self/task").iterdir() for pid in _children(task)]
    return {pid for child in mine for pid in _children(Path(f"/proc/{child}/task/{child}"))}


def _children(task: Path) -> list[str]:
    return (task / "children").read_text().split()


# -- the process that forks them -------------------------------------------------------------------


def born() -> Sandbox:
    made = Sandbox(Bell())
    made.await_birth()
    return made


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the one that forked the sandboxes of nodes which other tests share."""
    monkeypatch.setattr(forking, "_SERVER", forking._Server())


@pytest.fixture
def first(own_server: None) -> Iterator[Sandbox]:
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


def test_an_end_is_heard_whose_signal_interrupts_nothing(
    own_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that comes just before a call. Here another thread gets the signal."""
    elsewhere = (
        "import signal, threading, time\n"
        "threading.Thread(target=time.sleep, args=[60], daemon=True).start()\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])\n"
        "signal.pthread_sigmask = lambda how, which: None\n"
    )
    monkeypatch.setattr(inside, "COMMAND", elsewhere + inside.COMMAND)
    control, process = forking.launch([])
    control.close()
    assert process.ends_within(10)
    assert forking._SERVER._process is None


def test_no_python_is_no_sandbox(own_server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nothing/python")
    with pytest.raises(SubjectSetupError, match=r"no sandbox could be made: .*No such file"):
        Sandbox(Bell())


def test_a_sandbox_that_does_not_end_is_killed(first: Sandbox) -> None:
    assert not first._process.ends_within(0)
    first._process.kill()
    assert first._process.ends_within(10)
    first._process.kill()
    assert until(lambda: first.lost)
