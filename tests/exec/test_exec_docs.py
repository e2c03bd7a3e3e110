"""What docs/exec-protocol.md shows is what happens."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import topologies
from conformance.subjects.exec import ExecSubject, wire
from conformance.subjects.exec.channel import Channel
from conformance.subjects.exec.program import PATIENCE
from reference import CPUSet
from reference.steps import Apply, Container, KubeletConfig, Pod, Start

PAGE: Final = (Path(__file__).parents[2] / "docs" / "exec-protocol.md").read_text()


def _block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def _conversation() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    lines = _block("exec-protocol").splitlines()
    assert [line[:2] for line in lines] == ["> ", "< "] * (len(lines) // 2)
    told = [json.loads(line[2:]) for line in lines]
    return list(zip(told[::2], told[1::2], strict=True))


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
    [
        ("within 30 seconds", f"{PATIENCE:g}"),
        ("more than 16 MiB", str(wire.LONGEST_LINE >> 20)),
    ],
)
def test_the_bounds_are_those_of_the_code(text: str, number: str) -> None:
    assert text in PAGE
    assert number in text
