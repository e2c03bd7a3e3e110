"""The files of a submission, read with bounds."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from reports.text import line


class SubmissionError(Exception):
    """A submission is refused; ``str()`` is one line without the folder's name."""


def contents(folder: Path, most: Mapping[str, int]) -> dict[str, bytes]:
    """The bytes of each file in the folder, by name. ``most``: the names that it may have, and the
    most bytes of each.

    Raises :class:`SubmissionError` for another name, a link, what is not a plain file, and a file
    that is too large.
    """
    found: dict[str, bytes] = {}
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise SubmissionError("not a folder, or a symbolic link")
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name not in most:
                    raise SubmissionError(f"{line(name)}: a submission has no such file")
                found[name] = _read(folder / name, most[name])
    except OSError as error:
        raise SubmissionError(line(str(error.strerror))) from error
    return found


def _read(path: Path, most: int) -> bytes:
    """No link is followed, and no pipe waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        link = path.is_symlink()
        reason = "a symbolic link is refused" if link else str(error.strerror)
        raise SubmissionError(f"{path.name}: {reason}") from error
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SubmissionError(f"{path.name}: not a plain file")
        data = stream.read(most + 1)
    if len(data) > most:
        raise SubmissionError(f"{path.name}: more than {most} bytes")
    return data
