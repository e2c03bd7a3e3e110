"""The plain members of an archive: small files, links and folders, in folders known already.

What belongs here: the short way for members about which nothing is remarkable, which nearly all of
an archive are. What never does: a judgement. Whatever is not plain is left to
:mod:`topologies.archive`, which would also come to the same result for each member that is.

Headers of thousands of members have few different fields, so each is read once and remembered by
its bytes, with the sum of them, as a header's checksum is the sum of its parts'; and the members of
a folder follow each other, so that the folder is looked at once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final
from zlib import adler32

from topologies.paths import clean, climb_of, relevant
from topologies.tree import Link

_BLOCK: Final = 512
#: Longer files are not plain.
_MOST_BYTES: Final = 4096
#: So many bytes hold any plain member.
MOST_PLAIN: Final = _BLOCK + _MOST_BYTES
_NAME: Final = 100
_FILE: Final = ord("0")
_LINK: Final = ord("2")
_FOLDER: Final = ord("5")
#: After the name stands what is stated of a member (mode, owner, size and time, then, from ``_SUM``
#: on, the sum of the header, then the kind), and after that the rest: the target of a link, the
#: names of the owner, and, from ``_SPLIT`` on, what comes before a name in two parts.
_STATED: Final = 57
_SUM: Final = 48
_REST: Final = _BLOCK - _NAME - _STATED
_SPLIT: Final = 345 - _NAME - _STATED
#: What no buffer holds, no header adds up to, and no path is deep enough for.
_BEYOND: Final = 1 << 40


class PlainMembers:
    """Takes plain members into ``entries``. ``folders``: those that they lie in."""

    __slots__ = ("_entries", "_fields", "_known", "_names", "_rests", "_texts", "folders")

    def __init__(self, entries: dict[str, str]) -> None:
        self._entries = entries
        self._known: dict[bytes, str] = {}
        self._names = _Names()
        self._fields = _Fields()
        self._rests = _Rests()
        self._texts = _Texts()
        self.folders: set[str] = set()

    def take(self, buffer: bytes, at: int, prefix: str, most: int) -> tuple[int, int, int]:
        """Take at most ``most`` members from ``at`` on, up to the first that is not plain or that
        ``buffer`` does not hold whole; ``prefix`` is the folder they must be packed under. Returns
        where that is, how many were taken, and how many characters are kept of them at most."""
        entries, names, texts, rests = self._entries, self._names, self._texts, self._rests
        fields, folders = self._fields, self.folders
        apart, above, stem, rest = _apart(0), b"-", "", b""
        sum_above = sum_rest = climb = 0
        target = Link()
        end, members, kept = min(len(buffer), at + most * _BLOCK), 0, 0
        last = end - _BLOCK
        while at <= last:
            here, own, stated, below = apart(buffer, at)
            size, length, kind, left = fields[stated]
            after = at + length
            if after > end:
                break
            if below != rest:
                rest = below
                sum_rest, target, climb = rests[below]
                if sum_rest < 0:
                    break
            if kind == _FOLDER:
                whole = here + own
                raw = _until_nul(whole).rstrip(b"/")
                if _sum(whole) + sum_rest != left or not self._folder(raw, prefix):
                    break
            else:
                name, sum_own = names[own] if here == above else ("", 0)
                if not name:  # the folder changes
                    whole = here + own
                    above, folder = self._above(whole, prefix)
                    name, sum_own = names[whole[len(above) :]]
                    if not (folder and name):
                        break
                    folders.add(folder)
                    apart, stem, sum_above = _apart(len(above)), f"{folder}/", _sum(above)
                if sum_above + sum_own + sum_rest != left:
                    break
                path = stem + name
                if kind == _FILE:
                    data = at + _BLOCK
                    entries[path] = texts[buffer[data : data + size]]
                    kept += size
                elif climb > path.count("/"):
                    break
                else:
                    entries[path] = target
            at = after
            members += 1
        # A path, and a link's target, are fields of the header.
        return at, members, kept + members * 2 * _NAME

    def _above(self, name: bytes, prefix: str) -> tuple[bytes, str]:
        """A name up to its last slash, and where in the tree that folder is (:meth:`_folder`)."""
        above, slash, _ = _until_nul(name).rpartition(b"/")
        return above + slash, self._folder(above, prefix)

    def _folder(self, raw: bytes, prefix: str) -> str:
        """Where in the tree a folder is; ``""`` for one that a tree does not keep, and for what
        is not packed under ``prefix``."""
        folder = self._known.get(raw)
        if folder is None:
            above, _, own = raw.rpartition(b"/")
            known = self._folder(above, prefix) if above and own not in (b"", b".", b"..") else ""
            folder = f"{known}/{_text(own)}" if known else _relevant_folder(_text(raw), prefix)
            if folder:
                self._known[raw] = folder
        return folder


@lru_cache(maxsize=_NAME + 1)
def _apart(cut: int) -> Callable[[bytes, int], tuple[bytes, bytes, bytes, bytes]]:
    """What takes a header apart, as one step in C: the name up to ``cut`` and the rest of its
    field, what is stated of the member, and the rest."""
    return Struct(f"{cut}s{_NAME - cut}s{_STATED}s{_REST}s").unpack_from


class _Fields(dict[bytes, tuple[int, int, int, int]]):
    """What is stated of a member: its size, how many bytes it takes with its header, its kind, and
    what the other parts of the header have to add up to. One that is not plain takes more bytes
    than any buffer has. Members of one size have few sums, and packers give all the same time;
    where they do not, this costs little more than it saves."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds = _Kinds()

    def __missing__(self, stated: bytes) -> tuple[int, int, int, int]:
        size, length, kind, total = self._kinds[stated[:_SUM] + stated[-1:]]
        self[stated] = found = size, length, kind, _octal(stated[_SUM:-1]) - total
        return found


