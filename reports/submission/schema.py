"""The JSON Schema of submission.json, made from its type.

``python -m reports.submission.schema > reports/submission/submission.schema.json`` writes it again;
a test compares.
"""

from __future__ import annotations

import json

from conformance.json_schema import schema_components
from reports.submission.document import Submission


def schema() -> str:
    (_,), parts = schema_components([Submission])
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:pinproof:submission:1",
        **parts["Submission"],
        "title": "pinproof submission, version 1",
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema(), end="")  # noqa: T201
