"""What was recorded of real kubelets: tests/golden/README.md."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from reference import CPUTopology

GOLDEN = Path(__file__).parents[1] / "golden"


@cache
def golden(name: str) -> Any:
    """The content of a JSON file."""
    content = (GOLDEN / name).read_bytes()
    return json.loads(gzip.decompress(content) if name.endswith(".gz") else content)


@cache
def rows(name: str) -> Sequence[dict[str, Any]]:
    """Of a file of JSON lines."""
    with gzip.open(GOLDEN / name, "rt") as lines:
        return [json.loads(line) for line in lines]


@cache
def machines(name: str) -> dict[str, CPUTopology]:
    """The topologies that the rows name."""
    return {
        table["topology"]: CPUTopology.of({int(c): tuple(p) for c, p in table["cpus"].items()})
        for table in golden(name)
    }
