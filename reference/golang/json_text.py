"""JSON as Go's ``encoding/json`` reads and writes it.

What belongs here: syntax with Go's error texts, and Go's way to write a string. What never does:
what type a value ought to have (``json_decode``), and what a document means.

Go checks the syntax of the whole text first, byte by byte, and only then decodes. Source: Go 1.26;
Go 1.27 finds the same faults in other words (``jsonwire``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from reference.errors import NotModelled
from reference.golang.strconv import go_quote


class JSONError(ValueError):
    """Go refuses the text; ``str()`` is Go's error, and ``possible`` every text that it may be,
    where that depends on the Go that the kubelet was built with."""

    def __init__(self, *possible: str) -> None:
        super().__init__(possible[0])
        self.possible: Final = possible


class Number(str):
    """A JSON number, as it was written."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """A JSON object: its members in order, equal keys included."""


#: ``None``, ``bool``, ``str``, :class:`Number`, ``list`` or :class:`Members`.
Value: TypeAlias = Any

_MAX_DEPTH: Final = 200  # Go's is 10000; nothing that a kubelet wrote comes near either
_BLANKS: Final = re.compile(rb"[ \t\r\n]*")
_CHARACTERS: Final = re.compile(rb'(?:[^"\\\x00-\x1f]+|\\(?:[bfnrt\\/"]|u[0-9a-fA-F]{4}))*')
_PART_OF_ESCAPE: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?")
_MINUS: Final = re.compile(rb"-?")
_ZERO: Final = re.compile(rb"0?")
_POINT: Final = re.compile(rb"\.?")
_EXPONENT: Final = re.compile(rb"(?:[eE][+-]?)?")
_DIGITS: Final = re.compile(rb"[0-9]*")
_WORDS: Final = {b"t": (b"true", True), b"f": (b"false", False), b"n": (b"null", None)}
_STARTS: Final = frozenset(b'{["-0123456789tfn')


_ENDED: Final = "unexpected end of JSON input"
_IN_NUMBER: Final = "numeric literal"
_NEWER: Final = {"in string literal": "in string"}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _shown(char: str) -> str:
    return {"'": r"'\''", '"': "'\"'"}.get(char) or f"'{go_quote(char)[1:-1]}'"


def utf8(text: str) -> bytes:
    """The bytes that Go has for a text. A surrogate stands for the byte that ``surrogateescape``
    holds in it; one that stands for none becomes what is no character in Go either."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def parse(text: str) -> Value:
    """The value of a JSON text. Raises :class:`JSONError` where Go finds its syntax wrong."""
    reader = _Reader(utf8(text))
    value = reader.value(0)
    reader.match(_BLANKS)
    if reader.at < len(reader.data):
        raise reader.unexpected("after top-level value")
    return value


