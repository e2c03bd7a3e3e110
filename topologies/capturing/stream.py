"""Reads what a node sent: from the bytes of a stream to the files and links of a tree.

The sender is not trusted. Only paths of :mod:`topologies.capturing.scope` are kept, and links
follow the rules of every tree. A line that :mod:`topologies.capturing.script` does not write makes
the whole stream refused. Lines before the first one (a login shell's greeting) are ignored;
carriage returns of a terminal and NUL bytes are dropped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from topologies.capturing.scope import is_file, is_link
from topologies.capturing.script import FIRST, LAST
from topologies.paths import MAX_FILES, MAX_TREE_BYTES, check_link, check_nesting
from topologies.tree import Link, Tree

#: A machine of 8192 CPUs stays below it.
MAX_STREAM: Final = MAX_TREE_BYTES
_LISTED: Final = re.compile(r"l.* (sys/devices/system/[^ ]+) -> ([^ ]+)")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.+~-]{1,80}", re.ASCII)


class BrokenStream(Exception):
    """The bytes are no capture, or only the beginning of one; ``str()`` says which."""


@dataclass(slots=True)
class Received:
    """The content of a stream. ``unreadable`` are paths that the node could not read."""

    kernel: str = ""
    arch: str = ""
    entries: dict[str, str] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    nul_bytes: bool = False

    @property
    def tree(self) -> Tree:
        return Tree(self.entries)


def read_stream(data: bytes) -> Received:
    """Read a stream from its first byte; raises :class:`BrokenStream`."""
    if len(data) > MAX_STREAM:
        raise BrokenStream(f"it sent more than {MAX_STREAM >> 20} MiB")
    received = Received(nul_bytes=b"\0" in data)
    lines = data.replace(b"\0", b"").decode("utf-8", "surrogateescape").split("\n")
    body = _body([line.removesuffix("\r") for line in lines])
    try:
        _Reader(received).read(body)
        check_nesting(received.entries)
    except ValueError as error:
        raise BrokenStream(f"refused: {error}") from error
    return received


def _body(lines: list[str]) -> list[str]:
    """The lines between the first and the last of a capture."""
    if FIRST not in lines:
        said = next((line for line in lines if line.strip()), "")
        raise BrokenStream(
            f"it sent something other than a capture: {said[:120]!r}" if said else "it sent nothing"
        )
    rest = lines[lines.index(FIRST) + 1 :]
    if rest[0].startswith("E "):
        raise BrokenStream(rest[0][2:202])
    if LAST not in rest:
        raise BrokenStream("the capture is cut off: it ends in the middle")
    return rest[: rest.index(LAST)]


class _Reader:
    def __init__(self, received: Received) -> None:
        self._received = received
        self._path: str | None = None
        self._text: list[str] = []

    def read(self, lines: list[str]) -> None:
        for line in lines:
            if line.startswith(" "):
                self._content(line[1:])
            else:
                self._finish()
                self._header(line)
        self._finish()

    def _content(self, line: str) -> None:
        if self._path is None:
            raise BrokenStream(f"refused: a line outside of a file: {line[:120]!r}")
        if self._path:
            self._text.append(line + "\n")
        elif found := _LISTED.fullmatch(line):
            self._link(found[1], found[2])

    def _header(self, line: str) -> None:
        kind, _, value = line.partition(" ")
        if kind == "F":
            self._path = value
        elif kind == "L" and not value:
            self._path = ""
        elif kind == "X":
            self._received.unreadable.append(value[:1024])
        elif kind in ("kernel", "arch"):
            setattr(self._received, kind, value if _PLAIN.fullmatch(value) else "unknown")
        else:
            raise BrokenStream(f"refused: not a line of a capture: {line[:120]!r}")
        if len(self._received.unreadable) > MAX_FILES:
            raise BrokenStream("refused: more than any machine's tree")

    def _link(self, path: str, target: str) -> None:
        if not is_link(path):
            return
        check_link(path, target)
        self._keep(path, Link(target))

    def _finish(self) -> None:
        """Keep the file that was read. A glob of the script also matches files that the table does
        not mean."""
        path, text = self._path, "".join(self._text)
        self._path, self._text = None, []
        if not path or not is_file(path):
            return
        if text:
            self._keep(path, text)
        else:
            self._received.unreadable.append(path)

    def _keep(self, path: str, text: str) -> None:
        if path in self._received.entries:
            raise BrokenStream(f"refused: {path} twice")
        if len(self._received.entries) >= MAX_FILES:
            raise BrokenStream("refused: more than any machine's tree")
        self._received.entries[path] = text
