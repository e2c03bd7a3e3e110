"""Archives of machines: tar, plain or compressed, read in one pass without extracting.

It replaces :mod:`tarfile`, because an archive here has thousands of members of a few bytes, and is
not trusted. It keeps only the files of a machine, trusts no header, and limits what the
decompressor returns. It is several times faster than one object for each member.

It reads ustar, GNU long names and pax paths, and a hard link as the file that it names. It refuses
an archive with a device, a FIFO or a sparse member among the relevant paths.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Final, Protocol

from topologies.paths import (
    MAX_FILES,
    MAX_TREE_BYTES,
    check_link,
    check_nesting,
    check_size,
    clean,
    relevant,
)
from topologies.plain import MOST_PLAIN, PlainMembers, decoded, until_nul
from topologies.tree import Link, Tree

#: Bounds on the archive: compressed, expanded, and how far one byte may expand. sysfs files are
#: a few bytes in blocks of 512, which xz packs 500 to 1.
MAX_PACKED: Final = 64 << 20
MAX_EXPANDED: Final = 1 << 30
MAX_RATIO: Final = 2000
_RATIO_FROM: Final = 8 << 20
_LZMA_MEMORY: Final = 256 << 20
_CHUNK: Final = 1 << 18
_BLOCK: Final = 512
_END: Final = bytes(_BLOCK)
_UNPACKING_ERRORS: Final = (EOFError, OSError, lzma.LZMAError, zlib.error)


class BrokenArchive(Exception):
    """The archive is cut off, hostile, or not one; ``str()`` says which, without its name."""


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_archive(data: bytes) -> Tree:
    """The tree in an archive's bytes: the relevant paths, without the folder that they were packed
    under. Raises :class:`BrokenArchive`."""
    if len(data) > MAX_PACKED:
        raise BrokenArchive(f"larger than {MAX_PACKED >> 20} MiB")
    return _Reader(_Expanded(_decompressed(data), len(data))).tree()


def _decompressed(data: bytes) -> _Source:
    if data.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=io.BytesIO(data))
    if data.startswith(b"BZh"):
        return bz2.BZ2File(io.BytesIO(data))
    if data.startswith(b"\xfd7zXZ\0"):
        return _Xz(data)
    if len(data) < _BLOCK or not (data[:_BLOCK] == _END or _checksum_holds(data[:_BLOCK])):
        raise BrokenArchive(
            "not a tar archive (plain, gz, bz2 or xz), nor what `lscpu -J -e`, `lscpu -p` or "
            "`lstopo --of xml` prints (`pinproof import`)"
        )
    return io.BytesIO(data)


class _Xz:
    """xz with a bound on memory, which :class:`lzma.LZMAFile` does not take."""

    def __init__(self, data: bytes) -> None:
        self._rest = data
        self._stream = lzma.LZMADecompressor(memlimit=_LZMA_MEMORY)

    def read(self, size: int, /) -> bytes:
        while True:
            if self._stream.eof:
                self._rest = self._stream.unused_data.lstrip(b"\0")
                if not self._rest:
                    return b""
                self._stream = lzma.LZMADecompressor(memlimit=_LZMA_MEMORY)
            data, self._rest = self._rest, b""
            chunk = self._stream.decompress(data, size)
            if chunk:
                return chunk
            if not self._stream.eof and self._stream.needs_input:
                raise EOFError


class _Expanded:
    """The expanded data of a source, in pieces of exactly the requested size, and bounded."""

    def __init__(self, source: _Source, packed: int) -> None:
        self._source = source
        self._bound = min(MAX_EXPANDED, max(packed * MAX_RATIO, _RATIO_FROM))
        self._seen = 0
        #: Expanded data, and the position up to which it was taken.
        self.buffer = b""
        self.at = 0

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer at the end."""
        pieces: list[bytes] = []
        while True:
            piece = self.buffer[self.at : self.at + size]
            self.at += len(piece)
            size -= len(piece)
            if not pieces and not size:
                return piece
            pieces.append(piece)
            if not size or not self.refill():
                return b"".join(pieces)

    def refill(self) -> bool:
        """Drop from the buffer what was taken, and append more; ``False`` at the end."""
        chunk = self._read_chunk()
        self.buffer, self.at = self.buffer[self.at :] + chunk, 0
        return bool(chunk)

    def skip(self, size: int) -> bool:
        """Skip ``size`` bytes; ``False`` where there are fewer."""
        while size > _CHUNK:
            if not self.take(_CHUNK):
                return False
            size -= _CHUNK
        return len(self.take(size)) == size

    def drain(self) -> None:
        """Read to the end, where packers keep their checksums."""
        while self._read_chunk():
            pass

    def _read_chunk(self) -> bytes:
        try:
            chunk = self._source.read(_CHUNK)
        except _UNPACKING_ERRORS as error:
            raise BrokenArchive("cut off or damaged: it cannot be unpacked to its end") from error
        self._seen += len(chunk)
        if self._seen > self._bound:
            raise BrokenArchive("expands to more than any machine's tree")
        return chunk


