"""Sets of CPUs as the kernel writes them: lists (``0-3,8``) and masks (``00000001,0000000f``).

Linux prints both with ``%*pbl`` and ``%*pb`` (``lib/vsprintf.c``): a list joins runs of two and
more, a mask is one hexadecimal digit for each four possible CPUs, in comma-separated groups of
eight. Sets are ints here, bit ``n`` is CPU ``n``; the model has a set type of its own, which
this package does not import.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

_LIST: Final = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*", re.ASCII)
_MASK: Final = re.compile(r"[0-9a-fA-F]+(,[0-9a-fA-F]+)*", re.ASCII)

#: A set with an id above this is refused: a set is one int, so a wild id would cost its size.
MAX_ID: Final = 1 << 20


def bits(ids: Iterable[int]) -> int:
    """The set of ``ids``."""
    mask = 0
    for number in ids:
        mask |= 1 << number
    return mask


def ids(mask: int) -> Iterator[int]:
    """The members, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def parse_list(text: str) -> int:
    """Read a list; blanks, newlines and NULs around it do not count, and no text is no CPU.

    Raises ``ValueError`` for anything that Linux does not write.
    """
    body = text.strip(" \t\n\0")
    if not body:
        return 0
    if not _LIST.fullmatch(body):
        raise ValueError(f"not a CPU list: {body[:60]!r}")
    mask = 0
    for piece in body.split(","):
        low, _, high = piece.partition("-")
        first, last = int(low), int(high or low)
        if first > last or last > MAX_ID:
            raise ValueError(f"not a CPU list: {body[:60]!r}")
        mask |= (1 << last + 1) - (1 << first)
    return mask


def format_list(mask: int) -> str:
    """Write a list, without a newline; the empty set is the empty text."""
    pieces, start = [], 0
    while mask:
        gap = (mask & -mask).bit_length() - 1
        mask >>= gap
        start += gap
        run = (~mask & (mask + 1)).bit_length() - 1
        pieces.append(str(start) if run == 1 else f"{start}-{start + run - 1}")
        mask >>= run
        start += run
    return ",".join(pieces)


def parse_mask(text: str) -> int:
    """Read a mask; raises ``ValueError`` for anything that Linux does not write."""
    body = text.strip(" \t\n\0")
    if not _MASK.fullmatch(body) or len(body) > MAX_ID // 3:
        raise ValueError(f"not a CPU mask: {body[:60]!r}")
    return int("".join(group.rjust(8, "0") for group in body.split(",")), 16)


def format_mask(mask: int, width: int) -> str:
    """Write a mask over ``width`` possible CPUs (the kernel's ``nr_cpu_ids``)."""
    digits = f"{mask:0{(width + 3) // 4}x}"
    head = len(digits) % 8
    groups = [digits[:head]] if head else []
    groups += [digits[at : at + 8] for at in range(head, len(digits), 8)]
    return ",".join(groups)


def parsed(parse: Callable[[str], int], text: str | None) -> int | None:
    """What ``parse`` makes of a file's text; ``None`` where there is no file or no sense in it."""
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError:
        return None
