"""One node of the model with one kubelet after the other.

What real kubelets did on one root, kill -9 between them, stands in docs/facts 7.6 and 12.4.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.pods import guaranteed
from reference import CPUSet, IllegalStep, Node, NotModelled
from reference.branching import BranchingNode
from reference.steps import Apply, KubeletConfig, Reboot, Start, Stop
from reference.view import View
from tests.reference.nodes import EIGHT, booted, do, tree

CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]))


def _started(node: Node, release: str, kind: type[Node] = Node) -> tuple[Node, View]:
    """The node, whose kubelet is killed, with one of this release."""
    if node.view().running:
        node.do(Stop(kill=True))
    heir = node.handed_over(
        lambda trees, machine, config: kind(trees, machine, config, release=release)
    )
    return heir, do(heir, Start())


def _with_pod(release: str) -> Node:
    return booted(Apply(guaranteed("a", 2)), config=CONFIG, release=release)


def _newer(*_: object) -> Node:
    return Node(tree, EIGHT, CONFIG, release="1.37")


def test_a_version_1_file_is_read_and_left_as_it_is_until_1_37_refuses_it() -> None:
    node = _with_pod("1.17")
    file = node.view().state_file
    for release in ("1.20", "1.26", "1.30"):
        node, view = _started(node, release)
        assert view.running
        assert view.assignments == {"a": {"c": CPUSet([1, 5])}}
        assert view.state_file == file
    node, view = _started(node, "1.37")
    assert not view.running
    assert view.exit_status == 1
    assert view.error.startswith(
        "could not restore state from checkpoint: json: cannot unmarshal string into Go struct "
        "field CPUManagerCheckpointV2.entries of type map[string]string, please drain this node"
    )
    node, view = _started(node, "1.36")  # it ends the containers that the file has by id
    assert (view.state_file, view.assignments) == (file, {"a": {"c": CPUSet([1, 5])}})
    assert view.asked["a"]["c"].id


@pytest.mark.parametrize("kind", [Node, BranchingNode])
def test_1_36_and_1_37_read_one_anothers_files(kind: type[Node]) -> None:
    """Each leaves the file as it is until a pod comes; then it writes its own form."""
    node = kind(tree, EIGHT, CONFIG, release="1.36")
    written = do(node, Start(), Apply(guaranteed("a", 2))).state_file or ""
    assert '"dataChecksum"' not in written
    node, view = _started(node, "1.37", kind)
    assert view.state_file == written
    written = do(node, Apply(guaranteed("b", 2))).state_file or ""
    assert '"dataChecksum"' in written
    node, view = _started(node, "1.36", kind)
    assert view.state_file == written
    assert view.assignments == {"a": {"c": CPUSet([1, 5])}, "b": {"c": CPUSet([2, 6])}}
    assert '"dataChecksum"' not in (do(node, Apply(guaranteed("d", 1))).state_file or "")


def test_the_machine_that_was_booted_last_stays() -> None:
    node = _with_pod("1.36")
    do(node, Stop(), Reboot("1s-1n-8c-smt2"))
    _, view = _started(node, "1.37")
    assert view.error.startswith(
        'current set of available CPUs "0-15" doesn\'t match with CPUs in state "0-7"'
    )


def test_a_kubelet_that_runs_is_not_replaced() -> None:
    with pytest.raises(IllegalStep, match="the kubelet runs"):
        _with_pod("1.36").handed_over(_newer)


def test_pods_of_an_api_server_are_not_modelled() -> None:
    node = Node(tree, EIGHT, replace(CONFIG, api_server=True), release="1.36")
    with pytest.raises(NotModelled, match="API server"):
        node.handed_over(_newer)
