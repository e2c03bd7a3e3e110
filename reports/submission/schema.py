"""The JSON Schema of submission.json, made from its type.

``python -m reports.submission.schema > reports/submission/submission.schema.json`` writes it again;
a test compares.
"""

from __future__ import annotations

import inspect
import json

import msgspec

from reports.submission.document import Submission


def schema() -> str:
    (_,), parts = msgspec.json.schema_components([Submission], ref_template="#/$defs/{name}")
    shape = parts["Submission"]
    text = " ".join(inspect.cleandoc(str(shape["description"])).split())
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:pinproof:submission:1",
        **shape,
        "title": "pinproof submission, version 1",
        "description": text,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema(), end="")  # noqa: T201