class _Reader:
    """Reads the members one by one, and trusts no header."""

    def __init__(self, stream: _Expanded) -> None:
        self._stream = stream
        self._entries: dict[str, str] = {}
        self._prefix: str | None = None
        #: The part of a member's name before the path in the tree.
        self._above: str | None = None
        self._members = 0
        self._kept_bytes = 0
        self._long_name: str | None = None
        self._long_link: str | None = None
        self._pax: dict[str, str] = {}
        self._plain = PlainMembers(self._entries)
        self._by_kind: dict[bytes, Callable[[str, bytes, int], None]] = {
            b"0": self._file,
            b"\0": self._file,
            b"7": self._file,
            b"1": self._hard_link,
            b"2": self._link,
            b"5": self._folder,
        }

    def tree(self) -> Tree:
        try:
            self._read_members()
            check_nesting(self._entries)
        except ValueError as error:
            raise BrokenArchive(f"refused: {error}") from error
        return Tree(self._entries)

    def _read_members(self) -> None:
        while (header := self._stream.take(_BLOCK)) != _END:
            if len(header) < _BLOCK:
                raise BrokenArchive("cut off: it ends in the middle")
            if not _checksum_holds(header):
                raise BrokenArchive("damaged: a member's checksum is wrong")
            self._member(header)
            if not (self._long_name or self._long_link or self._pax):
                self._plain_members()
        self._stream.drain()

    def _member(self, header: bytes) -> None:
        self._members += 1
        if self._members > MAX_FILES:
            raise BrokenArchive(f"more than {MAX_FILES} members")
        kind, size = header[156:157], self._size(header)
        if kind in b"LKxg" and kind:
            self._extension(kind, self._data(size))
            return
        name = self._pax.get("path") or self._long_name or _name(header)
        try:
            found = relevant(clean(name))
        except ValueError as error:
            raise ValueError(f"{error}: {name}") from error
        if found is None:
            self._skip(size)
        else:
            self._check_prefix(found[0])
            if name.endswith(found[1]):
                self._above = name.removesuffix(found[1])
            self._by_kind.get(kind, self._refused)(found[1], header, size)
        self._long_name = self._long_link = None
        self._pax = {}

    def _plain_members(self) -> None:
        """Take the plain members that follow, with the result of :meth:`_member` for each."""
        if self._above is None:
            return
        stream, more = self._stream, True
        while more:
            most = MAX_FILES - self._members
            stream.at, members, kept = self._plain.take(stream.buffer, stream.at, self._above, most)
            self._members += members
            self._count(kept)
            # If a whole plain member has room in the rest, the next member is not plain.
            more = len(stream.buffer) - stream.at < MOST_PLAIN and stream.refill()

    def _size(self, header: bytes) -> int:
        field = header[124:136]
        text = self._pax.get("size") or field.strip(b" \0").decode("ascii", "replace")
        base = 10 if "size" in self._pax else 8
        try:
            size = int(text, base) if text else 0
        except ValueError:
            size = -1
        if not 0 <= size <= MAX_EXPANDED:
            raise BrokenArchive("refused: a member of impossible size")
        return size

    def _data(self, size: int, path: str = "") -> bytes:
        check_size(path, size)
        padded = size + -size % _BLOCK
        data = self._stream.take(padded)
        if len(data) < padded:
            raise BrokenArchive("cut off: it ends in the middle")
        return data[:size]

    def _skip(self, size: int) -> None:
        if not self._stream.skip(size + -size % _BLOCK):
            raise BrokenArchive("cut off: it ends in the middle")

    def _extension(self, kind: bytes, data: bytes) -> None:
        if kind == b"L":
            self._long_name = decoded(data.rstrip(b"\0"))
        elif kind == b"K":
            self._long_link = decoded(data.rstrip(b"\0"))
        elif kind == b"x":
            self._pax = _pax_records(data)

    def _check_prefix(self, prefix: str) -> None:
        if self._prefix is None:
            self._prefix = prefix
        elif self._prefix != prefix:
            one, other = self._prefix or ".", prefix or "."
            raise BrokenArchive(f"it holds more than one machine: {one} and {other}")

    def _file(self, path: str, _header: bytes, size: int) -> None:
        self._keep(path, decoded(self._data(size, path)))

    def _folder(self, _path: str, _header: bytes, size: int) -> None:
        self._skip(size)

    def _link(self, path: str, header: bytes, size: int) -> None:
        self._skip(size)
        target = self._target(header)
        check_link(path, target)
        self._keep(path, Link(target))

    def _hard_link(self, path: str, header: bytes, size: int) -> None:
        self._skip(size)
        target = self._target(header)
        try:
            found = relevant(clean(target))
        except ValueError:
            found = None
        if found is None or found[1] not in self._entries:
            raise BrokenArchive(f"refused: a hard link to what it does not hold: {path}")
        self._keep(path, self._entries[found[1]])

    def _refused(self, path: str, _header: bytes, _size: int) -> None:
        raise BrokenArchive(f"refused: neither file, folder nor link: {path}")

    def _target(self, header: bytes) -> str:
        return self._pax.get("linkpath") or self._long_link or decoded(until_nul(header[157:257]))

    def _keep(self, path: str, text: str) -> None:
        self._count(len(text) + len(path))
        self._entries[path] = text

    def _count(self, kept: int) -> None:
        self._kept_bytes += kept
        if self._kept_bytes > MAX_TREE_BYTES:
            raise BrokenArchive("expands to more than any machine's tree")


