"""What tests of nodes share: a node made of files, and a shell on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hil.inspection import NodeFacts, gather
from tests.support.fakenode import FakeNode


@pytest.fixture
def fake(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path / "root")


@pytest.fixture
def facts(fake: FakeNode) -> NodeFacts:
    return gather(fake.shell(), root=str(fake.root))
