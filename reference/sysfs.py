"""Looking around in a machine's tree.

What belongs here: reading files, listing folders and following links of a tree in memory. What
never does: what the files mean.

Three outcomes are told apart, because readers treat them differently: a file's text; no such file
(``None``); and a file that is there and cannot be read (:class:`Unreadable`).

A tree is any mapping of path to text. Paths are relative (``sys/devices/system/cpu/online``). An
entry that is used as a folder is a symbolic link, and its text the target; a tree that spells the
linked files out at both places works as well. Only the parts that discovery reads are indexed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["SysFS", "Unreadable"]

_INDEXED: Final = ("sys/devices/system/cpu/", "sys/devices/system/node/")
_MAX_LINKS: Final = 40  # Linux gives up after as many, with ELOOP


class Unreadable(Exception):
    """A path leads to something, and it cannot be read; ``str()`` is Go's text for it."""


def _link_loop(path: str) -> Unreadable:
    return Unreadable(f"open /{path}: too many levels of symbolic links")


class SysFS:
    """One tree, indexed once. Paths may lead through links; a link that leaves the tree, and one
    whose target does not exist, is a missing file."""

    __slots__ = ("_folders", "_tree")

    def __init__(self, tree: Mapping[str, str]) -> None:
        self._tree = tree
        self._folders: dict[str, set[str]] = {folder.rstrip("/"): set() for folder in _INDEXED}
        folders = self._folders
        for path in tree:
            if not path.startswith(_INDEXED):
                continue
            # Climb until a folder is met that was entered before.
            folder, _, name = path.rpartition("/")
            while folder not in folders:
                folders[folder] = {name}
                folder, _, name = folder.rpartition("/")
            folders[folder].add(name)

    def read(self, path: str) -> str | None:
        """The text of a file, ``None`` if there is none. Raises :class:`Unreadable`."""
        try:
            return self._tree[path]  # asked once, as the mapping may be slow to answer
        except KeyError:
            real = self.resolve(path)
        if real in self._folders:
            raise Unreadable(f"read /{path}: is a directory")
        return None if real is None or real == path else self._tree.get(real)

    def names(self, folder: str) -> list[str] | None:
        """The names in a folder in byte order; ``None`` if there is none. Raises
        :class:`Unreadable`."""
        found = self._folders.get(folder)
        if found is None:
            real = self.resolve(folder + "/.")
            found = None if real is None else self._folders.get(real)
        return None if found is None else sorted(found, key=_bytes)

    def glob(self, folder: str, name: re.Pattern[str]) -> list[str]:
        """The names in a folder that match whole, in byte order; links count, broken or not. A
        folder that cannot be read has none (``filepath.Glob``)."""
        try:
            names = self.names(folder)
        except Unreadable:
            return []
        return [found for found in names or () if name.fullmatch(found)]

    def resolve(self, path: str) -> str | None:
        """The path without links before its last part; ``None`` where they leave the tree.

        Raises :class:`Unreadable`.
        """
        if path in self._folders:
            return path
        done: list[str] = []
        ahead = path.split("/")[::-1]
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
            if ahead and here not in self._folders and here in self._tree:
                links += 1
                if links > _MAX_LINKS:
                    raise _link_loop(path)
                target = self._tree[here]
                done = [] if target.startswith("/") else done[:-1]
                ahead.extend(target.split("/")[::-1])
        return "/".join(done)

    def folder(self, path: str) -> str:
        """The real path of a folder, through links at its end too; itself where that is none.

        A prefix resolved once spares a walk for every file below it.
        """
        real = self.resolve(path + "/.")
        return path if real is None else real


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
