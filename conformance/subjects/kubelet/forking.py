"""One process of the runner forks all sandboxes; it lives as long as there is a sandbox.

What belongs here: that process, and a handle for each process that it forked. What never does: code
in a sandbox (:mod:`conformance.subjects.kubelet.inside`).
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Final

from conformance.environment import own_environment
from conformance.subject import SubjectSetupError
from conformance.subjects.kubelet import inside

#: Seconds that the process may take to fork; it takes milliseconds.
_PATIENCE: Final = 30.0


class Forked:
    """The process of a sandbox that ends when all other processes in it have. It is a child of the
    forking process, so the runner sees its end by the end of a pipe."""

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._pipe = pipe
        self._waiting = threading.Lock()

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end; returns whether it ended. May be called again afterwards."""
        with self._waiting:
            if self._pipe < 0:
                return True
            end = select.poll()
            end.register(self._pipe)
            if not end.poll(seconds * 1000):
                return False
            os.close(self._pipe)
            self._pipe = -1
        _SERVER.release()
        return True

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        if not self.ends_within(0):
            os.kill(self.pid, signal.SIGKILL)


class _Server:
    """The forking process; it runs as long as a process that it forked."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._asking: socket.socket | None = None
        self._forked = 0

    def fork(self, words: Sequence[str], control: socket.socket) -> Forked:
        ours, theirs = os.pipe()
        try:
            with self._changing:
                pid = self._ask(words, [control.fileno(), theirs])
                self._forked += 1
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return Forked(pid, ours)

    def release(self) -> None:
        with self._changing:
            self._forked -= 1
            if self._forked == 0:
                self._end()

    def _ask(self, words: Sequence[str], descriptors: Sequence[int]) -> int:
        """The pid of a new process; raises ``OSError``. A killed forking process is replaced. So is
        one whose answer was not received, because it would come as the next answer."""
        for _ in range(2):
            connection = self._asking or self._begin()
            try:
                socket.send_fds(connection, [" ".join(words).encode() or b" "], descriptors)
                if answer := connection.recv(32):
                    return int(answer)
            except (BrokenPipeError, ConnectionResetError):
                pass
            except BaseException:
                self._end()
                raise
            self._end()
        raise OSError("the process that forks sandboxes ended")

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        python = [sys.executable, "-I", "-S", "-c", inside.COMMAND]
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*python, str(theirs.fileno()), str(os.getpid())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    env=own_environment(),
                )
            except OSError:
                ours.close()
                raise
        ours.settimeout(_PATIENCE)
        self._asking = ours
        return ours

    def _end(self) -> None:
        if self._asking is not None and self._process is not None:
            self._asking.close()
            self._process.kill()  # no sandbox depends on it
            self._process.wait()
        self._asking = self._process = None


_SERVER: Final = _Server()


def launch(words: Sequence[str]) -> tuple[socket.socket, Forked]:
    """Begin a sandbox with the ``words`` of ``init.begin``
    (:mod:`conformance.subjects.kubelet.inside`); the socket is its control socket. Raises
    :class:`SubjectSetupError`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        try:
            return ours, _SERVER.fork(words, theirs)
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):
                raise SubjectSetupError(f"no sandbox could be made: {error}") from error
            raise
