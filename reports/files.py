"""Writing a report's file at once: a reader never finds an incomplete one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Put ``text``, as UTF-8, in the place of ``path``, or of the file that the link ``path`` leads
    to; on any failure what was there stays. It is written into what is no regular file, such as a
    device or a pipe.

    Raises :class:`OSError`.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8", newline="\n")
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        part.chmod(0o644 & ~_umask())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _umask() -> int:
    # The only way to read it is to set it; mkstemp makes files only their owner can read.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
