"""The plain members of an archive: small files, links and folders below one folder.

What belongs here: a fast path for ordinary members, which nearly all members are. What never does:
refusing an archive. A member that is not plain is left to :mod:`topologies.archive`, which also
reads plain members with the same result.

The headers of thousands of members have few different fields. So each field is read once and
remembered by its bytes, with their sum: a header's checksum is the total of these sums.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeVar
from zlib import adler32

from topologies.paths import FOLDERS, climb_of
from topologies.tree import Link

_BLOCK: Final = 512
#: Longer files are not plain.
_MOST_BYTES: Final = 4096
#: The most bytes of a plain member with its header.
MOST_PLAIN: Final = _BLOCK + _MOST_BYTES
_NAME: Final = 100
_FILE: Final = ord("0")
_LINK: Final = ord("2")
_FOLDER: Final = ord("5")
#: A header is the name, the stated fields (mode, owner, size and time, then, from ``_SUM`` on, the
#: sum of the header, then the kind), and the rest: the target of a link, the names of the owner,
#: and, from ``_SPLIT`` on, the first part of a name in two parts.
_STATED: Final = 57
_SUM: Final = 48
_SPLIT: Final = 345 - _NAME - _STATED
_header: Final = Struct(f"{_NAME}s{_STATED}s{_BLOCK - _NAME - _STATED}s").unpack_from
#: More bytes than a buffer holds, and more than the sum of any header.
_BEYOND: Final = 1 << 40
_T = TypeVar("_T")


class PlainMembers:
    """Takes plain members into ``entries``."""

    def __init__(self, entries: dict[str, str]) -> None:
        self._entries = entries
        self._fields = _Known(_fields)
        self._rests = _Known(_rest)
        self._texts = _Known(decoded)

    def take(self, buffer: bytes, at: int, above: str, most: int) -> tuple[int, int, int]:
        """Take at most ``most`` members from ``at`` on, up to the first that is not plain or that
        ``buffer`` does not hold whole; ``above`` is the part of the members' names before a tree's
        paths. Returns the new position, how many were taken, and the most characters that they add
        to the tree."""
        entries, fields, rests, texts = self._entries, self._fields, self._rests, self._texts
        folders = tuple(f"{above}{folder}/" for folder in FOLDERS)
        start, end = len(above), min(len(buffer), at + most * _BLOCK)
        last, members, kept = end - _BLOCK, 0, 0
        while at <= last:
            name, stated, below = _header(buffer, at)
            size, length, kind, left = fields[stated]
            after = at + length
            sum_below, target, climb = rests[below]
            # Adler's sum of a few bytes is their sum plus one.
            if after > end or sum_below < 0 or (adler32(name) & 0xFFFF) - 1 + sum_below != left:
                break
            whole = decoded(name.rstrip(b"\0"))
            path = whole[start:]
            odd = "/." in path or "//" in path or "\0" in path
            if odd or not whole.startswith(folders):
                break
            if kind != _FOLDER:
                if path[-1] == "/":
                    break
                if kind == _FILE:
                    entries[path] = texts[buffer[at + _BLOCK : at + _BLOCK + size]]
                    kept += size
                elif climb > path.count("/"):
                    break
                else:
                    entries[path] = target
            at = after
            members += 1
        # A path, and a link's target, are fields of the header.
        return at, members, kept + members * 2 * _NAME


class _Known(dict[bytes, _T]):
    """The result of ``read`` for some bytes, computed once."""

    def __init__(self, read: Callable[[bytes], _T]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, data: bytes) -> _T:
        self[data] = found = self._read(data)
        return found


def _fields(stated: bytes) -> tuple[int, int, int, int]:
    """The stated fields: the size, the bytes that the member takes with its header, its kind, and
    the sum that the other parts of the header must have. A member that is not plain takes
    ``_BEYOND`` bytes."""
    kind, size = stated[-1], _octal(stated[24:36])
    plain = size <= _MOST_BYTES if kind == _FILE else not size and kind in (_LINK, _FOLDER)
    length = _BLOCK + size + -size % _BLOCK if plain else _BEYOND
    # The field of the sum counts as blanks.
    return size, length, kind, _octal(stated[_SUM:-1]) - sum(stated[:_SUM]) - kind - 8 * 32


def _rest(rest: bytes) -> tuple[int, Link, int]:
    """The rest of a header: its sum, its link, and how far the link climbs. The sum is below 0
    where a name is in two parts."""
    target = Link(decoded(until_nul(rest[:_NAME])))
    return -1 if rest[_SPLIT] else sum(rest), target, climb_of(target)


def _octal(field: bytes) -> int:
    """The number that a field states; ``_BEYOND`` where it states none."""
    digits = field.strip(b" \0")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else _BEYOND


def until_nul(field: bytes) -> bytes:
    """The content of a field of a header."""
    return field.partition(b"\0")[0]


def decoded(data: bytes) -> str:
    """Decode as a tree keeps texts and paths."""
    return data.decode("utf-8", "surrogateescape")
