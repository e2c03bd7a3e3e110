"""A machine's tree: the text of its files, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class Link(str):
    """The target of a symbolic link, where a tree would have a file's text."""

    __slots__ = ()


class Tree(Mapping[str, str]):
    r"""A read-only mapping of path to text: ``tree["sys/devices/system/cpu/online"]`` is
    ``"0-3\n"``. Paths are relative, without ``.`` and ``..``. A symbolic link is an entry whose
    value is a :class:`Link`, its target as it was read; the reader resolves it, because the meaning
    of a broken link depends on the reader."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._entries = dict(entries)

    def __getitem__(self, path: str) -> str:
        return self._entries[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<Tree of {len(self)} files>"
