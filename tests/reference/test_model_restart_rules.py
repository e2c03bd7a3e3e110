"""A container may have a restart policy of its own, which outranks the pod's; rules bring one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.pods import exclusive
from reference import Node
from reference.steps import Apply, KillContainer, KubeletConfig, Pod, RestartPolicy, Start
from reference.view import Phase
from topologies import load


def _node(*codes: int) -> Node:
    tree = load("1s-1n-4c-smt1")
    node = Node(lambda name: tree, "1s-1n-4c-smt1", KubeletConfig(system_reserved="1"))
    node.do(Start())
    node.do(Apply(Pod("a", (replace(exclusive("c", 2), restarts_all_on=codes),))))
    return node


@pytest.mark.parametrize("code", [0, 1, 137])
def test_an_exit_code_without_a_rule_ends_the_container(code: int) -> None:
    """The policy of its own is Never, whatever the pod's is (seen on 1.36.4)."""
    node = _node(42)
    node.do(KillContainer("a", "c", code))
    view = node.view()
    assert view.pods["a"].phase is Phase.ENDED
    assert view.assignments == {}


def test_an_exit_code_with_a_rule_starts_it_again() -> None:
    node = _node(42)
    before = node.view().assignments
    node.do(KillContainer("a", "c", 42))
    assert node.view().pods["a"].phase is Phase.RUNNING
    assert node.view().assignments == before


def test_without_rules_the_pods_policy_counts() -> None:
    node = _node()
    node.do(KillContainer("a", "c", 0))
    assert node.view().pods["a"].phase is Phase.RUNNING


@pytest.mark.parametrize(("own", "code"), [("Never", 1), ("Never", 0), ("OnFailure", 0)])
def test_its_own_policy_ends_it_in_a_pod_that_starts_again(own: str, code: int) -> None:
    assert _after(own, "Always", code) is Phase.ENDED


@pytest.mark.parametrize(("own", "code"), [("Always", 0), ("Always", 137), ("OnFailure", 1)])
def test_its_own_policy_starts_it_in_a_pod_that_never_does(own: str, code: int) -> None:
    assert _after(own, "Never", code) is Phase.RUNNING


def _after(own: str, whole: str, code: int) -> Phase:
    node = _node()
    container = replace(exclusive("c", 1), restart_policy=RestartPolicy(own))
    node.do(Apply(Pod("b", (container,), restart_policy=RestartPolicy(whole))))
    node.do(KillContainer("b", "c", code))
    return node.view().pods["b"].phase
