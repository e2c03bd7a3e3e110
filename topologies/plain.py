"""The plain members of an archive: small files in folders that were looked at before.

What belongs here: the short way for members about which nothing is remarkable, which nearly all of
an archive are. What never does: a judgement. Whatever is not plain is left to
:mod:`topologies.archive`, which would also come to the same result for each member that is.

Headers of thousands of files have few different fields, so each is read once and remembered by its
bytes. A header's checksum is compared as ``zlib.adler32`` sums bytes, modulo 65521: a sum that is
off by just that many passes, and no damage makes one.
"""

from __future__ import annotations

from typing import Final
from zlib import adler32

from topologies.paths import clean, relevant

_BLOCK: Final = 512
#: Longer files are not plain.
_MOST_BYTES: Final = 4096
#: A name that takes the whole field has no end of its own.
_MOST_NAME: Final = 99
_FILE: Final = ord("0")
_FOLDER: Final = ord("5")
#: The first byte of what ustar puts before a name.
_USTAR_PREFIX: Final = 345
_ADLER: Final = 65521
_NOT_PLAIN: Final = -1


class PlainMembers:
    """Takes plain members into ``entries``."""

    __slots__ = ("_entries", "_folders", "_names", "_sizes", "_sums", "_texts")

    def __init__(self, entries: dict[str, str]) -> None:
        self._entries = entries
        self._sizes: dict[bytes, int] = {}
        self._sums: dict[bytes, int] = {}
        self._names: dict[bytes, str] = {}
        self._texts: dict[bytes, str] = {}
        self._folders: dict[bytes, str] = {}

    def take(self, buffer: bytes, at: int, prefix: str, most: int) -> tuple[int, int, int]:
        """Take at most ``most`` members from ``at`` on, up to the first that is not plain or that
        ``buffer`` does not hold whole; ``prefix`` is the folder they must be packed under. Returns
        where that is, how many were taken, and how many characters are kept of them."""
        entries, sizes, sums = self._entries, self._sizes, self._sums
        names, texts, folders = self._names, self._texts, self._folders
        end, members, kept = len(buffer), 0, 0
        while members < most:
            data = at + _BLOCK
            header = buffer[at:data]
            if len(header) < _BLOCK or header[_USTAR_PREFIX]:
                break
            size = sizes.get(header[124:136])
            if size is None:
                size = self._size(header[124:136])
            after = data + (size + 511 & -512)
            if size < 0 or after > end:
                break
            stated = sums.get(header[148:156])
            if stated is None:
                stated = self._sum(header[148:156])
            if adler32(header) & 0xFFFF != stated:
                break
            raw = header[: header.find(0)]
            if len(raw) > _MOST_NAME:
                break  # whatever follows the name may be part of it
            if header[156] == _FOLDER:
                if size or not self._folder(raw.rstrip(b"/"), prefix):
                    break
            elif header[156] == _FILE:
                above, _, own = raw.rpartition(b"/")
                folder = folders.get(above) or self._folder(above, prefix)
                name = names.get(own) or self._name(own)
                if not folder or not name:
                    break
                content = buffer[data : data + size]
                text = texts.get(content)
                if text is None:
                    text = texts[content] = _text(content)
                path = f"{folder}/{name}"
                entries[path] = text
                kept += len(text) + len(path)
            else:
                break
            at = after
            members += 1
        return at, members, kept

    def _size(self, field: bytes) -> int:
        digits = field.rstrip(b" \0")
        plain = digits and not digits.strip(b"01234567")
        size = int(digits, 8) if plain else _NOT_PLAIN
        self._sizes[field] = size = size if size <= _MOST_BYTES else _NOT_PLAIN
        return size

    def _sum(self, field: bytes) -> int:
        """What Adler's sum of the header is, given the sum that it states, which counts its own
        field as blanks."""
        digits = field.strip(b" \0")
        if not digits or digits.strip(b"01234567"):
            return _NOT_PLAIN
        found = self._sums[field] = (int(digits, 8) - 8 * 32 + sum(field) + 1) % _ADLER
        return found

    def _name(self, raw: bytes) -> str:
        """The last part of a path; ``""`` where it is none of its own."""
        name = "" if raw in (b".", b"..") else _text(raw)
        self._names[raw] = name
        return name

    def _folder(self, raw: bytes, prefix: str) -> str:
        """Where in the tree a folder is; ``""`` for one that a tree does not keep, and for what
        is not packed under ``prefix``."""
        above, _, own = raw.rpartition(b"/")
        known = self._folders.get(above)
        if known and own not in (b"", b".", b".."):
            folder = f"{known}/{_text(own)}"
        else:
            folder = _relevant_folder(_text(raw), prefix)
        if folder:
            self._folders[raw] = folder
        return folder


def _relevant_folder(path: str, prefix: str) -> str:
    try:
        found = relevant(clean(f"{path}/x"))
    except ValueError:
        return ""
    return found[1].removesuffix("/x") if found and found[0] == prefix else ""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
