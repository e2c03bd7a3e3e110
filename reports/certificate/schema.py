"""The certificate's JSON Schema, made from its types.

``python -m reports.certificate.schema > reports/certificate/certificate.schema.json`` writes it
again; a test compares.
"""

from __future__ import annotations

import json

from conformance.json_schema import schema_components
from reports.certificate.document import SCHEMA, Statement


def schema() -> str:
    (shape,), parts = schema_components([Statement])
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:pinproof:certificate:{SCHEMA}",
        "title": f"pinproof certificate, version {SCHEMA}",
        "description": "An in-toto Statement v1 with a test-result predicate.",
        **shape,
        "$defs": parts,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema(), end="")  # noqa: T201
