"""Standard output and error that a command can write to whatever becomes of them.

A reader that goes away, a full disk, a closed descriptor or a locale that lacks a character decides
nothing about a kubelet. So what cannot be written is dropped, and the command goes on. Its verdict
and its reports are the same.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import Any, Final, TextIO

_DESCRIPTORS: Final = range(3)


class _Stream(io.RawIOBase):
    """Writes to a descriptor until that fails; ``fault`` is why."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self.fault: OSError | None = None

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.fault is None:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                raise
            except OSError as error:
                self.fault = error
        return memoryview(data).nbytes


def fill_closed() -> None:
    """Put ``/dev/null`` in the place of a standard descriptor that is closed, so that no other file
    gets its number."""
    for descriptor in _DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def take_over() -> _Stream:
    """Replace ``sys.stdout`` and ``sys.stderr``. Returns what standard output is written with."""
    fill_closed()
    output, errors = _Stream(1), _Stream(2)
    sys.stdout = _text(output, sys.stdout)
    sys.stderr = _text(errors, sys.stderr)
    return output


def _text(raw: _Stream, before: TextIO | None) -> io.TextIOWrapper:
    encoding = getattr(before, "encoding", None) or "utf-8"
    buffered = raw.isatty() or raw.fileno() == 2
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, errors="replace", line_buffering=buffered
    )


def lost(output: _Stream) -> str:
    """Why the end of standard output is missing; ``""`` where it is whole, or where its reader has
    read enough."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    fault = output.fault
    return "" if fault is None or fault.errno == errno.EPIPE else str(fault.strerror)