def _checksum_holds(header: bytes) -> bool:
    """A header's sum counts its own field as blanks; some old tars summed signed bytes."""
    try:
        stated = int(header[148:156].strip(b" \0") or b"x", 8)
    except ValueError:
        return False
    total = sum(header) - sum(header[148:156]) + 8 * 32
    if stated == total:
        return True
    high = sum(byte > 127 for byte in header[:148] + header[156:])
    return stated == total - 256 * high


def _name(header: bytes) -> str:
    name = decoded(until_nul(header[:100]))
    if header[257:263] == b"ustar\0" and header[345]:
        return f"{decoded(until_nul(header[345:500]))}/{name}"
    return name


def _pax_records(data: bytes) -> dict[str, str]:
    """Records of ``length key=value`` and a newline; keys of no use here are dropped."""
    records, at = {}, 0
    while at < len(data) and data[at]:
        length, blank, _ = data[at : at + 20].partition(b" ")
        if not (blank and length.isdigit() and len(length) < 10):
            raise BrokenArchive("damaged: a pax header cannot be read")
        end = at + int(length)
        key, equals, value = data[at + len(length) + 1 : end - 1].partition(b"=")
        if end <= at or end > len(data) or not equals:
            raise BrokenArchive("damaged: a pax header cannot be read")
        if key in (b"path", b"linkpath", b"size"):
            records[key.decode()] = decoded(value)
        elif key.startswith(b"GNU.sparse"):
            raise BrokenArchive("refused: a sparse member")
        at = end
    return records
