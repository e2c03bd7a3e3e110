"""The lab's nodes on disk: names, states, inventories."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from hil.lab import lab, nodes, process
from hil.lab.errors import LabUsageError
from hil.lab.nodes import Node, Record, State
from hil.transport import nodes as read_inventory
from tests.support.until import has_ended

pytestmark = pytest.mark.usefixtures("cache")

RECORD = Record(
    spec="2s-2n-8c-smt2",
    memory=2048,
    cgroup=2,
    kubelet="/kubelet",
    version="v1.36.4",
    image="image",
    port=2222,
    accel="auto",
    inventory="",
    ready=True,
)


def _node(name: str = "", inventory: Path | None = None, *, ready: bool = True) -> Node:
    node = nodes.reserve(name)
    path = inventory or node.folder / lab.INVENTORY
    made = node.written(replace(RECORD, inventory=str(path), ready=ready))
    nodes.write_inventory(path, [made])
    return made


def test_names_are_numbers_in_order() -> None:
    names = [_node().name for _ in range(11)]
    assert names == [f"node{number}" for number in range(1, 12)]
    assert [node.name for node in nodes.all_nodes()] == names


def test_a_name_that_is_taken_is_refused() -> None:
    _node("big")
    with pytest.raises(LabUsageError, match="called big already"):
        nodes.reserve("big")


@pytest.mark.parametrize("name", ["..", "a/b", "A", "-a", "a b", "x" * 60, "a\n", "\x1b[1m"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(LabUsageError) as caught:
        nodes.reserve(name)
    assert str(caught.value).isprintable()
    with pytest.raises(LabUsageError):
        nodes.named(name)


def test_an_unknown_node_is_told_with_those_that_are_there() -> None:
    _node("big")
    with pytest.raises(LabUsageError, match="'node9'; there are: big"):
        nodes.named("node9")


def test_the_states_of_a_node() -> None:
    """As far as the host can tell without asking the guest."""
    node = _node()
    seen = [node.state]
    process.start(node.folder, ["/bin/sleep", "600"])
    seen.append(nodes.named(node.name).state)
    with nodes.held(node):
        seen.append(node.state)
    process.end(node.folder)
    seen.append(node.state)
    assert seen == [State.DOWN, State.UP, State.BUSY, State.DOWN]


def test_what_a_killed_run_left_is_listed_and_removed() -> None:
    left = [nodes.reserve(), _node(ready=False), _node()]
    process.start(left[1].folder, ["/bin/sleep", "600"])
    (left[2].folder / "node.json").write_text('{"spec": ')
    names = ["node1", "node2", "node3"]
    assert [node.state for node in nodes.all_nodes()] == [State.LEFT] * 3
    assert [node.facts()["name"] for node in nodes.all_nodes()] == names
    assert lab.down(names) == names
    assert not any(node.folder.exists() for node in left)


def test_what_runs_for_a_snapshot_goes_with_its_node() -> None:
    node = nodes.reserve()
    draft = node.folder / "snapshot"
    draft.mkdir()
    process.start(draft, ["/bin/sleep", "600"])
    while (number := process.pid(draft)) is None:
        pass
    lab.down([node.name])
    assert has_ended(number)
    assert not node.folder.exists()


def test_down_names_all_or_nothing() -> None:
    node = _node()
    with pytest.raises(LabUsageError):
        lab.down([node.name, "node7"])
    assert node.folder.is_dir()
    with pytest.raises(LabUsageError, match="name a node, or give --all"):
        lab.down()


def test_the_inventory_is_one() -> None:
    """As the reader of inventories has it, with keys of the node's own."""
    node = _node()
    (found,) = read_inventory(str(node.folder / lab.INVENTORY))
    assert (found.name, found.url) == ("node1", "ssh://root@127.0.0.1:2222")
    assert found.lab == "2s-2n-8c-smt2"
    assert found.identity == (node.folder / "id_ed25519",)
    assert found.known_hosts == node.folder / "known_hosts"


def test_an_inventory_loses_a_node_that_is_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    pair = [_node("a", path), _node("b", path)]
    nodes.write_inventory(path, pair)
    lab.down(["a"])
    assert [one.name for one in read_inventory(str(path))] == ["b"]
    lab.down(["b"])
    assert not path.exists()


def test_an_odd_path_survives_the_inventory(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    odd = cache / 'a "quoted" \\ ü\x7f'
    odd.mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(odd))
    node = _node()
    (found,) = read_inventory(str(node.folder / lab.INVENTORY))
    assert found.identity == (node.folder / "id_ed25519",)
    lab.down(everything=True)
