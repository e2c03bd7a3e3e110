"""Trees packed into archives, to be kept and sent.

The archive of a tree depends on the tree and the archive's name alone: members are sorted, and
dates, owners and modes are the same for all. What is packed here, :mod:`topologies.archive` reads.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import secrets
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from topologies.errors import UnwritableMachine
from topologies.reading import machine_name
from topologies.tree import Link, Tree
from topologies.writing import check_tree

#: A tree's archive is mostly zeros, and each CPU's files resemble those of the CPU before. So the
#: longest matches and a short window suffice: 384 CPUs are packed in 0.12 s into 77 KB (preset 6:
#: 1.8 s, 81 KB), and unpacking needs 1 MiB of memory instead of 8.
_XZ: Final = [
    {
        "id": lzma.FILTER_LZMA2,
        "preset": 6,
        "dict_size": 1 << 20,
        "mode": lzma.MODE_FAST,
        "mf": lzma.MF_HC4,
        "nice_len": 273,
    }
]


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def _xz(data: bytes) -> bytes:
    # liblzma checks CRC64 with the processor's own instructions, also in 5.4, where CRC32 takes
    # four times as long.
    return lzma.compress(data, check=lzma.CHECK_CRC64, filters=_XZ)


#: Packers by the end of a file's name.
_PACKERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    ".tar": bytes,
    ".tar.gz": _gzip,
    ".tgz": _gzip,
    ".tar.xz": _xz,
    ".txz": _xz,
}


def is_archive_name(path: str | os.PathLike[str]) -> bool:
    """Whether :func:`pack` can write a file of this name."""
    return _packer(Path(path)) is not None


def pack(tree: Tree, path: str | os.PathLike[str], *, replace: bool = False) -> None:
    """Write ``tree`` to an archive at ``path``, below a folder in it that has the archive's name
    without its suffix, so two archives unpack into two folders.

    The file is there whole or not at all; one that is there already is only replaced if
    ``replace`` says so. Raises :class:`UnwritableMachine`.
    """
    place = Path(path)
    packer = _packer(place)
    try:
        if packer is None:
            raise ValueError(f"its name ends in none of {', '.join(_PACKERS)}")
        check_tree(tree)
    except ValueError as error:
        raise UnwritableMachine(str(place), str(error)) from error
    save(packer(_tar(tree, machine_name(place))), place, replace=replace)


def save(data: bytes, place: Path, *, replace: bool = False) -> None:
    """Write a file that is there whole or not at all, as :func:`pack` does. Raises
    :class:`UnwritableMachine`."""
    try:
        _put(place, data, replace)
    except OSError as error:
        raise UnwritableMachine(str(place), error.strerror or str(error)) from error
    except ValueError as error:
        raise UnwritableMachine(str(place), str(error)) from error


def packed(tree: Tree, *, folder: str) -> bytes:
    """``tree`` as a tar archive packed with xz, below ``folder`` in it."""
    return _xz(_tar(tree, folder))


def _packer(place: Path) -> Callable[[bytes], bytes] | None:
    for suffix, packer in _PACKERS.items():
        if place.name.endswith(suffix) and place.name != suffix:
            return packer
    return None


def _tar(tree: Tree, folder: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(tree):
            text = tree[path]
            member = tarfile.TarInfo(f"{folder}/{path}")
            if isinstance(text, Link):
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, str(text), 0o777
                archive.addfile(member)
            else:
                data = text.encode("utf-8", "surrogateescape")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def _put(place: Path, data: bytes, replace: bool) -> None:
    """Write under another name first. A link, unlike a rename, never replaces what is there."""
    draft = place.with_name(f".{place.name[:100]}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as file:
            file.write(data)
        if replace:
            draft.replace(place)
        else:
            os.link(draft, place)
    except FileExistsError as error:
        raise ValueError("it is there already; --force replaces it") from error
    finally:
        draft.unlink(missing_ok=True)