class _Reader:
    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def unexpected(self, context: str, *, inside_word: bool = False) -> JSONError:
        """The error for the next byte, or for the end. The scanner of Go up to 1.26 takes the end
        for a blank, so inside of a word or number the end is a wrong blank."""
        newer = _ENDED
        at_end = self.at >= len(self.data)
        if at_end and not inside_word:
            return JSONError(_ENDED)
        if not at_end:
            where = "in numeric literal" if context.endswith(_IN_NUMBER) else context
            newer = f"invalid character {_shown(self.rune())} {_NEWER.get(where, where)}"
        char = " " if at_end else chr(self.data[self.at])
        return JSONError(f"invalid character {_shown(char)} {context}", newer)

    def bad_escape(self, start: int, context: str) -> JSONError:
        """The error for the next byte, in the escape sequence from ``start`` on. Go 1.27 names the
        sequence: a short one whole, one of a code with all six places."""
        error = self.unexpected(context, inside_word=True)
        if self.at >= len(self.data):
            return error
        length = 6 if self.at > start + 1 else 2
        found = _text(self.data[start : start + length])
        hidden = any(
            char in "`\ufffd" or not char.isprintable() or char.isspace() for char in found
        )
        shown = go_quote(found) if hidden else f"`{found}`"
        return JSONError(str(error), f"invalid escape sequence {shown} in string")

    def rune(self) -> str:
        """The next character: a byte that begins none stands for itself."""
        for length in range(1, 5):
            found = _text(self.data[self.at : self.at + length])
            if len(found) == 1 and not "\udc80" <= found <= "\udcff":
                return found
        return _text(self.data[self.at : self.at + 1])

    def match(self, pattern: re.Pattern[bytes]) -> bytes:
        """Go on past what a pattern, which may match nothing, finds, and return that."""
        found = pattern.match(self.data, self.at)
        assert found is not None
        self.at = found.end()
        return found[0]

    def peek(self) -> bytes:
        return self.data[self.at : self.at + 1]

    def value(self, depth: int) -> Value:
        self.match(_BLANKS)
        first = self.peek()
        if not first or first[0] not in _STARTS:
            raise self.unexpected("looking for beginning of value")
        if depth > _MAX_DEPTH:
            raise NotModelled(f"JSON nested deeper than {_MAX_DEPTH}")
        if first == b"{":
            return self.object(depth)
        if first == b"[":
            return self.array(depth)
        if first == b'"':
            return self.string()
        if first in _WORDS:
            return self.word(*_WORDS[first])
        return self.number()

    def object(self, depth: int) -> Members:
        members = Members()

        def member() -> None:
            self.match(_BLANKS)
            if self.peek() != b'"':
                raise self.unexpected("looking for beginning of object key string")
            key = self.string()
            self.match(_BLANKS)
            if self.peek() != b":":
                raise self.unexpected("after object key")
            self.at += 1
            members.append((key, self.value(depth + 1)))

        self.each(member, b"}", "after object key:value pair")
        return members

    def array(self, depth: int) -> list[Value]:
        items: list[Value] = []
        self.each(lambda: items.append(self.value(depth + 1)), b"]", "after array element")
        return items

    def each(self, read: Callable[[], None], end: bytes, context: str) -> None:
        """Read what stands between brackets, separated by commas."""
        self.at += 1
        self.match(_BLANKS)
        closing = self.peek()
        while closing != end:
            read()
            self.match(_BLANKS)
            closing = self.peek()
            if closing == b",":
                self.at += 1
            elif closing != end:
                raise self.unexpected(context)
        self.at += 1

    def string(self) -> str:
        start = self.at
        self.at += 1
        self.match(_CHARACTERS)
        char = self.peek()
        if char == b"\\":
            begun = self.at
            what = "string escape code"
            if len(self.match(_PART_OF_ESCAPE)) > 1:
                what = "\\u hexadecimal character escape"
            raise self.bad_escape(begun, f"in {what}")
        if char != b'"':
            raise self.unexpected("in string literal")
        self.at += 1
        return _decoded(self.data[start : self.at])

    def word(self, word: bytes, meaning: bool | None) -> bool | None:
        for expected in word:
            if self.peek() != bytes([expected]):
                context = f"in literal {word.decode()} (expecting '{chr(expected)}')"
                raise self.unexpected(context, inside_word=True)
            self.at += 1
        return meaning

    def number(self) -> Number:
        start = self.at
        self.match(_MINUS)
        if not self.match(_ZERO):
            self.digits("in numeric literal")
        if self.match(_POINT):
            self.digits("after decimal point in numeric literal")
        if self.match(_EXPONENT):
            self.digits("in exponent of numeric literal")
        return Number(self.data[start : self.at].decode("ascii"))

    def digits(self, context: str) -> None:
        if not self.match(_DIGITS):
            raise self.unexpected(context, inside_word=True)


def _decoded(literal: bytes) -> str:
    # The literal is known to be right, so Python reads it as Go does; what is no character
    # (a stray byte, half a surrogate pair) becomes U+FFFD in Go.
    text: str = json.loads(_text(literal))
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


_ESCAPED: Final = re.compile(r'["\\<>&\x00-\x1f\u2028\u2029\ud800-\udfff]')
_SHORT: Final = {
    '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f",
}  # fmt: skip


def quote(text: str) -> str:
    """A JSON string as Go writes it: characters that HTML could mistake are escaped."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _SHORT:
        return _SHORT[char]
    return "\\ufffd" if "\ud800" <= char <= "\udfff" else f"\\u{ord(char):04x}"


def object_text(members: Mapping[str, Any], write: Callable[[Any], str] = quote) -> str:
    """A map as Go writes it: its keys in order, and ``write`` for each value."""
    return "{" + ",".join(f"{quote(key)}:{write(members[key])}" for key in sorted(members)) + "}"
