"""The certificate's JSON Schema, made from its types.

``python -m reports.certificate.schema > reports/certificate/certificate.schema.json`` writes it
again; a test compares.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec

from reports.certificate.document import SCHEMA, Statement


def schema() -> str:
    (shape,), parts = msgspec.json.schema_components([Statement], ref_template="#/$defs/{name}")
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:pinproof:certificate:{SCHEMA}",
        "title": f"pinproof certificate, version {SCHEMA}",
        "description": "An in-toto Statement v1 with a test-result predicate.",
        **shape,
        "$defs": {name: _tidied(part) for name, part in parts.items()},
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _tidied(part: dict[str, Any]) -> dict[str, Any]:
    """With the description as one paragraph."""
    text = inspect.cleandoc(str(part.get("description", "")))
    return {**part, "description": " ".join(text.split())}


if __name__ == "__main__":
    print(schema(), end="")  # noqa: T201
