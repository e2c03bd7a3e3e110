"""The playground as it is built, and what a test tells it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from conformance.pods import guaranteed
from pinproof.playground.asked import Page
from tests.support.node_archives import write_archive

Ask: TypeAlias = Callable[..., dict[str, Any]]


def pod(name: str, cpu: str, **more: str) -> str:
    """The manifest of a Guaranteed pod with one container."""
    container = {"name": "c", "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}}
    return json.dumps(
        {"kind": "Pod", "metadata": {"name": name, **more}, "spec": {"containers": [container]}}
    )


@pytest.fixture
def ask() -> Ask:
    """Asks one page for a story of these steps."""
    page = Page()

    def asked(*steps: tuple[str, str], **story: str) -> dict[str, Any]:
        shape = {"machine": "1s-1n-4c-smt2", "release": "1.36", "steps": steps, **story}
        answer: dict[str, Any] = json.loads(page.asked(json.dumps({"story": shape})))
        return answer

    return asked


@pytest.fixture
def node7(tmp_path: Path) -> Path:
    """The capture of a node with a pod on CPUs 1 and 5, and a release and settings of its own."""
    state = {"policyName": "static", "defaultCpuSet": "0,2-4,6-7", "checksum": 0}
    place = tmp_path / "node7.tar.xz"
    write_archive(
        place,
        machine="1s-1n-4c-smt2",
        settings={"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"},
        state=json.dumps({**state, "entries": {"0c6f": {"c": "1,5"}}}),
        pods=[replace(guaranteed("web", 2), uid="0c6f")],
        release="1.35",
    )
    return place
