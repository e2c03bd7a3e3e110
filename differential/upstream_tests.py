"""Upstream's tests of the CPU manager, and their equals here: docs/tables/upstream-tests.md.

    python -m differential.upstream_tests > docs/tables/upstream-tests.md

The tests are those of ``test/e2e_node`` in Kubernetes 1.37.0 that concern the CPU manager, its
metrics, the Topology Manager and the pod-resources socket; they stand in ``upstream_tests.toml``.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from differential import markdown
from differential.markdown import table

TABLE: Final = Path(__file__).with_suffix(".toml")
_SOURCE: Final = "https://github.com/kubernetes/kubernetes/blob/v1.37.0/test/e2e_node"


class UpstreamTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One test: where it stands, the scenarios that are equal, or why there is none."""

    file: str
    line: int
    title: str
    scenarios: list[str] = []
    missing: str = ""


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    test: list[UpstreamTest]


def upstream_tests() -> list[UpstreamTest]:
    return msgspec.toml.decode(TABLE.read_bytes(), type=_Table).test


def page() -> str:
    tests = upstream_tests()
    equal = sum(bool(one.scenarios) for one in tests)
    parts: list[str | list[str]] = [
        "# Upstream's tests",
        "Kubernetes' node e2e tests of 1.37.0 that concern the CPU manager: "
        f"{len(tests)}, of which {equal} have an equal here. They need the hardware and "
        "skip without it; a scenario runs on any captured machine. "
        "`python -m differential.upstream_tests` writes this page.",
    ]
    for file, group in groupby(tests, key=lambda one: one.file):
        parts += [f"## {file}", table(("upstream's test", "here"), map(_row, group))]
    return markdown.page(parts)


def _row(one: UpstreamTest) -> tuple[str, str]:
    here = ", ".join(f"`{name}`" for name in one.scenarios) or f"none: {one.missing}"
    return f"[{one.line}]({_SOURCE}/{one.file}#L{one.line}) {one.title}", here


if __name__ == "__main__":
    sys.stdout.write(page())
