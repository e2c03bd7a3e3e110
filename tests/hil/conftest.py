"""What tests of nodes share: a node made of files, and a shell on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.inspection import NodeFacts, gather
from tests.support import lacking
from tests.support.cluster import Cluster, NoCluster
from tests.support.fakenode import FakeNode


@pytest.fixture
def fake(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path / "root")


@pytest.fixture
def facts(fake: FakeNode) -> NodeFacts:
    return gather(fake.shell(), root=str(fake.root))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real API server before a real etcd, for the tests of one file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("no_proxy", "127.0.0.1")
        try:
            made = Cluster(tmp_path_factory.mktemp("cluster"))
        except NoCluster as error:
            lacking.skip("api server", error)
        try:
            yield made
        finally:
            made.close()
