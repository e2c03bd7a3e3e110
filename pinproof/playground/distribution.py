"""Pyodide, which is Python for browsers: fetched by npm once, checked, and kept in the cache.

What belongs here: its release, its digest, and the files that the page needs. For a newer one
change two lines; ``npm view pyodide@VERSION dist.integrity`` prints the digest.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from topologies.errors import one_line
from topologies.user_cache import cache_folder

VERSION: Final = "314.0.7"
_SHA512: Final = (
    "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
)
FILES: Final = (
    "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json",
)  # fmt: skip
_SECONDS: Final = 300


class NotBuilt(Exception):
    """The playground cannot be built here; ``str()`` is one line."""


def unpack(folder: Path) -> None:
    """Write the files of Pyodide that the page needs. Raises :class:`NotBuilt` where npm is
    missing, cannot fetch the package, or hands out another one than the pinned."""
    archive = _archive()
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as package:
        for name in FILES:
            member = package.extractfile(f"package/{name}")
            if member is None:
                raise NotBuilt(f"pyodide {VERSION} has no file {name}")
            (folder / name).write_bytes(member.read())


def _archive() -> Path:
    kept = cache_folder("pyodide", f"pyodide-{VERSION}.tgz")
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            _checked(_packed(Path(folder))).replace(kept)
    return _checked(kept)


def _packed(folder: Path) -> Path:
    """The package that npm fetches, from the registry that npm is configured for."""
    command = ["npm", "pack", "--silent", "--ignore-scripts", f"pyodide@{VERSION}"]
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=_SECONDS
        )
    except FileNotFoundError as error:
        raise NotBuilt("npm is missing, by which Pyodide comes (apt-get install npm)") from error
    except subprocess.TimeoutExpired as error:
        raise NotBuilt(f"npm did not fetch pyodide {VERSION} in {_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        last = (error.stderr or error.stdout).strip().rpartition("\n")[2]
        raise NotBuilt(f"npm cannot fetch pyodide {VERSION}: {one_line(last)}") from error
    return folder / f"pyodide-{VERSION}.tgz"


def _checked(archive: Path) -> Path:
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != _SHA512:
        raise NotBuilt(f"{archive}: not pyodide {VERSION}: its sha512 is {found}")
    return archive
