"""A container may have a restart policy of its own, which outranks the pod's; rules bring one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.pods import exclusive
from reference import Node
from reference.steps import Apply, KillContainer, KubeletConfig, Pod, RestartPolicy
from reference.view import Phase
from tests.reference.nodes import FOUR, booted, do


def _node(*codes: int) -> Node:
    one = Pod("a", (replace(exclusive("c", 2), restarts_all_on=codes),))
    return booted(Apply(one), config=KubeletConfig(system_reserved="1"), machine=FOUR)


@pytest.mark.parametrize("code", [0, 1, 137])
def test_an_exit_code_without_a_rule_ends_the_container(code: int) -> None:
    """The policy of its own is Never, whatever the pod's is (seen on 1.36.4)."""
    view = do(_node(42), KillContainer("a", "c", code))
    assert (view.pods["a"].phase, view.assignments) == (Phase.ENDED, {})


def test_an_exit_code_with_a_rule_starts_it_again() -> None:
    node = _node(42)
    before = node.view().assignments
    view = do(node, KillContainer("a", "c", 42))
    assert (view.pods["a"].phase, view.assignments) == (Phase.RUNNING, before)


def test_without_rules_the_pods_policy_counts() -> None:
    assert do(_node(), KillContainer("a", "c", 0)).pods["a"].phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("own", "whole", "code", "phase"),
    [
        ("Never", "Always", 1, Phase.ENDED),
        ("Never", "Always", 0, Phase.ENDED),
        ("OnFailure", "Always", 0, Phase.ENDED),
        ("Always", "Never", 0, Phase.RUNNING),
        ("Always", "Never", 137, Phase.RUNNING),
        ("OnFailure", "Never", 1, Phase.RUNNING),
    ],
)
def test_its_own_policy_outranks_the_pods(own: str, whole: str, code: int, phase: Phase) -> None:
    container = replace(exclusive("c", 1), restart_policy=RestartPolicy(own))
    pod = Pod("b", (container,), restart_policy=RestartPolicy(whole))
    assert do(_node(), Apply(pod), KillContainer("b", "c", code)).pods["b"].phase is phase
