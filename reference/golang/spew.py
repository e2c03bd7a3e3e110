"""Checksums over Go values, as the checkpoint manager makes them.

The kubelet prints a pointer to a struct with spew's ``%#v`` (blanks for indentation, sorted keys,
no methods) and hashes the text. Names of Go types are part of it, so equal content has another
checksum in another layout. Source: ``pkg/util/hash``, ``k8s.io/utils/dump``, 1.12 to 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from reference.golang.json_text import utf8

#: A map that is nil.
NIL: Final = "<nil>"


@lru_cache(maxsize=1024)
def fnv32a(data: bytes) -> int:
    """32-bit FNV-1a."""
    # Cached: byte by byte it is a large part of a step, and nodes come to the same few states.
    total = 2166136261
    for byte in data:
        total = (total ^ byte) * 16777619 & 0xFFFFFFFF
    return total


def struct_checksum(type_name: str, fields: Mapping[str, tuple[str, str]]) -> int:
    """The checksum of a pointer to a struct; ``fields``: type and printed value by Go's name."""
    inner = " ".join(f"{name}:({kind}){shown}" for name, (kind, shown) in fields.items())
    return fnv32a(utf8(f"(*{type_name}){{{inner}}}"))


def text_checksum(text: str) -> int:
    return fnv32a(utf8(f"(string){text}"))


def nested(value: Mapping[str, Any] | str | None) -> str:
    """Maps of maps of texts, printed; a nil map is ``None``."""
    if value is None:
        return NIL
    if isinstance(value, str):
        return value
    return "map[" + " ".join(f"{key}:{nested(value[key])}" for key in sorted(value)) + "]"
