"""The image's Python packages: the libraries that are pinned, and pinproof as it is installed here.

The libraries come from Python's package index, by digest. pinproof itself is copied, so the image
has the very code that made it, from a checkout as well as from a wheel.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hil.lab import tools
from hil.lab.errors import LabError
from pinproof.names import PACKAGES

_DEADLINE: Final = 900.0
#: The files in which an installer records its work, and this host's paths.
_INSTALLERS: Final = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
_HERE: Final = Path(__file__).parent
REQUIREMENTS: Final = _HERE / "requirements.txt"
REQUIREMENTS_GO: Final = _HERE / "requirements-go.txt"
#: Versions of glibc, the newest first, that Debian 12 runs: a wheel for an older one runs, too.
_GLIBC: Final = range(36, 16, -1)
_PROGRAM: Final = b"""\
#!/usr/bin/python3
import sys

from pinproof.start import main

sys.exit(main())
"""


def libraries(place: Path, python: str, requirements: Sequence[Path]) -> dict[str, Path]:
    """Have pip put what is pinned for Python ``python`` (``3.11``) into the folder ``place``: path
    in it to file. Raises :class:`LabError` where pip is missing or fails."""
    if find_spec("pip") is None:
        raise LabError(f"this Python has no pip: {sys.executable} -m ensurepip")
    machine = platform.machine()
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC]
    tools.run(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--target", str(place), "--no-compile", "--no-deps", "--require-hashes",
            "--only-binary=:all:", "--python-version", python,
            *(f"--platform={one}" for one in (*platforms, f"manylinux2014_{machine}")),
            *(word for file in requirements for word in ("--requirement", str(file))),
        ],
        deadline=_DEADLINE,
    )  # fmt: skip
    return {
        path.relative_to(place).as_posix(): path
        for path in sorted(place.rglob("*"))
        # pip's programs name this host's Python; Go's is a file of its package.
        if path.is_file() and path.relative_to(place).parts[0] != "bin"
    }


def own() -> dict[str, Path]:
    """Pinproof's files, by the path that they have in a folder of packages."""
    found = dict(_metadata(distribution("pinproof")))
    for name in PACKAGES:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                found[f"{name}/{path.relative_to(folder).as_posix()}"] = path
    return found


def _metadata(installed: Distribution) -> Iterator[tuple[str, Path]]:
    """The files with version, entry points and licences."""
    for file in installed.files or ():
        if file.parts[0].endswith(".dist-info") and file.name not in _INSTALLERS:
            yield file.as_posix(), Path(str(file.locate()))


def in_image(
    files: dict[str, Path], python: str, kubelet: Path | None
) -> dict[str, tuple[bytes, int]]:
    """Path in the image to content and mode; see :func:`hil.lab.recipe.tar`."""
    place = folder(python)[1:]
    found = {
        f"{place}/{name}": (path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)
        for name, path in files.items()
    }
    found["usr/local/bin/pinproof"] = _PROGRAM, 0o755
    if kubelet is not None:
        found["usr/local/bin/kubelet"] = kubelet.read_bytes(), 0o755
    return found


def folder(python: str) -> str:
    """Where Debian's Python looks for packages that Debian does not have."""
    return f"/usr/local/lib/python{python}/dist-packages"
