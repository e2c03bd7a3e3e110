"""The protocol's messages, their schema, what its page shows, and what is asked."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import pytest

import topologies
from conformance.discovered import info_of
from conformance.pods import guaranteed
from conformance.subjects import exec as exec_subject
from conformance.subjects.exec import ExecSubject, wire
from conformance.subjects.exec.channel import Channel
from conformance.subjects.exec.machineinfo import machine_info
from conformance.subjects.exec.node import ExecNode
from conformance.subjects.exec.program import PATIENCE, Program
from conformance.subjects.exec.schema import schema
from reference import CPUSet
from reference.kubelet.kubelet import PodLifecycle
from reference.steps import (
    Apply,
    AwaitReconcile,
    Container,
    Delete,
    KubeletConfig,
    Pod,
    Start,
    Step,
    Stop,
)
from reference.view import Phase

SCHEMA = Path(exec_subject.__file__).with_name("protocol.schema.json")


def test_the_schema_is_made_from_the_messages() -> None:
    assert SCHEMA.read_text() == schema()


def test_the_schema_says_what_every_message_is_for() -> None:
    parts = json.loads(schema())["$defs"]
    assert all(part["description"] for part in parts.values())


@pytest.mark.parametrize(
    "text", [None, "", '{"policyName":"none"}', "Zürich", "\udcff\udc80 no text", "\x00"]
)
def test_a_state_file_survives_the_line(text: str | None) -> None:
    request = wire.Start(node="n", state_file=wire.coded(text))
    back = msgspec.json.decode(wire.encode(request), type=wire.Start)
    assert not isinstance(back.state_file, msgspec.UnsetType)
    assert wire.text_of(back.state_file) == text


def test_what_is_left_out_of_a_start_is_not_sent() -> None:
    assert json.loads(wire.encode(wire.Start(node="n"))) == {"op": "start", "node": "n"}
    removed = wire.Start(node="n", state_file=None)
    assert json.loads(wire.encode(removed)) == {"op": "start", "node": "n", "state_file": None}


def test_a_machine_has_what_both_managers_read() -> None:
    """Physical cores as cAdvisor counts them: by core id alone, so 32 for two sockets of 32."""
    info = info_of(topologies.machine("2s-4n-64c-smt2").tree, release="1.36")
    answer = machine_info(info)
    counts = ("num_cores", "num_physical_cores", "num_sockets")
    assert [answer[name] for name in counts] == [128, 32, 2]
    node = answer["topology"][3]
    assert (node["node_id"], len(node["cores"]), len(node["distances"])) == (3, 16, 4)
    # In the order of the names of their folders.
    assert node["cores"][0]["thread_ids"] == [112, 48]
    assert node["cores"][0]["socket_id"] == 1


# -- docs/reference/exec-protocol.md ---------------------------------------------------------------

PAGE: Final = (Path(__file__).parents[2] / "docs/reference/exec-protocol.md").read_text()


def _block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def _conversation() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    lines = _block("exec-protocol").splitlines()
    assert [line[:2] for line in lines] == ["> ", "< "] * (len(lines) // 2)
    messages = [json.loads(line[2:]) for line in lines]
    return list(zip(messages[::2], messages[1::2], strict=True))


def _like(shown: object, seen: object) -> bool:
    if shown == "…":
        return True
    if isinstance(shown, dict) and isinstance(seen, dict):
        return shown.keys() == seen.keys() and all(_like(shown[key], seen[key]) for key in shown)
    return shown == seen


def test_the_conversation_is_the_drivers(driver_path: Callable[[str], Path]) -> None:
    channel = Channel([str(driver_path("1.36"))])
    for request, shown in _conversation():
        channel.send([json.dumps(request).encode() + b"\n"])
        (line,) = channel.receive(1, patience=30)
        assert _like(shown, json.loads(line)), f"{request}\n{line.decode()}"
    channel.close()


def test_the_conversation_has_every_request_once() -> None:
    ops = {request["op"] for request, _ in _conversation()}
    known = {kind.__struct_config__.tag for kind in wire.Request.__subclasses__()}
    assert ops == {*known, "dance"}
    assert all(f"| `{op}` |" in PAGE for op in known)


def test_the_smallest_program_runs_and_pins_nothing(tmp_path: Path) -> None:
    program = tmp_path / "pins-nothing.py"
    program.write_text(_block("python"))
    subject = ExecSubject.open(f"{sys.executable} {program}")
    assert (subject.info.release, subject.info.facts["program"]) == ("1.36", "pins nothing")
    config = KubeletConfig(reserved_system_cpus=CPUSet([0]))
    node = subject.node(topologies.machine("1s-1n-4c-smt2"), config)
    node.do(Start())
    node.do(Apply(Pod("p", (Container("c", "2", "2", "64Mi", "64Mi"),))))
    view = node.view()
    assert view.running
    assert view.cpusets == {"p": {"c": None}}
    assert view.assignments == {}
    subject.close()


@pytest.mark.parametrize(
    ("text", "number"),
    [("within 30 seconds", f"{PATIENCE:g}"), ("more than 16 MiB", str(wire.LONGEST_LINE >> 20))],
)
def test_the_bounds_are_those_of_the_code(text: str, number: str) -> None:
    assert text in PAGE
    assert number in text


# -- what a node asks of its program, request by request, for each step ----------------------------

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
def yes() -> Yes:
    return Yes()


@pytest.fixture
def node(yes: Yes) -> ExecNode:
    speaking = cast("Program", yes)
    machine = topologies.machine("1s-1n-4c-smt1")
    return ExecNode(
        speaking, "n", machine, CONFIG, machines=topologies.machine, renew=lambda: speaking
    )


def test_each_step_asks_what_the_kubelet_would(node: ExecNode, yes: Yes) -> None:
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
        assert yes.ops() == asked, step


def test_machine_and_configuration_are_sent_once(node: ExecNode, yes: Yes) -> None:
    node.do(Start())
    node.do(Stop())
    node.do(Start())
    first, _, _, again, _ = yes.heard
    assert isinstance(first, wire.Start)
    assert isinstance(again, wire.Start)
    assert b"num_cores" not in wire.encode(again)
    assert b"cpuManagerPolicy" not in wire.encode(again)
    assert b"num_cores" in wire.encode(first)


def test_a_refusal_has_the_words_of_the_program(node: ExecNode, yes: Yes) -> None:
    node.do(Start())
    node.do(Apply(guaranteed("refused", 1)))
    pod = node.view().pods["refused"]
    assert (pod.phase, pod.reason) == (Phase.REJECTED, "Because")
    assert pod.message.endswith("the program says so")
    assert yes.ops() == ["start", "reconcile", "admit", "reconcile"]


def test_a_pod_that_does_not_fit_the_node_is_removed_again(node: ExecNode, yes: Yes) -> None:
    """The program admits it; the node predicate, which is not the program's, refuses it."""
    node.do(Start())
    yes.ops()
    node.do(Apply(guaranteed("large", 64)))
    assert node.view().pods["large"].phase is Phase.REJECTED
    assert yes.ops() == ["admit", "remove", "reconcile"]


def test_the_life_cycle_is_the_model_s_own(node: ExecNode) -> None:
    node.do(Start())
    assert type(node._kubelet) is PodLifecycle
