"""Numbers in a node's answer. A node is not trusted: the result is a number that the kernel could
have written, or 0."""

from __future__ import annotations

import math
from typing import Final

#: The largest number of the kernel's files (a signed 64-bit integer), and its digits.
_LARGEST: Final = (1 << 63) - 1
_DIGITS: Final = len(str(_LARGEST))


def whole(text: str) -> int:
    """The decimal number in ``text``; 0 where it is not one, or above 2^63 - 1."""
    if len(text) > _DIGITS or not (text.isascii() and text.isdecimal()):
        return 0
    number = int(text)
    return number if number <= _LARGEST else 0


def fraction(text: str) -> float:
    """The decimal fraction in ``text``; 0 where it is not one, or outside of ±2^63."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) and abs(number) <= _LARGEST else 0.0
