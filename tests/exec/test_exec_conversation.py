"""What a node asks of its program, request by request, for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

import topologies
from conformance.pods import guaranteed
from conformance.subjects.exec import wire
from conformance.subjects.exec.node import ExecNode
from conformance.subjects.exec.program import Program
from reference import CPUSet
from reference.kubelet.kubelet import PodLifecycle
from reference.steps import Apply, AwaitReconcile, Delete, KubeletConfig, Start, Step, Stop
from reference.view import Phase

CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0]))


class Yes:
    """A program that admits every pod, but those that are named ``refused``."""

    lost = False
    about = wire.HelloAnswer(id=0, protocol=1, release="1.36")

    def __init__(self) -> None:
        self.heard: list[wire.Request] = []

    def ask_all(self, requests: Sequence[wire.Request]) -> list[wire.Answer]:
        self.heard += requests
        return [self._answer(one) for one in requests]

    def _answer(self, request: wire.Request) -> wire.Answer:
        match request:
            case wire.Start():
                return wire.StartAnswer(id=0, state_file="{}")
            case wire.Admit(pod=pod):
                refused = b'"name":"refused"' in bytes(pod)
                return wire.AdmitAnswer(
                    id=0, admitted=not refused, reason="Because", message="the program says so"
                )
            case wire.Create():
                return wire.CreateAnswer(id=0, cpus="1")
            case wire.Reconcile():
                gone = wire.Update("nobody", "c", "2")
                return wire.ReconcileAnswer(id=0, updates=[gone])
        return wire.Answer(id=0)

    def ops(self) -> list[str]:
        """What was asked since this was asked last."""
        heard, self.heard = self.heard, []
        return [str(type(one).__struct_config__.tag) for one in heard]


@pytest.fixture
def program() -> Yes:
    return Yes()


@pytest.fixture
def node(program: Yes) -> ExecNode:
    speaking = cast("Program", program)
    machine = topologies.machine("1s-1n-4c-smt1")
    return ExecNode(
        speaking, "n", machine, CONFIG, machines=topologies.machine, renew=lambda: speaking
    )


def test_each_step_asks_what_the_kubelet_would(node: ExecNode, program: Yes) -> None:
    conversation: list[tuple[Step, list[str]]] = [
        (Apply(guaranteed("a", 1)), []),
        (Start(), ["start", "admit", "create", "reconcile"]),
        (AwaitReconcile(), ["reconcile"]),
        (Apply(guaranteed("b", 1)), ["admit", "create", "reconcile"]),
        (Delete("a"), ["remove", "reconcile"]),
        (Stop(), ["stop"]),
        (Start(), ["start", "admit", "reconcile"]),
    ]
    for step, asked in conversation:
        node.do(step)
        assert program.ops() == asked, step


def test_machine_and_configuration_are_sent_once(node: ExecNode, program: Yes) -> None:
    node.do(Start())
    node.do(Stop())
    node.do(Start())
    first, _, _, again, _ = program.heard
    assert isinstance(first, wire.Start)
    assert isinstance(again, wire.Start)
    assert b"num_cores" not in wire.encode(again)
    assert b"cpuManagerPolicy" not in wire.encode(again)
    assert b"num_cores" in wire.encode(first)


def test_a_refusal_has_the_words_of_the_program(node: ExecNode, program: Yes) -> None:
    node.do(Start())
    node.do(Apply(guaranteed("refused", 1)))
    pod = node.view().pods["refused"]
    assert (pod.phase, pod.reason) == (Phase.REJECTED, "Because")
    assert pod.message.endswith("the program says so")
    assert program.ops() == ["start", "reconcile", "admit", "reconcile"]


def test_a_pod_that_does_not_fit_the_node_is_removed_again(node: ExecNode, program: Yes) -> None:
    """The program admits it; the node predicate, which is not the program's, refuses it."""
    node.do(Start())
    program.ops()
    node.do(Apply(guaranteed("large", 64)))
    assert node.view().pods["large"].phase is Phase.REJECTED
    assert program.ops() == ["admit", "remove", "reconcile"]


def test_the_life_cycle_is_the_model_s_own(node: ExecNode) -> None:
    node.do(Start())
    assert type(node._kubelet) is PodLifecycle
