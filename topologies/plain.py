"""The plain members of an archive: small files, links and folders, in folders known already.

What belongs here: the short way for members about which nothing is remarkable, which nearly all of
an archive are. What never does: a judgement. Whatever is not plain is left to
:mod:`topologies.archive`, which would also come to the same result for each member that is.

Headers of thousands of members have few different fields, so each is read once and remembered by
its bytes; and the members of a folder follow each other, so that the folder is looked at once for
all of them. A header's checksum is compared as ``zlib.adler32`` sums bytes, modulo 65521: a sum
that is off by just that many passes, and no damage makes one.
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
#: Where the target of a link stands.
_TARGET: Final = 157
_ADLER: Final = 65521
#: What no buffer holds, no header adds up to, and no path is deep enough for.
_BEYOND: Final = 1 << 40


class PlainMembers:
    """Takes plain members into ``entries``. ``folders``: those that they lie in."""

    __slots__ = ("_entries", "_fields", "_known", "_links", "_names", "_texts", "folders")

    def __init__(self, entries: dict[str, str]) -> None:
        self._entries = entries
        self._known: dict[bytes, str] = {}
        self._names = _Names()
        self._fields = _Fields()
        self._links = _Links()
        self._texts = _Texts()
        self.folders: set[str] = set()

    def take(self, buffer: bytes, at: int, prefix: str, most: int) -> tuple[int, int, int]:
        """Take at most ``most`` members from ``at`` on, up to the first that is not plain or that
        ``buffer`` does not hold whole; ``prefix`` is the folder they must be packed under. Returns
        where that is, how many were taken, and how many characters are kept of them at most."""
        entries, names, texts, links = self._entries, self._names, self._texts, self._links
        fields, folders = self._fields, self.folders
        apart, above, stem = _apart(0), b"-", ""
        end, members, kept = min(len(buffer), at + most * _BLOCK), 0, 0
        last = end - _BLOCK
        while at <= last:
            here, own, stated, split = apart(buffer, at)
            data = at + _BLOCK
            size, blocks, total, kind = fields[stated]
            after = data + blocks
            if after > end or split or adler32(buffer[at:data]) & 0xFFFF != total:
                break
            if kind == _FOLDER:
                if size or not self._folder(_until_nul(here + own).rstrip(b"/"), prefix):
                    break
            else:
                name = names[own] if here == above else ""
                if not name:  # the folder changes
                    above, slash, own = _until_nul(here + own).rpartition(b"/")
                    name = names[own]
                    folder = name and self._folder(above, prefix)
                    if not folder:
                        break
                    folders.add(folder)
                    above += slash
                    apart, stem = _apart(len(above)), f"{folder}/"
                path = stem + name
                if kind == _FILE:
                    text = texts[buffer[data : data + size]]
                    kept += size
                elif kind == _LINK and not size:
                    text, climb = links[buffer[at + _TARGET : at + _TARGET + _NAME]]
                    if climb > path.count("/"):
                        break
                else:
                    break
                entries[path] = text
            at = after
            members += 1
        # A path, and a link's target, are fields of the header.
        return at, members, kept + members * 2 * _NAME

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
def _apart(cut: int) -> Callable[[bytes, int], tuple[bytes, bytes, bytes, int]]:
    """What takes a header apart, as one step in C: the name up to ``cut`` and the rest of its
    field, the fields from the size to the kind, the first byte of what ustar puts before a name."""
    return Struct(f"{cut}s{_NAME - cut}s24x33s188xB").unpack_from


class _Fields(dict[bytes, tuple[int, int, int, int]]):
    """What the fields from the size to the kind of a member say: its size, the same in whole
    blocks, what Adler's sum of its header is, and its kind. Members of one size have few sums, and
    packers give all the same time; where they do not, this costs little more than it saves."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes = _Sizes()
        self._sums = _Sums()

    def __missing__(self, fields: bytes) -> tuple[int, int, int, int]:
        size = self._sizes[fields[:12]]
        found = size, size + -size % _BLOCK, self._sums[fields[24:32]], fields[32]
        self[fields] = found
        return found


class _Sizes(dict[bytes, int]):
    """The size of a member by its field; one that is not plain has more than any buffer."""

    def __missing__(self, field: bytes) -> int:
        digits = field.rstrip(b" \0")
        plain = digits and not digits.strip(b"01234567")
        size = int(digits, 8) if plain else _BEYOND
        self[field] = size = size if size <= _MOST_BYTES else _BEYOND
        return size


class _Sums(dict[bytes, int]):
    """What Adler's sum of a header is, by the field that states its sum and counts as blanks."""

    def __missing__(self, field: bytes) -> int:
        digits = field.strip(b" \0")
        if not digits or digits.strip(b"01234567"):
            found = _BEYOND
        else:
            found = (int(digits, 8) - 8 * 32 + sum(field) + 1) % _ADLER
        self[field] = found
        return found


class _Names(dict[bytes, str]):
    """The last part of a path by the rest of its field; ``""`` where it is none of its own."""

    def __missing__(self, field: bytes) -> str:
        raw = _until_nul(field)
        self[field] = name = "" if b"/" in raw or raw in (b".", b"..") else _text(raw)
        return name


class _Links(dict[bytes, tuple[Link, int]]):
    """Links by the field of their targets, and how far they climb: beyond any folder where no tree
    may hold them."""

    def __missing__(self, field: bytes) -> tuple[Link, int]:
        target = Link(_text(_until_nul(field)))
        try:
            found = target, climb_of(target)
        except ValueError:
            found = target, _BEYOND
        self[field] = found
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


def _until_nul(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
