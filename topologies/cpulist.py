"""Sets of CPUs as the kernel writes them: lists (``0-3,8``) and masks (``00000001,0000000f``).

Linux prints both with ``%*pbl`` and ``%*pb`` (``lib/vsprintf.c``): a list joins runs of two and
more, a mask is one hexadecimal digit for each four possible CPUs, in comma-separated groups of
eight. Sets are ints here, bit ``n`` is CPU ``n``; the model has a set type of its own, which
this package does not import.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

_LIST: Final = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*", re.ASCII)
_MASK: Final = re.compile(r"[0-9a-fA-F]+(,[0-9a-fA-F]+)*", re.ASCII)
_RUN: Final = re.compile("1+")

_Key = TypeVar("_Key")

#: Linux numbers CPUs up to this (``NR_CPUS`` is at most 8192: ``arch/x86/Kconfig``), and fewer NUMA
#: nodes. A set is one int as long as its highest id, so a huge id would cost time and memory.
MAX_ID: Final = 8191
#: The longest text that is read as a set. Linux writes at most 28 KiB (``CPULIST_FILE_MAX_BYTES``).
MAX_TEXT: Final = 64 << 10


class BeyondLinux(ValueError):
    """A list or mask with an id above :data:`MAX_ID`, or longer than :data:`MAX_TEXT`."""


def bits(ids: Iterable[int]) -> int:
    """The set of ``ids``."""
    mask = 0
    for number in ids:
        mask |= 1 << number
    return mask


def grouped(pairs: Iterable[tuple[_Key, int]]) -> dict[_Key, int]:
    """By key, the set of the ids that come with it."""
    sets: dict[_Key, int] = {}
    for key, number in pairs:
        sets[key] = sets.get(key, 0) | 1 << number
    return sets


def ids(mask: int) -> Iterator[int]:
    """The members, ascending. Takes time in proportion to the highest."""
    digits = bin(mask)[:1:-1]
    found = digits.find("1")
    while found >= 0:
        yield found
        found = digits.find("1", found + 1)


def parse_list(text: str) -> int:
    """Read a list; blanks, newlines and NULs around it are ignored, and no text is no CPU.

    Raises ``ValueError`` for anything that Linux does not write: :class:`BeyondLinux` for a list
    that is too long.
    """
    body = text.strip(" \t\n\0")
    if not body:
        return 0
    if len(body) > MAX_TEXT:
        raise BeyondLinux("longer than any list of CPUs")
    if not _LIST.fullmatch(body):
        raise ValueError(f"not a CPU list: {body[:60]!r}")
    mask = 0
    for piece in body.split(","):
        low, _, high = piece.partition("-")
        first, last = int(low), int(high or low)
        if first > last:
            raise ValueError(f"not a CPU list: {body[:60]!r}")
        if last > MAX_ID:
            raise BeyondLinux(f"not a CPU list: it names CPU {last}; Linux stops at {MAX_ID}")
        mask |= (1 << last + 1) - (1 << first)
    return mask


def format_list(mask: int, *, most: int | None = None) -> str:
    """Write a list, without a newline; the empty set is the empty text. ``most`` limits the runs of
    CPUs; an ellipsis stands for the rest."""
    pieces: list[str] = []
    for found in _RUN.finditer(bin(mask)[:1:-1]):
        if len(pieces) == most:
            pieces.append("…")
            break
        low, high = found.start(), found.end() - 1
        pieces.append(str(low) if low == high else f"{low}-{high}")
    return ",".join(pieces)


def parse_mask(text: str) -> int:
    """Read a mask; raises what :func:`parse_list` raises."""
    body = text.strip(" \t\n\0")
    if len(body) > MAX_TEXT:
        raise BeyondLinux("longer than any mask of CPUs")
    if not _MASK.fullmatch(body):
        raise ValueError(f"not a CPU mask: {body[:60]!r}")
    mask = int("".join(group.rjust(8, "0") for group in body.split(",")), 16)
    if mask >> MAX_ID + 1:
        last = mask.bit_length() - 1
        raise BeyondLinux(f"not a CPU mask: it names CPU {last}; Linux stops at {MAX_ID}")
    return mask


def format_mask(mask: int, width: int) -> str:
    """Write a mask over ``width`` possible CPUs (the kernel's ``nr_cpu_ids``)."""
    digits = f"{mask:0{(width + 3) // 4}x}"
    head = len(digits) % 8
    groups = [digits[:head]] if head else []
    groups += [digits[at : at + 8] for at in range(head, len(digits), 8)]
    return ",".join(groups)


def parsed(parse: Callable[[str], int], text: str | None) -> int | None:
    """The set in a file's text; ``None`` where there is no file, or ``parse`` refuses it."""
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError:
        return None
