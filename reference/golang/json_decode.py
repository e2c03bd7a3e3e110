"""JSON values put into Go's types, as ``encoding/json`` does it.

What belongs here: the types, and the rules by which a value fills them, with Go's error texts.
What never does: syntax (``json_text``), and what a document means.

Decoding goes on after a value of the wrong type, leaves that value out and reports the first such
fault. Keys match whatever their case, ``null`` leaves a text or number as it was and empties a
map, the last of several equal keys wins, and a map met twice is added to. Source: Go 1.26. Go 1.27
decodes alike, and says the place of a fault in the keys of the document, those of maps included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from reference.golang.json_text import JSONError, Members, Number, Value


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
    """A Go type that decodes itself, out of ``struct``: ``make`` returns its value, or raises
    :class:`JSONError`. Any fault in it ends the decoding."""

    struct: Struct
    make: Callable[[dict[str, Any]], Any]


Kind: TypeAlias = Text | Unsigned | Map | Struct | Own


@dataclass(frozen=True, slots=True)
class _Fault:
    """A value of the wrong type; ``struct`` and ``place``: where, if it is inside a struct.
    ``root`` and ``path``: the same for Go 1.27, the struct of the whole document and the keys that
    lead there, as the document has them."""

    found: str
    type_name: str
    struct: str
    place: tuple[str, ...]
    root: str
    path: tuple[str, ...]

    def error(self) -> JSONError:
        """Up to Go 1.26, and since Go 1.27."""
        pointer = tuple(key.replace("~", "~0").replace("/", "~1") for key in self.path)
        texts = self._text(self.struct, self.place), self._text(self.root, pointer)
        return JSONError(*dict.fromkeys(texts))

    def _text(self, struct: str, names: tuple[str, ...]) -> str:
        name = struct.rpartition(".")[2]
        place = f"struct field {name}.{'.'.join(names)}" if names else "value"
        return f"json: cannot unmarshal {self.found} into Go {place} of type {self.type_name}"


class _Ended(Exception):
    def __init__(self, fault: _Fault) -> None:
        self.fault: Final = fault


def decode(struct: Struct, value: Value, into: dict[str, Any]) -> None:
    """Read ``value`` into the fields ``into``, which hold what they held before and have all that
    was decoded even where :class:`JSONError` is raised."""
    decoder = _Decoder(struct)
    try:
        decoder.struct(struct, value, into)
    except _Ended as ended:
        raise ended.fault.error() from None
    if decoder.fault:
        raise decoder.fault.error()


class _Decoder:
    """``fault``: the first value of a wrong type. ``inside`` and ``place``: the struct that is
    being read, and its fields from the outermost in; ``root`` and ``path``: the struct of the
    document, and its keys."""

    __slots__ = ("fault", "inside", "path", "place", "root")

    def __init__(self, root: Struct) -> None:
        self.fault: _Fault | None = None
        self.root = root.type_name
        self.inside = ""
        self.place: tuple[str, ...] = ()
        self.path: tuple[str, ...] = ()

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
            self.fault = _Fault(found, type_name, self.inside, self.place, self.root, self.path)

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
        outer = self.path
        for key, member in value:
            self.path = (*outer, key)
            after[key] = self.read(kind.item, member, zero(kind.item))
        self.path = outer
        return after

    def struct(self, kind: Struct, value: Value, into: dict[str, Any]) -> None:
        if value is None:
            return
        if not isinstance(value, Members):
            self.wrong(_called(value), kind.type_name)
            return
        outer = self.inside, self.place, self.path
        folded = {name.casefold(): name for name in kind.fields}
        for key, member in value:
            name = key if key in kind.fields else folded.get(key.casefold(), "")
            if name:
                field = kind.fields[name]
                embedded = (field.within,) if field.within else ()
                self.inside = kind.type_name
                self.place, self.path = (*outer[1], *embedded, name), (*outer[2], key)
                into[name] = self.read(field.kind, member, into[name])
        self.inside, self.place, self.path = outer

    def own(self, kind: Own, value: Value) -> Any:
        inner = _Decoder(kind.struct)
        fields = zero(kind.struct)
        inner.struct(kind.struct, value, fields)
        if inner.fault:
            fault = inner.fault
            struct, place = self.inside or fault.struct, (*self.place, *fault.place)
            raise _Ended(replace(fault, struct=struct, place=place))
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
