"""Reading a machine's tree.

There are three outcomes, because readers treat them differently: a file's text; no such file
(``None``); and a file that is there and cannot be read (:class:`Unreadable`).

A tree is any mapping of path to text. Paths are relative (``sys/devices/system/cpu/online``). An
entry that is used as a folder is a symbolic link, and its text the target; a tree that spells the
linked files out at both places works as well. Only the parts that discovery reads have folders.

How it works: no index of folders is made, which would cost more than all that discovery asks of
it. In sorted paths the members of a folder are side by side, and a binary search finds them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

_ROOTS: Final = ("sys/devices/system/cpu", "sys/devices/system/node")
_BELOW_ROOTS: Final = tuple(f"{root}/" for root in _ROOTS)
_AFTER_SLASH: Final = chr(ord("/") + 1)
#: Parts of a path that name nothing in their folder.
_NO_NAMES: Final = ("", ".", "..")
_MAX_LINKS: Final = 40  # Linux gives up after as many, with ELOOP


class Unreadable(Exception):
    """A path leads to something, and it cannot be read; ``str()`` is Go's text for it."""


class SysFS:
    """One tree. Paths may lead through links; a link that leaves the tree, and one whose target
    does not exist, is a missing file."""

    __slots__ = ("_behind", "_is_folder", "_paths", "_tree")

    def __init__(self, tree: Mapping[str, str]) -> None:
        self._tree = tree
        self._behind: dict[str, str | None] = {}
        self._paths = sorted(tree)
        self._is_folder = _Folders(self._paths)

    def read(self, path: str) -> str | None:
        """The text of a file, ``None`` if there is none. Raises :class:`Unreadable`."""
        try:
            return self._tree[path]  # asked once, as the mapping may be slow to answer
        except KeyError:
            real = self.resolve(path)
        if real is None:
            return None
        if self._is_folder[real]:
            raise Unreadable(f"read /{path}: is a directory")
        return None if real == path else self._tree.get(real)

    def text(self, path: str) -> str | None:
        """The text of a file; ``None`` where there is none, and where it cannot be read."""
        try:
            return self.read(path)
        except Unreadable:
            return None

    def names(self, folder: str) -> list[str] | None:
        """The names in a folder in byte order; ``None`` if there is none. Raises
        :class:`Unreadable`."""
        real = self.folder(folder)
        return _in_byte_order(self._members(real)) if self._is_folder[real] else None

    def listing(self, folder: str) -> list[str]:
        """:meth:`names`; none where the folder cannot be read."""
        try:
            return self.names(folder) or []
        except Unreadable:
            return []

    def glob(self, folder: str, name: re.Pattern[str]) -> list[str]:
        """The names in a folder that match whole, in byte order; links count, broken or not. A
        folder that cannot be read has none (``filepath.Glob``)."""
        return [found for found in self.listing(folder) if name.fullmatch(found)]

    def resolve(self, path: str) -> str | None:
        """The path without links before its last part; ``None`` where they leave the tree.

        Raises :class:`Unreadable`.
        """
        if self._is_folder[path]:
            return path
        above, slash, last = path.rpartition("/")
        if not slash or last in _NO_NAMES:
            return self._walk(path)
        try:
            real = self._through(above)
        except Unreadable:
            return self._walk(path)  # so that the error has the whole path
        if real is None:
            return None
        return f"{real}/{last}" if real else last

    def folder(self, path: str) -> str:
        """The real path of a folder, through links at its end too; the path itself where that is
        none.

        A prefix resolved once spares a walk for every file below it.
        """
        if self._is_folder[path]:
            return path
        real = self._through(path)
        return path if real is None else real

    def _through(self, path: str) -> str | None:
        """What a path leads to, links at its end followed; remembered, as a CPU's link in its
        node's folder is gone through for each of its files."""
        if path not in self._behind:
            self._behind[path] = self._linked(path) or self._walk(f"{path}/.")
        return self._behind[path]

    def _linked(self, path: str) -> str | None:
        """What :meth:`_walk` finds behind a link to a folder of this tree, as each CPU of a node
        has one; ``None`` where it is not as simple as that."""
        target = self._tree.get(path)
        base = path.rpartition("/")[0]
        if target is None or not self._is_folder[base]:
            return None
        while target.startswith("../"):
            target, base = target[3:], base.rpartition("/")[0]
        found = f"{base}/{target}"
        return found if self._is_folder[found] else None

    def _walk(self, path: str) -> str | None:
        """:meth:`resolve` for what is no folder itself."""
        above, slash, part = path.rpartition("/")
        ahead = [part]  # what is still to be walked, last part first
        while slash and not self._is_folder[above]:
            above, slash, part = above.rpartition("/")
            ahead.append(part)
        done = above.split("/") if slash else []
        links = 0
        while ahead:
            part = ahead.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    return None
                done.pop()
                continue
            done.append(part)
            here = "/".join(done)
            if ahead and not self._is_folder[here]:
                target = self._tree.get(here)
                if target is None:
                    continue
                links += 1
                if links > _MAX_LINKS:
                    raise Unreadable(f"open /{path}: too many levels of symbolic links")
                done = [] if target.startswith("/") else done[:-1]
                ahead.extend(target.split("/")[::-1])
        return "/".join(done)

    def _members(self, folder: str) -> set[str]:
        paths, below = self._paths, f"{folder}/"
        found = set()
        at = bisect_left(paths, below)
        while at < len(paths) and paths[at].startswith(below):
            name, slash, _ = paths[at][len(below) :].partition("/")
            found.add(name)
            # Past whatever lies below this one.
            at = bisect_left(paths, f"{below}{name}{_AFTER_SLASH}", at) if slash else at + 1
        return found


class _Folders(dict[str, bool]):
    """Whether a path is a folder. Remembered, as all CPUs of a node lie in one folder."""

    __slots__ = ("_paths",)

    def __init__(self, paths: list[str]) -> None:
        super().__init__(dict.fromkeys(_ROOTS, True))
        self._paths = paths

    def __missing__(self, path: str) -> bool:
        found = False
        if path.startswith(_BELOW_ROOTS):
            below = f"{path}/"
            at = bisect_left(self._paths, below)
            found = at < len(self._paths) and self._paths[at].startswith(below)
        self[path] = found
        return found


def _in_byte_order(names: set[str]) -> list[str]:
    # Characters are in the order of their bytes, but for those that stand for bytes of no UTF-8.
    if "".join(names).isascii():
        return sorted(names)
    return sorted(names, key=lambda name: name.encode("utf-8", "surrogateescape"))
