"""JSON as Go's ``encoding/json`` reads and writes it.

What belongs here: syntax with Go's error texts, decoding into typed fields with Go's rules, and
Go's way to write a string. What never does: what a document means.

Go checks the syntax of the whole text first, byte by byte, and only then decodes. Decoding goes
on after a value of the wrong type, leaves that value out and reports the first such fault. Keys
match whatever their case, ``null`` leaves a text or number as it was and empties a map, the last
of several equal keys wins, and a map met twice is added to. Source: Go 1.26.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from reference.cpuset import go_quote
from reference.errors import NotModelled

__all__ = [
    "Field",
    "JSONError",
    "Kind",
    "Map",
    "Number",
    "Own",
    "Struct",
    "Text",
    "Unsigned",
    "decode",
    "object_text",
    "parse",
    "quote",
    "utf8",
    "zero",
]


class JSONError(ValueError):
    """Go refuses the text; ``str()`` is Go's error."""


class Number(str):
    """A JSON number, as it was written."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """A JSON object: its members in order, equal keys included."""


#: ``None``, ``bool``, ``str``, :class:`Number`, ``list`` or :class:`Members`.
Value: TypeAlias = Any

_MAX_DEPTH: Final = 200  # Go's is 10000; nothing that a kubelet wrote comes near either
_BLANKS: Final = re.compile(rb"[ \t\r\n]*")
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]*')
_DIGITS: Final = re.compile(rb"[0-9]*")
_WORDS: Final = {b"t": (b"true", True), b"f": (b"false", False), b"n": (b"null", None)}
_STARTS: Final = frozenset(b'{["-0123456789tfn')


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
    reader.skip_blanks()
    if reader.at < len(reader.data):
        raise reader.unexpected("after top-level value")
    return value


class _Reader:
    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def unexpected(self, context: str, *, inside_word: bool = False) -> JSONError:
        """The error for the byte that is up, or for the end. Go's scanner takes the end for a
        blank, so inside of a word or number the end is a wrong blank."""
        at_end = self.at >= len(self.data)
        if at_end and not inside_word:
            return JSONError("unexpected end of JSON input")
        char = " " if at_end else chr(self.data[self.at])
        shown = {"'": r"'\''", '"': "'\"'"}.get(char) or f"'{go_quote(char)[1:-1]}'"
        return JSONError(f"invalid character {shown} {context}")

    def skip_blanks(self) -> None:
        found = _BLANKS.match(self.data, self.at)
        assert found is not None
        self.at = found.end()

    def peek(self) -> bytes:
        return self.data[self.at : self.at + 1]

    def value(self, depth: int, context: str = "looking for beginning of value") -> Value:
        self.skip_blanks()
        first = self.peek()
        if not first or first[0] not in _STARTS:
            raise self.unexpected(context)
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
        self.at += 1
        self.skip_blanks()
        if self.peek() == b"}":
            self.at += 1
            return members
        while True:
            self.skip_blanks()
            if self.peek() != b'"':
                raise self.unexpected("looking for beginning of object key string")
            key = self.string()
            self.skip_blanks()
            if self.peek() != b":":
                raise self.unexpected("after object key")
            self.at += 1
            members.append((key, self.value(depth + 1)))
            self.skip_blanks()
            closing = self.peek()
            if closing not in (b",", b"}"):
                raise self.unexpected("after object key:value pair")
            self.at += 1
            if closing == b"}":
                return members

    def array(self, depth: int) -> list[Value]:
        items: list[Value] = []
        self.at += 1
        self.skip_blanks()
        if self.peek() == b"]":
            self.at += 1
            return items
        while True:
            items.append(self.value(depth + 1))
            self.skip_blanks()
            closing = self.peek()
            if closing not in (b",", b"]"):
                raise self.unexpected("after array element")
            self.at += 1
            if closing == b"]":
                return items

    def string(self) -> str:
        start = self.at
        self.at += 1
        while True:
            found = _PLAIN.match(self.data, self.at)
            assert found is not None
            self.at = found.end()
            char = self.peek()
            if char == b'"':
                self.at += 1
                return _decoded(self.data[start : self.at])
            if char != b"\\":
                raise self.unexpected("in string literal")
            self.escape()

    def escape(self) -> None:
        self.at += 1
        char = self.peek()
        if not char or char not in b'bfnrt\\/"u':
            raise self.unexpected("in string escape code", inside_word=True)
        self.at += 1
        if char == b"u":
            for _ in range(4):
                digit = self.peek()
                if not digit or digit not in b"0123456789abcdefABCDEF":
                    raise self.unexpected("in \\u hexadecimal character escape", inside_word=True)
                self.at += 1

    def word(self, word: bytes, meaning: bool | None) -> bool | None:
        for expected in word:
            if self.peek() != bytes([expected]):
                context = f"in literal {word.decode()} (expecting '{chr(expected)}')"
                raise self.unexpected(context, inside_word=True)
            self.at += 1
        return meaning

    def number(self) -> Number:
        start = self.at
        if self.peek() == b"-":
            self.at += 1
        if self.peek() == b"0":
            self.at += 1
        else:
            self.digits("in numeric literal")
        if self.peek() == b".":
            self.at += 1
            self.digits("after decimal point in numeric literal")
        if self.peek() in (b"e", b"E"):
            self.at += 1
            if self.peek() in (b"+", b"-"):
                self.at += 1
            self.digits("in exponent of numeric literal")
        return Number(self.data[start : self.at].decode("ascii"))

    def digits(self, context: str) -> None:
        found = _DIGITS.match(self.data, self.at)
        assert found is not None
        if found.end() == self.at:
            raise self.unexpected(context, inside_word=True)
        self.at = found.end()


def _decoded(literal: bytes) -> str:
    # The literal is known to be right, so Python reads it as Go does; what is no character
    # (a stray byte, half a surrogate pair) becomes U+FFFD in Go.
    text: str = json.loads(literal.decode("utf-8", "surrogateescape"))
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


# -- typed values ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A Go string."""

    type_name: str = "string"


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A Go uint64, by the name of its type."""

    type_name: str


@dataclass(frozen=True, slots=True)
class Map:
    """A Go map with strings for keys; ``None`` is the nil map."""

    type_name: str
    item: Kind


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a struct; ``within`` names the embedded struct that it belongs to."""

    kind: Kind
    within: str = ""


