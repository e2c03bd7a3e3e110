"""JSON Schemas of messages, made from their types."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


def schema_components(types: Iterable[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """The schema of each type, and ``$defs``: the parts that the schemas refer to, by name.

    A description is one paragraph: msgspec before 0.23 keeps the docstring's indentation.
    """
    shapes, parts = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    return shapes, {name: _one_paragraph(part) for name, part in parts.items()}


def _one_paragraph(part: dict[str, Any]) -> dict[str, Any]:
    text = inspect.cleandoc(str(part.get("description", "")))
    return {**part, "description": " ".join(text.split())}
