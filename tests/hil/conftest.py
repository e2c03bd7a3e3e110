"""What tests of nodes share: a node made of files, a booted one, and an API server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from hil.inspection import NodeFacts, gather
from hil.lab import Node, Wish, all_nodes, down, up
from hil.safety import restore_node
from hil.transport import NodeAddress, nodes
from hil.transport.local import LocalShell
from tests.cli.running import here
from tests.support.cluster import Cluster, running_cluster
from tests.support.fakenode import MACHINE, FakeNode

Says: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fake(request: pytest.FixtureRequest, tmp_path: Path) -> FakeNode:
    """Quicker to make and to ask with the file's ``SMALL_NODE``: it then has 8 CPUs."""
    small = getattr(request.module, "SMALL_NODE", False)
    return FakeNode(tmp_path / "root", "2s-2n-4c-smt2" if small else MACHINE)


@pytest.fixture
def facts(fake: FakeNode) -> NodeFacts:
    return fake.facts()


@pytest.fixture(scope="session")
def described(tmp_path_factory: pytest.TempPathFactory) -> NodeFacts:
    """Of a node made of files, for tests that do not need the node itself."""
    return FakeNode(tmp_path_factory.mktemp("described") / "root").facts()


@pytest.fixture
def reachable(fake: FakeNode, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """The node made of files, which is behind every address."""

    @contextmanager
    def connected(address: NodeAddress) -> Iterator[LocalShell]:
        yield fake.shell(address.name)

    root = str(fake.root)
    for module in ("collect", "probe", "restore"):
        monkeypatch.setattr(f"pinproof.{module}.connected", connected)
        monkeypatch.setattr(f"pinproof.{module}.gather", partial(gather, root=root))
    monkeypatch.setattr("pinproof.restore.restore_node", partial(restore_node, root=root))
    monkeypatch.setattr("hil.subject.connect", lambda address: fake.shell(address.name))
    for module in ("hil.subject", "hil.session.leasing"):
        monkeypatch.setattr(f"{module}.gather", partial(gather, root=root))
    return fake


@pytest.fixture
def says() -> Says:
    """Runs ``pinproof`` with these words: exit status, stdout, stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        done = here(*words)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The lab's own, in which no node is left."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    down(everything=True)


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, kubelet_path: str) -> Iterator[Node]:
    """A lab node that is booted for the tests of one file: with the file's ``NAME``, and with what
    its ``WISH`` says beside that."""
    name = request.module.NAME
    if name in [left.name for left in all_nodes()]:
        down([name])
    wish = {"specs": ["1s-1n-4c-smt1"], **getattr(request.module, "WISH", {})}
    _, (made,) = up(Wish(kubelet=Path(kubelet_path), name=name, **wish))
    yield made
    down([name])
    assert name not in [left.name for left in all_nodes()]


@pytest.fixture(scope="module")
def inventory(request: pytest.FixtureRequest) -> str:
    """Of the booted node that ``PINPROOF_LAB_NODE`` names the inventory of; without one, or where
    the file has ``OWN_NODE``, of a :func:`node` of the file's own."""
    booted = os.environ.get("PINPROOF_LAB_NODE")
    if booted and not getattr(request.module, "OWN_NODE", False):
        return booted
    made: Node = request.getfixturevalue("node")
    return str(made.folder / "lab.toml")


@pytest.fixture(scope="module")
def address(inventory: str) -> NodeAddress:
    return nodes(inventory)[0]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real API server before a real etcd, for the tests of one file."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The same for files whose tests leave nothing but nodes on it: each under names of its own,
    and never ``node9``."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made
