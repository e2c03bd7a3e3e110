"""Talking to QEMU: to one that answers, refuses, is torn away."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hil.lab.errors import LabError
from hil.lab.machine import MONITOR
from hil.lab.monitor import monitor
from tests.support.carrying import accepting

Answer = Callable[[str, dict[str, Any]], Any]


@contextlib.contextmanager
def _qemu(folder: Path, answer: Answer) -> Iterator[list[str]]:
    """A QEMU's monitor in ``folder``: ``answer`` gives what a command returns, an exception to
    refuse with, or ``None`` to hang up. The value is what it was told, with descriptors' content
    written to by us."""
    commands: list[str] = []

    def told(connection: socket.socket, line: bytes) -> bool:
        said = json.loads(line)
        commands.append(said["execute"])
        made = answer(said["execute"], said["arguments"])
        if made is None:
            return False
        event = {"event": "RESUME", "data": {}}
        refused = isinstance(made, Exception)
        reply = {"error": {"desc": str(made)}} if refused else {"return": made}
        for each in (event, reply):
            connection.sendall(json.dumps(each).encode() + b"\r\n")
        return True

    def serve(connection: socket.socket) -> None:
        connection.sendall(b'{"QMP": {}}\r\n')
        pending = b""
        while True:
            data, descriptors, _, _ = socket.recv_fds(connection, 65536, 4)
            for descriptor in descriptors:
                os.write(descriptor, b"state")
                os.close(descriptor)
            *lines, pending = (pending + data).split(b"\n")
            if not data or not all(told(connection, line) for line in lines):
                return

    with socket.socket(socket.AF_UNIX) as listener:
        with contextlib.chdir(folder):  # its own path is too long for a socket
            listener.bind(MONITOR)
        listener.listen(1)
        with accepting(listener, serve):
            yield commands


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A path longer than the name of a socket may be."""
    place = tmp_path / ("x" * 100) / "node1"
    place.mkdir(parents=True)
    return place


def test_what_it_returns_is_told_apart_from_events(folder: Path) -> None:
    with _qemu(folder, lambda command, _: {"status": command}), monitor(folder) as talk:
        assert talk.call("query-status") == {"status": "query-status"}


def answers(said: dict[str, list[Any]]) -> Answer:
    """To each of these commands the next of its answers; to any other an empty one."""
    rounds = {command: iter(each) for command, each in said.items()}
    return lambda command, _: next(rounds[command]) if command in rounds else {}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ValueError("no such device"), "node1: QEMU refuses device_del: no such device"),
        (None, "node1: "),
    ],
    ids=["refuses", "ends in between"],
)
def test_a_refusal_is_one_line(folder: Path, answer: Exception | None, said: str) -> None:
    refusing = answers({"device_del": [answer]})
    with _qemu(folder, refusing), monitor(folder) as talk:  # noqa: SIM117
        with pytest.raises(LabError, match=said):
            talk.call("device_del", id="x")


def test_a_state_is_saved_when_qemu_says_it_is(folder: Path) -> None:
    rounds = [{"status": one} for one in ("setup", "active", "completed")]
    target = folder / "memory"
    with (
        target.open("wb") as stream,
        _qemu(folder, answers({"query-migrate": rounds})) as commands,
        monitor(folder) as talk,
    ):
        talk.save(stream.fileno(), deadline=30)
    assert commands == ["qmp_capabilities", "stop", "getfd", "migrate", *["query-migrate"] * 3]
    assert target.read_bytes() == b"state"


def test_a_state_that_cannot_be_saved_is_an_error(folder: Path) -> None:
    full = answers({"query-migrate": [{"status": "failed", "error-desc": "No space left"}]})
    with _qemu(folder, full), monitor(folder) as talk, (folder / "m").open("wb") as stream:  # noqa: SIM117
        with pytest.raises(LabError, match="No space left"):
            talk.save(stream.fileno(), deadline=30)


def test_a_state_that_was_loaded_goes_on(folder: Path) -> None:
    """It comes back halted, as it was saved."""
    rounds = [{"status": one} for one in ("inmigrate", "inmigrate", "paused", "running")]
    with _qemu(folder, answers({"query-status": rounds})) as commands, monitor(folder) as talk:
        talk.loaded(deadline=30)
    assert commands[1:] == ["query-status"] * 3 + ["cont", "query-status"]


def test_nobody_there_is_an_error_and_not_a_wait_for_ever(folder: Path) -> None:
    with (
        pytest.raises(LabError, match="node1: its QEMU does not answer"),
        monitor(folder, timeout=0.1),
    ):
        pass
