"""A page for each JSON Schema that the project ships: every field, its type and its meaning."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from differential import markdown
from differential.markdown import table

FOLDER: Final = "reference/schemas"
_ROOT: Final = Path(__file__).parents[2]
_PACKAGES: Final = ("conformance", "hil", "hunting", "pinproof", "reference", "reports")
#: Of fields that the text of their type does not explain: by schema, type and field.
_MEANINGS: Final = Path(__file__).with_name("meanings.toml")
#: The meaning of a field that the text above its table explains.
ABOVE: Final = "as above"

Schema = Mapping[str, Any]


def shipped() -> dict[str, Schema]:
    """Every JSON Schema in the packages of the wheel, by the path of its file."""
    found: dict[str, Schema] = {}
    for package in _PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.json")):
            content = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(content, dict) and "json-schema.org" in str(content.get("$schema")):
                found[str(path.relative_to(_ROOT))] = content
    return found


def name_of(path: str) -> str:
    """``certificate`` of ``reports/certificate/certificate.schema.json``."""
    return Path(path).name.removesuffix(".json").removesuffix(".schema")


def pages() -> dict[str, str]:
    """Path and text of each page."""
    schemas = shipped()
    rows = [(f"[{one['title']}]({name_of(path)}.md)", _plain(one)) for path, one in schemas.items()]
    index = ["# JSON Schemas", table(("schema", "what it describes"), rows)]
    made = {f"{FOLDER}/index.md": markdown.page(index)}
    made.update((f"{FOLDER}/{name_of(path)}.md", page(path, one)) for path, one in schemas.items())
    return made


def types(schema: Schema) -> dict[str, Schema]:
    """Every type of a schema by its name, the whole first where it is an object itself."""
    whole = {str(schema["title"]): schema} if "properties" in schema else {}
    return {**whole, **schema.get("$defs", {})}


def meaning(schema: str, kind: str, field: str, of: Schema) -> str:
    """What a field means: its own description, or what ``meanings.toml`` says of it;
    :data:`ABOVE` where the text of its type names it; ``""`` where nothing does."""
    own, written = str(of["properties"][field].get("description", "")), meanings()
    special = written.get(f"{schema}.{kind}", {}).get(field)
    said = ABOVE if f"`{field}`" in _plain(of) else ""
    return own or special or said or written["every"].get(field, "")


@cache
def meanings() -> dict[str, dict[str, str]]:
    """The meanings of fields: by ``SCHEMA.TYPE``, or by the field's name alone (``every``)."""
    return tomllib.loads(_MEANINGS.read_text(encoding="utf-8"))


def page(path: str, schema: Schema) -> str:
    parts = [f"# {schema['title']}", _plain(schema), f"File: `{path}`."]
    if "$id" in schema:
        parts.append(f"Id: `{schema['$id']}`.")
    if "anyOf" in schema:
        parts.append(f"One of: {', '.join(map(_linked, schema['anyOf']))}.")
    for kind, of in types(schema).items():
        described = [_plain(of)] if of is not schema else []
        parts += [f"## {kind}", *described, "\n".join(_fields(name_of(path), kind, of))]
    return markdown.page(parts)


def _plain(of: Schema) -> str:
    """The description of a schema, as Markdown on one line."""
    text = " ".join(str(of.get("description", "")).split())
    return re.sub(r":\w+:`([^`]*)`", r"`\1`", text.replace("``", "`"))


def _fields(schema: str, kind: str, of: Schema) -> Iterator[str]:
    if "prefixItems" in of:
        yield f"An array: {', '.join(map(_type, of['prefixItems']))}."
        return
    required = of.get("required", ())
    yield from table(
        ("field", "type", "if absent", "meaning"),
        [
            (
                f"`{field}`",
                _type(shape),
                "required" if field in required else _default(shape),
                meaning(schema, kind, field, of),
            )
            for field, shape in of["properties"].items()
        ],
    )


def _default(shape: Schema) -> str:
    return f"`{json.dumps(shape['default'])}`" if "default" in shape else "not said"


def _linked(shape: Schema) -> str:
    kind = str(shape["$ref"]).rpartition("/")[2]
    return f"[{kind}](#{kind.lower()})"


def _type(shape: Schema) -> str:
    """A type in words; other types of the schema are links."""
    if "$ref" in shape:
        return _linked(shape)
    if "anyOf" in shape:
        return " or ".join(map(_type, shape["anyOf"]))
    if "enum" in shape:
        return ", ".join(f"`{json.dumps(one)}`" for one in shape["enum"])
    kind = shape.get("type", "any")
    if kind == "array":
        inside = shape.get("prefixItems")
        if inside:
            return f"array of {len(inside)}: {', '.join(map(_type, inside))}"
        return f"array of {_type(shape['items'])}" if shape.get("items") else "array"
    if kind == "object" and isinstance(shape.get("additionalProperties"), dict):
        return f"object of {_type(shape['additionalProperties'])}"
    pattern = f" that matches `{shape['pattern']}`" if "pattern" in shape else ""
    return f"{kind}{pattern}"
