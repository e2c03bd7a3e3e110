"""Trees read from disk: an archive, or a folder that holds ``sys`` and ``proc``.

Folders are read file by file, since the sizes that sysfs states are wrong. Links are kept as links
and never followed, so a cycle of them does no harm. Files that cannot be read are left out: some
can only be written.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from topologies.archive import MAX_PACKED, BrokenArchive, read_archive
from topologies.errors import BrokenMachine, UnknownMachine
from topologies.paths import (
    CPU,
    CPUINFO,
    FOLDERS,
    MAX_FILES,
    MAX_TREE_BYTES,
    check_link,
    check_size,
)
from topologies.tree import Link, Tree

_SUFFIXES: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
#: No machine nests deeper; a bind mount of a folder into itself would.
_MAX_DEPTH: Final = 16


def read_tree(path: str | os.PathLike[str], *, left_out: list[str] | None = None) -> Tree:
    """The tree at ``path``, whatever it holds; it may be empty. Files and folders that cannot be
    read for lack of permission are appended to ``left_out``.

    Kept are ``sys/devices/system/cpu``, ``sys/devices/system/node`` and ``proc/cpuinfo``, without
    the folder that they were packed under. Raises :class:`UnknownMachine` where there is nothing,
    and :class:`BrokenMachine` for what is not an archive or folder, cut off, or hostile.
    """
    place = Path(path)
    try:
        if place.is_dir():
            return _Folder(place, [] if left_out is None else left_out).tree()
        return read_archive(_bytes(place))
    except FileNotFoundError as error:
        raise UnknownMachine(str(place)) from error
    except BrokenArchive as error:
        raise BrokenMachine(str(place), str(error)) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BrokenMachine(str(place), reason) from error


def checked(tree: Tree, where: str, left_out: Sequence[str] = ()) -> Tree:
    """``tree``, if it can be a machine: raises :class:`BrokenMachine` without ``cpu/online``."""
    if f"{CPU}/online" not in tree:
        hint = f" that can be read: no permission to read {shortened(left_out)}" if left_out else ""
        raise BrokenMachine(where, f"not a machine: there is no {CPU}/online{hint}")
    return tree


def shortened(paths: Sequence[str]) -> str:
    """The first of these paths, and how many more there are."""
    return f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else paths[0]


def is_machine_path(path: Path) -> bool:
    """Whether this looks like an archive or a folder of a machine, by name and first entries."""
    if path.name.endswith(_SUFFIXES):
        return path.is_file()
    return path.is_dir() and any((path / part).is_dir() for part in FOLDERS)


def machine_name(path: Path) -> str:
    """The name of a machine at ``path``: its last part without the archive's suffix,
    ``this-host`` for ``/``."""
    name = path.name or path.resolve().name or "this-host"
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def _bytes(path: Path) -> bytes:
    """At most what an archive may have, without waiting for a FIFO's writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BrokenArchive("neither an archive nor a folder")
        return stream.read(MAX_PACKED + 1)


class _Folder:
    """One walk through a folder."""

    def __init__(self, place: Path, left_out: list[str]) -> None:
        self._root = _root(place)
        self._left_out = left_out
        self._entries: dict[str, str] = {}
        self._bytes = 0

    def tree(self) -> Tree:
        for folder in FOLDERS:
            self._walk(folder, 0)
        if (self._root / CPUINFO).is_symlink():
            self._link(CPUINFO)
        elif (self._root / CPUINFO).is_file():
            self._file(CPUINFO)
        return Tree(self._entries)

    def _walk(self, folder: str, depth: int) -> None:
        """Folders in front of the machine's own, such as ``sys`` itself, may be links."""
        if depth > _MAX_DEPTH:
            raise ValueError(f"folders nest too deeply: {folder}")
        try:
            with os.scandir(self._root / folder) as found:
                members = sorted(found, key=lambda member: member.name)
        except PermissionError:
            self._left_out.append(folder)
            return
        except (FileNotFoundError, NotADirectoryError):
            return
        for member in members:
            path = f"{folder}/{member.name}"
            if member.is_symlink():
                self._link(path)
            elif member.is_dir(follow_symlinks=False):
                self._walk(path, depth + 1)
            elif member.is_file(follow_symlinks=False):
                self._file(path)

    def _link(self, path: str) -> None:
        target = os.readlink(f"{self._root}/{path}")  # noqa: PTH115  - Path would normalise it
        try:
            check_link(path, target)
        except ValueError as error:
            raise ValueError(f"refused: {error}") from error
        self._keep(path, Link(target))

    def _file(self, path: str) -> None:
        """Kernel files give errors of many kinds when read (EIO, EINVAL, EACCES, EAGAIN): a file
        without text is no part of the tree."""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            data = _read(os.open(f"{self._root}/{path}", flags), path)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise
            if error.errno in (errno.EACCES, errno.EPERM):
                self._left_out.append(path)
            return
        self._keep(path, data.decode("utf-8", "surrogateescape"))

    def _keep(self, path: str, text: str) -> None:
        self._bytes += len(text) + len(path)
        if self._bytes > MAX_TREE_BYTES or len(self._entries) >= MAX_FILES:
            raise ValueError("refused: more than any machine's tree")
        self._entries[path] = text


def _read(descriptor: int, path: str) -> bytes:
    """Read all and close; raises ``ValueError`` for more than a kernel's file has."""
    pieces, size = [], 0
    try:
        while piece := os.read(descriptor, 1 << 16):
            pieces.append(piece)
            size += len(piece)
            try:
                check_size(path, size)
            except ValueError as error:
                raise ValueError(f"refused: {error}") from error
    finally:
        os.close(descriptor)
    return b"".join(pieces)


def _root(place: Path) -> Path:
    """The folder that holds ``sys``: ``place``, or the only folder in it that does."""
    if (place / "sys").is_dir() or (place / "proc").is_dir():
        return place
    inner = [child for child in place.iterdir() if (child / "sys").is_dir()]
    return inner[0] if len(inner) == 1 else place
