"""Child processes: started so that they end with this process, and read within limits."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

#: Executes the program, which the kernel kills when its parent dies (PR_SET_PDEATHSIG, SIGKILL). It
#: ends where the parent is gone already.
_LAUNCH: Final = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); "
    "os.getppid() == int(sys.argv[1]) and os.execvp(sys.argv[2], sys.argv[2:])"
)
_CHUNK: Final = 1 << 16


class TookTooLong(Exception):
    """The deadline has passed."""


@contextlib.contextmanager
def started(
    command: Sequence[str],
    *,
    stderr: int = subprocess.DEVNULL,
    pass_fds: Sequence[int] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    """The running program, in a process group of its own, with a pipe as its stdout. The end of the
    block kills and reaps the group. The program also dies with this process, and with the thread
    that started it."""
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *command]
    process = subprocess.Popen(
        launch,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        pass_fds=pass_fds,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def last_lines(log: Path) -> list[str]:
    """The last lines that a process wrote into its log, empty ones left out."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - 8192))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def chunks(descriptor: int, until: float) -> Iterator[bytes]:
    """The data of a pipe, to its end; raises :class:`TookTooLong` where the end has not come by
    ``until`` (of ``time.monotonic``)."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, until - time.monotonic())):
                raise TookTooLong
            chunk = os.read(descriptor, _CHUNK)
            if not chunk:
                return
            yield chunk
