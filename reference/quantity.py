"""Kubernetes quantities (``2``, ``1500m``, ``64Mi``), exactly.

What belongs here: reading a quantity, and the kubelet's two ways to round it up. What never does:
what it is a quantity of. Source: ``k8s.io/apimachinery/pkg/api/resource``.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from reference.errors import QuantityError

__all__ = ["milli_value", "quantity", "value"]

_QUANTITY: Final = re.compile(
    r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?",
    re.ASCII,
)
_SUFFIXES: Final = {
    suffix: Fraction(10) ** power
    for suffix, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
} | {f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)}
_MAX_DIGITS: Final = 60
_SMALLEST: Final = Fraction(1, 10**9)


@lru_cache(maxsize=4096)
def quantity(text: str) -> Fraction:
    """The value of ``text``, rounded away from zero to a billionth as Kubernetes does. Raises
    :class:`QuantityError`."""
    found = _QUANTITY.fullmatch(text)
    if not found or len(found[2]) > _MAX_DIGITS:
        raise QuantityError(f"not a quantity (such as 2, 1500m or 64Mi): {text!r}")
    sign, digits, suffix, exponent = found.groups()
    whole, _, part = digits.partition(".")
    size = Fraction(int(whole + part or "0"), 10 ** len(part))
    if suffix:
        size *= _SUFFIXES[suffix]
    elif exponent:
        size *= Fraction(10) ** int(exponent)
    rounded = -(-size // _SMALLEST) * _SMALLEST
    return -rounded if sign == "-" else rounded


def value(amount: Fraction) -> int:
    """``Quantity.Value``: rounded up to a whole number."""
    return -(-amount // 1)


def milli_value(amount: Fraction) -> int:
    """``Quantity.MilliValue``: rounded up to a thousandth, in thousandths."""
    return -(-amount * 1000 // 1)
