"""A series of patches, and applying it to a source tree with git."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.subject import SubjectSetupError, SubjectUsageError, usable

#: quilt's file that lists the patches of a folder in the order in which they are applied.
SERIES: Final = "series"
_STRIP: Final = re.compile(r"-p([0-9])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch: its file, the file's content, and how many leading folders are stripped from names
    in it (``-p`` of patch and git)."""

    path: Path
    content: bytes
    strip: int = 1


def patches_of(folder: Path) -> list[Patch]:
    """The patches of a folder: those that its file ``series`` lists, else every ``*.patch`` by
    name. Raises :class:`SubjectUsageError` if there is none, or one cannot be read."""
    try:
        listed = (folder / SERIES).read_text().splitlines()
    except FileNotFoundError:
        listed = sorted(path.name for path in folder.glob("*.patch"))
    except (OSError, UnicodeDecodeError) as error:
        raise SubjectUsageError(f"{folder / SERIES}: {error}") from error
    series = [_patch(folder, words) for line in listed if (words := line.partition("#")[0].split())]
    if not series:
        why = f"no *.patch, and no file `{SERIES}`" if folder.is_dir() else "no such folder"
        raise SubjectUsageError(f"--patches {folder}: {why}")
    return series


def _patch(folder: Path, words: Sequence[str]) -> Patch:
    name, *options = words
    path = folder / name
    strip = _STRIP.fullmatch(options[0]) if len(options) == 1 else None
    if options and strip is None:
        raise SubjectUsageError(
            f"{folder / SERIES}: {' '.join(words)!r}: it is `NAME` or `NAME -p1`"
        )
    with usable(path):
        return Patch(path, path.read_bytes(), int(strip[1]) if strip else 1)


def touched(patch: Patch) -> list[str]:
    """The files that a patch changes, by their paths in the tree. Raises :class:`SubjectUsageError`
    for a file that is not a patch."""
    said = _git(patch, "--numstat", "-z", folder=Path("/"))
    names = [part.split("\t", 2)[-1] for part in said.split("\0")]
    return [name for name in names if name]


def apply(patch: Patch, folder: Path) -> None:
    """Change the tree in ``folder``, or leave it as it is and raise :class:`SubjectUsageError`,
    which names patch and file."""
    _git(patch, "--whitespace=nowarn", folder=folder)


def _git(patch: Patch, *options: str, folder: Path) -> str:
    """Standard output of ``git apply``. git ignores a repository that the tree may lie in."""
    words = ["git", "apply", f"-p{patch.strip}", *options, "-"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own = {
        "GIT_CEILING_DIRECTORIES": str(folder.resolve().parent),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
    }
    try:
        process = subprocess.run(
            words, cwd=folder, env=kept | own, input=patch.content, capture_output=True, check=False
        )
    except OSError as error:
        raise SubjectSetupError(f"patches are applied with git: {error.strerror}") from error
    if process.returncode != 0:
        first = process.stderr.decode(errors="replace").strip().partition("\n")[0]
        why = first.removeprefix("error: ").removeprefix("patch failed: ") or "no error text"
        raise SubjectUsageError(f"{patch.path} does not apply: {why[:300]}")
    return process.stdout.decode(errors="surrogateescape")
