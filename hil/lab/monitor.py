"""QEMU's machine protocol (QMP), as much of it as the lab needs.

Each use has a connection of its own: QEMU serves one at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from hil.lab.errors import LabError
from hil.lab.machine import MONITOR

_TIMEOUT: Final = 20.0
_POLL: Final = 0.05
_LINE: Final = 1 << 20


class Monitor:
    """A conversation with one QEMU; ``name`` is the node's in errors."""

    def __init__(self, connection: socket.socket, name: str) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")
        self._name = name
        self.call("qmp_capabilities")

    def call(self, command: str, **arguments: object) -> Any:
        """What QEMU returns; raises :class:`LabError` where it refuses, or is gone."""
        return self._call(command, arguments, ())

    def save(self, to: int, *, deadline: float, stop: Callable[[], None] = lambda: None) -> None:
        """Halt the machine and write its state to the descriptor ``to``."""
        self.call("stop")
        self._call("getfd", {"fdname": "state"}, (to,))
        self.call("migrate", uri="fd:state")
        self._until_migrated("migrate", deadline, stop)

    def loaded(self, *, deadline: float, stop: Callable[[], None] = lambda: None) -> None:
        """Wait until a machine that was started from a saved state has read it, and resume the
        machine, which was saved halted."""
        until = time.monotonic() + deadline
        while (status := self.call("query-status").get("status")) != "running":
            if status == "paused":
                self.call("cont")
            if time.monotonic() > until:
                raise LabError(f"{self._name}: the snapshot was not loaded in {deadline:g} s")
            stop()
            time.sleep(_POLL)

    def close(self) -> None:
        self._stream.close()
        self._connection.close()

    def _until_migrated(self, what: str, deadline: float, stop: Callable[[], None]) -> None:
        until = time.monotonic() + deadline
        while True:
            status = self.call("query-migrate")
            if status.get("status") == "completed":
                return
            if status.get("status") in ("failed", "cancelled"):
                why = status.get("error-desc", "no reason given")
                raise LabError(f"{self._name}: QEMU cannot {what}: {why}")
            if time.monotonic() > until:
                raise LabError(f"{self._name}: {what} took more than {deadline:g} s")
            stop()
            time.sleep(_POLL)

    def _call(self, command: str, arguments: dict[str, Any], fds: tuple[int, ...]) -> Any:
        message = json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"
        try:
            socket.send_fds(self._connection, [message], list(fds))
            while line := self._stream.readline(_LINE):
                answer = json.loads(line)
                if "error" in answer:
                    why = answer["error"].get("desc", "no reason given")
                    raise LabError(f"{self._name}: QEMU refuses {command}: {why}")
                if "return" in answer:
                    return answer["return"]
        except (OSError, ValueError) as error:
            raise LabError(f"{self._name}: its QEMU monitor cannot be reached: {error}") from error
        raise LabError(f"{self._name}: QEMU ended during {command}")


@contextlib.contextmanager
def monitor(
    folder: Path, *, timeout: float = _TIMEOUT, stop: Callable[[], None] = lambda: None
) -> Iterator[Monitor]:
    """The monitor of the QEMU that runs in ``folder``; raises :class:`LabError` where none
    answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        _connect(connection, folder, time.monotonic() + timeout, stop)
        with contextlib.closing(Monitor(connection, folder.name)) as talk:
            yield talk


def _connect(
    connection: socket.socket, folder: Path, until: float, stop: Callable[[], None]
) -> None:
    """Connect by a descriptor of the folder: the path may be too long for a socket's name. QEMU
    makes the socket some time after its start."""
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            try:
                connection.connect(f"/proc/self/fd/{place}/{MONITOR}")
            except (FileNotFoundError, ConnectionRefusedError) as error:
                if time.monotonic() > until:
                    raise LabError(f"{folder.name}: its QEMU does not answer") from error
                stop()
                time.sleep(_POLL)
            else:
                return
    finally:
        os.close(place)
