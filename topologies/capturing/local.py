"""The local host, captured by the script that also captures nodes and guests."""

from __future__ import annotations

import os
import time
from typing import Final

from topologies.capturing.captured import Capture, captured
from topologies.capturing.errors import BadTarget, CaptureError
from topologies.capturing.running import TookTooLong, chunks, started
from topologies.capturing.script import script
from topologies.capturing.stream import MAX_STREAM

_DEADLINE: Final = 60.0


def capture_host(root: str | os.PathLike[str] = "/", *, deadline: float = _DEADLINE) -> Capture:
    """Capture this host, or the machine whose ``sys`` and ``proc`` lie below ``root``.

    Needs a POSIX shell and awk; no root. ``deadline`` is in seconds. Raises :class:`BadTarget`
    where ``root`` is no folder, :class:`CaptureError` where no machine could be read there.
    """
    place = os.path.abspath(root)  # noqa: PTH100  - resolves no link, and starts with no dash
    where = "this host" if place == "/" else place
    if not os.path.isdir(place):  # noqa: PTH112
        raise BadTarget(where, "there is no such file or folder")
    until = time.monotonic() + deadline
    data = bytearray()
    try:
        with started(["/bin/sh", "-c", script(), "pinproof-capture", place]) as process:
            assert process.stdout is not None
            for chunk in chunks(process.stdout.fileno(), until):
                data += chunk
                if len(data) > MAX_STREAM:
                    break
    except TookTooLong:
        raise CaptureError(where, f"it was not read within {deadline:g} s") from None
    source = "captured on a running host" if place == "/" else "captured from a folder"
    return captured(bytes(data), where=where, source=source)
