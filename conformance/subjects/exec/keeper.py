"""Runs a program that speaks the protocol, and ends it with the tester.

What belongs here: one process between tester and program, run by path with only the standard
library. What never does: the protocol. The program has standard input and output; the keeper only
holds the read end of a pipe whose other end is the tester's. The pipe ends when the tester does,
however it dies. Then the keeper kills every process that the program has started, adopts and kills
their orphans, and removes the folder for temporary files. That is in memory if there is
``/dev/shm``: a state file is synchronised at each change.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(life: int, command: list[str]) -> int:
    """Run ``command`` until it ends or the pipe ``life`` does; returns its exit status."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folder = _folder()
    try:
        child = os.fork()
        if not child:
            _become(libc, life, command, folder)
        _release_streams()
        return _watch(life, child)
    finally:
        _kill_all()
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    memory = Path("/dev/shm")  # noqa: S108
    if not os.access(memory, os.W_OK | os.X_OK):
        memory = Path(os.environ.get("TMPDIR", "/tmp"))  # noqa: S108
    folder = memory / f"pinproof-{os.urandom(8).hex()}"
    folder.mkdir(mode=0o700)
    return folder


def _become(libc: ctypes.CDLL, life: int, command: list[str], folder: Path) -> None:
    try:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.close(life)
        os.execvpe(command[0], command, {**os.environ, "TMPDIR": str(folder)})  # noqa: S606
    except OSError as error:
        print(f"{command[0]} cannot be executed: {error.strerror}", file=sys.stderr)  # noqa: T201
    finally:
        os._exit(127)


def _release_streams() -> None:
    """Close this process's copies, so that the tester sees the end of output when the program
    ends."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _watch(life: int, child: int) -> int:
    handle = os.pidfd_open(child)
    ready, _, _ = select.select([life, handle], [], [])
    if handle not in ready:
        return 128 + signal.SIGKILL
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status


def _kill_all() -> None:
    """Kill children until there are none: orphans become children of this process."""
    while True:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