@dataclass(frozen=True, slots=True)
class Struct:
    """A Go struct, named as in errors (``state.CPUManagerCheckpoint``): its fields by their JSON
    names. Its value is a dict of them."""

    type_name: str
    fields: Mapping[str, Field]


@dataclass(frozen=True, slots=True)
class Own:
    """A Go type that decodes itself, out of ``struct``: ``make`` has its value, or raises
    :class:`JSONError`. Whatever goes wrong in it ends the decoding."""

    struct: Struct
    make: Callable[[dict[str, Any]], Any]


Kind: TypeAlias = Text | Unsigned | Map | Struct | Own


@dataclass(frozen=True, slots=True)
class _Fault:
    """A value of the wrong type; ``struct`` and ``place``: where, if it is inside a struct."""

    found: str
    type_name: str
    struct: str
    place: tuple[str, ...]

    def __str__(self) -> str:
        struct = self.struct.rpartition(".")[2]
        place = f"struct field {struct}.{'.'.join(self.place)}" if struct else "value"
        return f"json: cannot unmarshal {self.found} into Go {place} of type {self.type_name}"


class _Ended(Exception):
    def __init__(self, fault: _Fault) -> None:
        self.fault: Final = fault


def decode(struct: Struct, value: Value, into: dict[str, Any]) -> None:
    """Read ``value`` into the fields ``into``, which hold what they held before and have all that
    was decoded even where :class:`JSONError` is raised."""
    decoder = _Decoder()
    try:
        decoder.struct(struct, value, into)
    except _Ended as ended:
        raise JSONError(str(ended.fault)) from None
    if decoder.fault:
        raise JSONError(str(decoder.fault))


class _Decoder:
    """``fault``: the first value of a wrong type. ``inside`` and ``place``: the struct that is
    being read, and its fields from the outermost in."""

    __slots__ = ("fault", "inside", "place")

    def __init__(self) -> None:
        self.fault: _Fault | None = None
        self.inside = ""
        self.place: tuple[str, ...] = ()

    def read(self, kind: Kind, value: Value, before: Any) -> Any:
        match kind:
            case Text():
                return self.text(value, before)
            case Unsigned():
                return self.unsigned(kind, value, before)
            case Map():
                return self.map(kind, value, before)
            case Struct():
                self.struct(kind, value, before)
                return before
            case Own():
                return self.own(kind, value)

    def wrong(self, found: str, type_name: str) -> None:
        if self.fault is None:
            self.fault = _Fault(found, type_name, self.inside, self.place)

    def text(self, value: Value, before: str) -> str:
        if isinstance(value, str) and not isinstance(value, Number):
            return value
        if value is not None:
            self.wrong(_called(value), "string")
        return before

    def unsigned(self, kind: Unsigned, value: Value, before: int) -> int:
        if isinstance(value, Number):
            if value.isdigit() and len(value) <= 20 and int(value) < 1 << 64:
                return int(value)
            self.wrong(f"number {value}", kind.type_name)
        elif value is not None:
            self.wrong(_called(value), kind.type_name)
        return before

    def map(self, kind: Map, value: Value, before: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, Members):
            self.wrong(_called(value), kind.type_name)
            return before
        after = dict(before or {})
        for key, member in value:
            after[key] = self.read(kind.item, member, zero(kind.item))
        return after

    def struct(self, kind: Struct, value: Value, into: dict[str, Any]) -> None:
        if value is None:
            return
        if not isinstance(value, Members):
            self.wrong(_called(value), kind.type_name)
            return
        outer = self.inside, self.place
        folded = {name.casefold(): name for name in kind.fields}
        for key, member in value:
            name = key if key in kind.fields else folded.get(key.casefold(), "")
            if name:
                field = kind.fields[name]
                embedded = (field.within,) if field.within else ()
                self.inside, self.place = kind.type_name, (*outer[1], *embedded, name)
                into[name] = self.read(field.kind, member, into[name])
        self.inside, self.place = outer

    def own(self, kind: Own, value: Value) -> Any:
        inner = _Decoder()
        fields = zero(kind.struct)
        inner.struct(kind.struct, value, fields)
        if inner.fault:
            fault = inner.fault
            place = (*self.place, *fault.place)
            raise _Ended(_Fault(fault.found, fault.type_name, self.inside or fault.struct, place))
        return kind.make(fields)


def zero(kind: Kind) -> Any:
    """Go's zero value of a type."""
    match kind:
        case Text():
            return ""
        case Unsigned():
            return 0
        case Struct():
            return {name: zero(field.kind) for name, field in kind.fields.items()}
        case _:
            return None


def _called(value: Value) -> str:
    if isinstance(value, Number):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    return "object" if isinstance(value, Members) else "array"


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
