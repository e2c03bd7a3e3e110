"""Files that a person names on the command line, read with bounds.

What belongs here: bytes from a file, from stdin or out of an archive. What never does: what is in
them (``documents``).
"""

from __future__ import annotations

import lzma
import os
import sys
import tarfile
import zlib
from itertools import islice
from pathlib import Path
from typing import Any, Final

from conformance.subject import SubjectUsageError
from pinproof.documents import MOST_JSON, documents_in
from topologies.errors import one_line

STDIN: Final = "-"

#: The most files that are read of an archive beside its machine.
_MOST_MEMBERS: Final = 16
_UNREADABLE: Final = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError)


def read(path: Path | str, most: int) -> bytes:
    """The bytes of a file, or of stdin for ``-``; raises :class:`SubjectUsageError` where it cannot
    be read or is larger than ``most`` bytes."""
    try:
        data = _read(path, most + 1)
    except NotADirectoryError as error:
        place = Path(path)
        found = members(place.parent.parent, place.parent.name).get(place.name)
        if found is None:
            raise SubjectUsageError(f"{_shown(path)}: {error.strerror}") from error
        data = found
    except OSError as error:
        raise SubjectUsageError(f"{_shown(path)}: {error.strerror}") from error
    if len(data) > most:
        raise SubjectUsageError(f"{_shown(path)}: larger than {most >> 20} MiB")
    return data


def _read(path: Path | str, most: int) -> bytes:
    if path == STDIN:
        return sys.stdin.buffer.read(most)
    # A FIFO without a writer would block for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(most)


def members(place: Path, folder: str) -> dict[str, bytes]:
    """The files in ``folder`` of an archive, by name. They come first in the archive, below one
    folder. At most 16 are read, of 32 MiB together. Empty where there is no such archive."""
    if not place.is_file():
        return {}
    found: dict[str, bytes] = {}
    left = MOST_JSON
    try:
        with tarfile.open(place, "r|*") as archive:
            for one in islice(archive, _MOST_MEMBERS):
                path = Path(one.name)
                data = archive.extractfile(one) if one.isfile() else None
                if path.parent.name != folder or data is None or one.size > left:
                    break
                left -= one.size
                found[path.name] = data.read()
    except _UNREADABLE:
        return found  # the reader of machines reports what is wrong
    return found


def _shown(path: Path | str) -> str:
    return "stdin" if path == STDIN else one_line(str(path))


def documents(path: Path | str) -> list[Any]:
    """The documents in a file (:func:`pinproof.documents.documents_in`). Raises
    :class:`SubjectUsageError` with the file and the place."""
    where = _shown(path)
    try:
        text = read(path, MOST_JSON).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SubjectUsageError(f"{where}: not UTF-8: byte {error.start}") from error
    return documents_in(text, where)
