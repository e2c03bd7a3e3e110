"""The process that forks sandboxes. It has already imported what a sandbox needs, which takes
longer than making one.

Each message of the runner is the words of :func:`~conformance.subjects.kubelet.inside.init.begin`,
with two descriptors: the sandbox's control socket, and one end of a pipe. The answer is the pid of
the sandbox's first process outside of its namespaces. The pipe ends when that process, and with it
the whole sandbox, has ended: both processes hold its end, the sandbox's until it ends, this one
until it has reaped the other. (If this one is killed, the pipe still shows the end.)
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
from collections.abc import Sequence
from typing import Final

from conformance.subjects.kubelet.inside import init

#: The end of a pipe, by the pid of each process that was forked and not reaped.
_PIPES: Final[dict[int, int]] = {}


def main(argv: list[str]) -> int:
    """Fork sandboxes until the runner has ended. Arguments: the descriptor of the socket for its
    requests, and its pid."""
    asked = socket.socket(fileno=int(argv[0]))
    asked.set_inheritable(False)
    runner = _pidfd(int(argv[1]))
    if os.getppid() != int(argv[1]):
        return 1  # the runner ended before it could be watched
    # A signal just before a call does not interrupt that call; a byte in a pipe is not lost.
    ended, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(asked, select.POLLIN)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the runner is gone
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == ended:
                    os.read(ended, 4096)
                    _reap()
                elif not _serve(asked, runner, (ended, wakes)):
                    return 0
    return 0


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            os.close(_PIPES.pop(pid))


def _serve(asked: socket.socket, runner: int | None, ours: Sequence[int]) -> bool:
    words, descriptors, _, _ = socket.recv_fds(asked, 256, 2)
    if not words:
        return False
    control, pipe = descriptors
    child = _fork(words.decode().split(), control, pipe, runner, [asked.fileno(), *ours])
    _PIPES[child] = pipe
    os.close(control)
    asked.send(str(child).encode())
    return True


def _fork(
    words: list[str], control: int, pipe: int, runner: int | None, ours: Sequence[int]
) -> int:
    child = os.fork()
    if child == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (*ours, *_PIPES.values()):
                os.close(descriptor)
            os.setsid()
            init.begin(socket.socket(fileno=control), pipe, runner, words)
        finally:
            os._exit(0)
    return child


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno == errno.ENOSYS:  # before Linux 5.3: only the control socket's end shows it
            return None
        raise
