"""Blanks, quotes and numbers as Go's standard library reads them.

What belongs here: the few functions of ``strings``, ``strconv`` and ``fmt`` whose corner cases
decide what the kubelet makes of a file, with their error texts. What never does: what a number
means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# What Go calls a space; Python's str.strip() takes the separators U+001C to U+001F too.
_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]+", re.ASCII)
_HEX: Final = re.compile(r"[0-9a-fA-F]+", re.ASCII)
_GAP: Final = f"[{_SPACES.replace(chr(10), '')}]*"  # scanning stops at the end of a line
_SCANNED_INT: Final = re.compile(_GAP + r"([+-]?[0-9]+)", re.ASCII)
_SCANNED_UINT: Final = re.compile(_GAP + r"([0-9]+)", re.ASCII)
# Python refuses to convert thousands of digits; no such number fits 64 bits anyway.
_LONGEST: Final = 4000


class NotANumber(ValueError):
    """A text is no number, or none of that width; ``str()`` is Go's text for it."""


def trim(text: str) -> str:
    """``strings.TrimSpace``."""
    return text.strip(_SPACES)


def atoi(text: str) -> int:
    """``strconv.Atoi``: an optional sign, ASCII digits, 64 bits. Raises :class:`NotANumber`."""
    return _signed("Atoi", text, 64)


def parse_int(text: str, *, bits: int) -> int:
    """``strconv.ParseInt`` of base 10. Raises :class:`NotANumber`."""
    return _signed("ParseInt", text, bits)


def parse_uint(text: str, *, bits: int = 64, base: int = 10) -> int:
    """``strconv.ParseUint``: digits only, of base 10 or 16. Raises :class:`NotANumber`."""
    if not (_DIGITS if base == 10 else _HEX).fullmatch(text):
        raise NotANumber(_syntax("ParseUint", text))
    value = _value(text, base)
    if value >> bits:
        raise NotANumber(_range("ParseUint", text))
    return value


def parse_bool(text: str) -> bool | None:
    """``strconv.ParseBool``; ``None`` where the text is neither."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    return False if text in ("0", "f", "F", "FALSE", "false", "False") else None


def bad_option_value(name: str, value: str) -> str:
    """The error for a policy option whose value is neither true nor false; ``""`` otherwise."""
    if parse_bool(value) is not None:
        return ""
    return f"bad value for option {go_quote(name)}: {_syntax('ParseBool', value)}"


def scan_int(text: str) -> int:
    """``fmt.Sscanf`` with ``%d`` into an ``int``: the number the text begins with, after blanks
    but not after a line's end. Raises :class:`NotANumber`."""
    found = _SCANNED_INT.match(text)
    if not found:
        raise NotANumber("expected integer")
    value = _value(found[1])
    if not -(1 << 63) <= value < 1 << 63:
        raise NotANumber(f"integer overflow on token {found[1]}")
    return value


def scan_uint(text: str, *, suffix: str = "") -> int:
    """The same into a ``uint64``, which takes no sign; ``suffix`` must follow at once."""
    found = _SCANNED_UINT.match(text)
    if not found:
        raise NotANumber("expected integer")
    value = _value(found[1])
    if value >> 64:
        raise NotANumber(f"unsigned integer overflow on token {found[1]}")
    if not text.startswith(suffix, found.end()):
        raise NotANumber("input does not match format")
    return value


def _signed(function: str, text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise NotANumber(_syntax(function, text))
    value = _value(text)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise NotANumber(_range(function, text))
    return value


def _value(digits: str, base: int = 10) -> int:
    return int(digits, base) if len(digits) <= _LONGEST else 1 << 64


def _syntax(function: str, text: str) -> str:
    return f"strconv.{function}: parsing {go_quote(text)}: invalid syntax"


def _range(function: str, text: str) -> str:
    return f"strconv.{function}: parsing {go_quote(text)}: value out of range"


_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t",
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v",
}  # fmt: skip


def go_quote(text: str) -> str:
    """Quote like Go's ``strconv.Quote`` (what its errors and ``%q`` print)."""
    return '"' + "".join(map(_quoted_char, text)) + '"'


def _quoted_char(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable() and (char == " " or not char.isspace()):
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as ``surrogateescape`` holds it
        code -= 0xDC00
        return f"\\x{code:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def map_text(given: Mapping[str, str]) -> str:
    """A map of texts as Go prints it."""
    return f"map[{' '.join(f'{key}:{value}' for key, value in sorted(given.items()))}]"
