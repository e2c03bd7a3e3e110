"""The protocol's JSON Schema, made from its typed messages.

``python -m conformance.subjects.exec.schema > conformance/subjects/exec/protocol.schema.json``
writes it again; a test compares.
"""

from __future__ import annotations

import json

from conformance.json_schema import schema_components
from conformance.subjects.exec.wire import ANSWERS, PROTOCOL, Answer, Request


def schema() -> str:
    """The schema: a line is one of the requests or one of the answers."""
    lines = [*Request.__subclasses__(), Answer, *ANSWERS.values()]
    shapes, parts = schema_components(lines)
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"pinproof exec protocol, version {PROTOCOL}",
        "description": "One JSON object a line: requests to the program, answers from it.",
        "anyOf": list(shapes),
        "$defs": parts,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema(), end="")  # noqa: T201
