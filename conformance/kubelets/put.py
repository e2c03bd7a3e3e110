"""Files that are put into a kubelet's sandbox, and how the text of a subject names them:
``kubelet:1.36?put=/etc/kubernetes/example=./example.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import parse_qsl, quote

from conformance.subject import SubjectUsageError

_PUT: Final = "put"
#: The folders in which a sandbox has files of its own.
TAKEN: Final = ("/pinproof", "/var/lib/kubelet", "/proc", "/sys", "/dev", "/run")


def parted(target: str) -> tuple[str, dict[str, Path]]:
    """The kubelet in the text of a subject, and the files by the paths at which they are put.
    Raises :class:`SubjectUsageError`."""
    kubelet, _, options = target.partition("?")
    if not options or Path(target).exists():
        return target, {}
    files = {}
    for name, value in parse_qsl(options, keep_blank_values=True):
        inside, _, path = value.partition("=")
        if name != _PUT:
            raise SubjectUsageError(f"kubelet:{target}: unknown option {name!r}: put=PLACE=FILE")
        files[inside] = checked(inside, Path(path))
    return kubelet, files


def with_files(subject: str, files: Mapping[str, Path]) -> str:
    """The text of a subject with files for its sandboxes; only a kubelet's takes them."""
    if not subject.startswith("kubelet:") or not files:
        return subject
    words = (f"{_PUT}={quote(f'{inside}={path}', safe='/:=')}" for inside, path in files.items())
    return f"{subject}{'&' if '?' in subject else '?'}{'&'.join(words)}"


def checked(inside: str, path: Path) -> Path:
    """The absolute path of a file that is put at the path ``inside``. Raises
    :class:`SubjectUsageError` if it cannot be put there."""
    place = PurePosixPath(inside)
    if not inside.startswith("/") or str(place) != inside or {"..", "."} & {*place.parts}:
        raise SubjectUsageError(f"{inside!r} is not an absolute path, at which a file can be put")
    if taken := [one for one in TAKEN if place.is_relative_to(one)]:
        raise SubjectUsageError(f"{inside}: no file can be put below {taken[0]}")
    path = path.expanduser().absolute()
    if not path.is_file():
        raise SubjectUsageError(f"{inside}: {path}: no such file")
    return path
