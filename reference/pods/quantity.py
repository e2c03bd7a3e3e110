"""Kubernetes quantities (``2``, ``1500m``, ``64Mi``), exactly.

A quantity is held in one of two ways, and that can be seen where a number outgrows 64 bits: as
an int64 with a power of ten (*narrow*), or, from 19 digits on, below a billionth and for binary
fractions, as a number of any size (*wide*). Source: ``k8s.io/apimachinery/pkg/api/resource``
(``quantity.go``, ``amount.go``, ``math.go``), alike from 0.17 to 0.37.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Final

from reference.behaviours import Behaviour
from reference.errors import ConfigurationError, QuantityError
from reference.golang.strconv import go_quote
from reference.golang.suffixes import written as written
from reference.releases import AnyRelease, has

_WRONG_FORM: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_NUMBER: Final = "unable to parse numeric part of quantity"
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"

# Digits may be missing altogether: ``m`` is zero.
_FORM: Final = re.compile(
    r"(?P<number>[+-]?0*(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?)"
    r"(?P<suffix>[eEinumkKMGTP]*[+-]?[0-9]*)",
    re.ASCII,
)
_POWERS: Final = dict(zip(["n", "u", "m", "", *"kMGTPE"], range(-9, 19, 3), strict=True))
_BINARY_POWERS: Final = {f"{letter}i": 10 * step for step, letter in enumerate("KMGTPE", 1)}
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)

_NARROW_DIGITS: Final = 18
_NARROW_BINARY_DIGITS: Final = 15
_NANO: Final = -9
_MICRO: Final = -6
_MILLI: Final = -3
_INT64: Final = 1 << 63

#: A kubelet computes with such numbers for minutes, or runs out of memory.
_MAX_POWER: Final = 1000
_MAX_DIGITS: Final = 4000


class QuantityTooWide(QuantityError):
    """A quantity of more digits than the model computes with. The kubelet would read it, so this
    is not its text."""


class Quantity(Fraction):
    """The value of ``text``. ``unscaled`` times 10 to the power of ``scale`` is how the kubelet
    holds it, in 64 bits unless ``wide``."""

    __slots__ = ("scale", "text", "unscaled", "wide")

    text: str
    unscaled: int
    scale: int
    wide: bool

    def __reduce__(self) -> tuple[Callable[[str], Quantity], tuple[str]]:
        return (quantity, (self.text,))

    def __copy__(self) -> Quantity:
        return self

    def __deepcopy__(self, memo: object) -> Quantity:
        return self


@lru_cache(maxsize=4096)
def quantity(text: str) -> Quantity:
    """The value of ``text``: below a billionth rounded away from zero to a billionth, with a
    binary suffix no more than 2**63 - 1. Raises :class:`QuantityError`, whose ``kubelet`` is the
    text of ``ParseQuantity``."""
    found = _FORM.fullmatch(text)
    if not text or not found:
        raise QuantityError(_WRONG_FORM, text)
    number, whole, part = found["number"], found["whole"] or "0", found["part"] or ""
    base, power = _suffix(found["suffix"], text)
    if len(number) > _MAX_DIGITS:
        raise QuantityTooWide(f"no quantity has more than {_MAX_DIGITS} digits here", text)
    sign = -1 if number.startswith("-") else 1
    narrow = _narrow(base, power, whole, part)
    if narrow is not None:
        return _made(text, sign * narrow[0], narrow[1], wide=False)
    if not any(map(str.isdigit, number)):
        raise QuantityError(_WRONG_NUMBER, text)
    unscaled, scale = _wide(base, power, whole, part, text)
    return _made(text, sign * unscaled, scale, wide=True)


def _suffix(suffix: str, text: str) -> tuple[int, int]:
    """Base and power that a suffix multiplies by."""
    if suffix in _POWERS:
        return 10, _POWERS[suffix]
    if suffix in _BINARY_POWERS:
        return 2, _BINARY_POWERS[suffix]
    exponent = _EXPONENT.fullmatch(suffix)
    if not exponent or len(exponent[1]) > _MAX_DIGITS or not _fits(int(exponent[1])):
        raise QuantityError(_WRONG_SUFFIX, text)
    return 10, _wrapped(int(exponent[1]), 32)


def _narrow(base: int, power: int, whole: str, part: str) -> tuple[int, int] | None:
    """The number in 64 bits and its scale, if it is held so."""
    if base == 10:
        if len(whole) + len(part) > _NARROW_DIGITS:
            return None
        scale = _wrapped(power - len(part), 32)
        return (int(whole + part), scale) if scale >= _NANO else None
    if part or len(whole) + power * 3 // 10 + 1 > _NARROW_BINARY_DIGITS:
        return None
    return int(whole) << power, 0


def _wide(base: int, power: int, whole: str, part: str, text: str) -> tuple[int, int]:
    unscaled, scale = int(whole + part), -len(part)
    if base == 2:
        unscaled <<= power
    else:
        scale += power
    if not unscaled:
        return 0, 0
    # However far below a billionth, the result is one billionth: it need not be computed.
    unscaled = _rescaled(unscaled, max(scale, _NANO - _MAX_DIGITS), _NANO, text)
    capped = (_INT64 - 1) * _power(-_NANO)
    return (_INT64 - 1, 0) if base == 2 and unscaled > capped else (unscaled, _NANO)


def _rescaled(unscaled: int, scale: int, target: int, text: str) -> int:
    """The positive number at another scale, rounded up."""
    if scale - target > _MAX_POWER:
        raise QuantityTooWide(f"no quantity is above 1e{_MAX_POWER} here", text)
    if scale >= target:
        return unscaled * _power(scale - target)
    return -(-unscaled // _power(target - scale))


def _made(text: str, unscaled: int, scale: int, *, wide: bool) -> Quantity:
    if unscaled and scale > _MAX_POWER:
        raise QuantityTooWide(f"no quantity is above 1e{_MAX_POWER} here", text)
    factor = Fraction(10) ** (scale if unscaled else 0) * unscaled
    made = Quantity(factor.numerator, factor.denominator)
    made.text, made.unscaled, made.scale, made.wide = text, unscaled, scale, wide
    return made


# -- whole numbers of it -----------------------------------------------------------------------


def value(amount: Fraction) -> int:
    """``Quantity.Value``: rounded up to a whole number; see :func:`scaled_value`."""
    return scaled_value(amount, 0)


def milli_value(amount: Fraction) -> int:
    """``Quantity.MilliValue``: rounded up to a thousandth, in thousandths; see
    :func:`scaled_value`."""
    return scaled_value(amount, _MILLI)


def scaled_value(amount: Fraction, scale: int) -> int:
    """``Quantity.ScaledValue``: in units of 10 to the power of ``scale``, rounded up.

    What does not fit an int64 overflows as in Go, for a :class:`Quantity`; a sum of several, a
    plain ``Fraction``, is 0 then. Below zero it is rounded as in the kubelet: away from zero if
    narrow, towards zero and then one up if wide.
    """
    numerator = amount.numerator * _power(max(-scale, 0))
    denominator = amount.denominator * _power(max(scale, 0))
    up = -(-numerator // denominator)
    if amount.numerator >= 0 and up < _INT64:
        return up
    if not isinstance(amount, Quantity):
        away = up if amount >= 0 else numerator // denominator
        return away if _fits(away) else 0
    shift = amount.scale - scale
    return (_wide_at if amount.wide else _narrow_at)(amount.unscaled, shift)


#: For other powers Go checks whether the product fits, and makes it 0 if not.
_UNCHECKED_POWERS: Final = frozenset({0, 1, 2, 3, 6, 9})


def _narrow_at(unscaled: int, shift: int) -> int:
    if shift < 0:
        size = -(-abs(unscaled) // _power(-shift))
        return size if unscaled >= 0 else -size
    product = unscaled * _power(shift)
    if not _fits(product) and shift not in _UNCHECKED_POWERS:
        return 0
    return _wrapped(product, 64)


def _wide_at(unscaled: int, shift: int) -> int:
    if shift >= 0:
        return _wrapped(_wrapped(unscaled, 64) * _power(shift), 64)
    divisor = _power(-shift)
    if unscaled < _INT64 - 1:
        held = _wrapped(unscaled, 64)
        towards_zero = abs(held) // divisor * (1 if held >= 0 else -1)
        return towards_zero + (1 if held % divisor else 0)
    whole, rest = divmod(unscaled, divisor)
    return _wrapped(whole + (1 if rest else 0), 64)


def _power(exponent: int) -> int:
    return int(10**exponent)


def _fits(number: int) -> bool:
    return -_INT64 <= number < _INT64


def _wrapped(number: int, bits: int) -> int:
    half = 1 << bits - 1
    return (number + half) % (1 << bits) - half


# -- reservations ------------------------------------------------------------------------------


def reservation(text: str, release: AnyRelease) -> Fraction:
    """The cpu quantity of ``systemReserved`` or ``kubeReserved`` as ``release`` takes it: from
    1.37 on rounded to the nearest thousandth.

    Raises :class:`ConfigurationError` with the text that follows ``--system-reserved value failed
    to parse: ``. Source: ``cmd/kubelet/app/server.go`` (``parseResourceList``).
    """
    try:
        amount = quantity(text)
    except QuantityTooWide:
        raise
    except QuantityError as error:
        if not has(release, Behaviour.RESERVATION_FLAG_NAMED):
            raise ConfigurationError(error.kubelet) from error
        raise ConfigurationError(
            f'failed to parse quantity {go_quote(text)} for "cpu" resource: {error.kubelet}'
        ) from error
    if amount < 0:
        raise ConfigurationError(f'resource quantity for "cpu" cannot be negative: {text}')
    if not has(release, Behaviour.RESERVATION_TO_NEAREST_MILLI):
        return amount
    # Go's division goes towards zero; only an overflow is negative here.
    half_up = scaled_value(amount, _MICRO) + 500
    return Fraction(abs(half_up) // 1000 * (1 if half_up >= 0 else -1), 1000)


def reserved(*texts: str | None, release: AnyRelease) -> Fraction:
    """What the cpu quantities of ``systemReserved`` and ``kubeReserved`` reserve together; ``None``
    is one that is not set. Raises as :func:`reservation` does."""
    given = [reservation(text, release) for text in texts if text is not None]
    return given[0] if len(given) == 1 else sum(given, Fraction(0))


def reserved_milli(*texts: str | None, release: AnyRelease) -> int:
    """:func:`reserved` in thousandths, rounded up."""
    return milli_value(reserved(*texts, release=release))
