"""The protocol's JSON Schema, made from its typed messages.

``python -m conformance.subjects.exec.schema > conformance/subjects/exec/protocol.schema.json``
writes it anew; a test compares.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec

from conformance.subjects.exec.wire import ANSWERS, PROTOCOL, Answer, Request


def schema() -> str:
    """The schema: a line is one of the requests or one of the answers."""
    lines = [*Request.__subclasses__(), Answer, *ANSWERS.values()]
    shapes, parts = msgspec.json.schema_components(lines, ref_template="#/$defs/{name}")
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"pinproof exec protocol, version {PROTOCOL}",
        "description": "One JSON object a line: requests to the program, answers from it.",
        "anyOf": list(shapes),
        "$defs": {name: _tidied(part) for name, part in parts.items()},
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _tidied(part: dict[str, Any]) -> dict[str, Any]:
    """With the description as one paragraph."""
    text = inspect.cleandoc(str(part.get("description", "")))
    return {**part, "description": " ".join(text.split())}


if __name__ == "__main__":
    print(schema(), end="")  # noqa: T201