class _Kinds(dict[bytes, tuple[int, int, int, int]]):
    """The size and the kind of a member, and how many bytes it takes, by what is stated of it but
    for the sum; and what all that adds up to, with the field of the sum, which counts as blanks."""

    def __missing__(self, stated: bytes) -> tuple[int, int, int, int]:
        kind, size = stated[-1], _octal(stated[24:36])
        plain = size <= _MOST_BYTES if kind == _FILE else not size and kind in (_LINK, _FOLDER)
        length = _BLOCK + size + -size % _BLOCK if plain else _BEYOND
        self[stated] = found = size, length, kind, sum(stated) + 8 * 32
        return found


class _Names(dict[bytes, tuple[str, int]]):
    """The last part of a path by the rest of its field, and the sum of that; ``""`` where it is
    none of its own."""

    def __missing__(self, field: bytes) -> tuple[str, int]:
        raw = _until_nul(field)
        own = raw and b"/" not in raw and raw not in (b".", b"..")
        self[field] = found = _text(raw) if own else "", _sum(field)
        return found


class _Rests(dict[bytes, tuple[int, Link, int]]):
    """The rest of a header: its sum, and the link that it makes, with how far that climbs: beyond
    any folder where no tree may hold it. The sum is less than 0 where a name is in two parts."""

    def __missing__(self, rest: bytes) -> tuple[int, Link, int]:
        target = Link(_text(_until_nul(rest[:_NAME])))
        try:
            climb = climb_of(target)
        except ValueError:
            climb = _BEYOND
        self[rest] = found = -1 if rest[_SPLIT] else sum(rest), target, climb
        return found


class _Texts(dict[bytes, str]):
    """Texts by their bytes."""

    def __missing__(self, data: bytes) -> str:
        self[data] = text = _text(data)
        return text


def _relevant_folder(path: str, prefix: str) -> str:
    try:
        found = relevant(clean(f"{path}/x"))
    except ValueError:
        return ""
    return found[1].removesuffix("/x") if found and found[0] == prefix else ""


def _octal(field: bytes) -> int:
    """The number that a field states; beyond all where it is none."""
    digits = field.strip(b" \0")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else _BEYOND


def _sum(part: bytes) -> int:
    """What few bytes add up to; Adler's sum is modulo 65521, and begins at one."""
    return (adler32(part) & 0xFFFF) - 1


def _until_nul(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
