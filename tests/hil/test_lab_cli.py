"""``pinproof lab`` as a person meets it: exit statuses, and one line for what is wrong."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from conformance.verdict import ExitStatus
from hil.lab import lab, nodes
from tests.hil.conftest import Says

pytestmark = pytest.mark.usefixtures("cache")

SPEC: Final = "1s-1n-4c-smt1"
#: A program that is no kubelet, but can be run.
TRUE: Final = shutil.which("true") or "/bin/true"


def _printed(says: Says, *words: str) -> str:
    status, out, err = says("lab", *words)
    assert status == 0, err
    return out


def _refused(says: Says, *words: str, status: ExitStatus = ExitStatus.USAGE) -> str:
    """The one line that says why."""
    ended, _, err = says("lab", *words)
    assert ended == status
    (line,) = err.splitlines()
    assert line.startswith("pinproof: ")
    return line.removeprefix("pinproof: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense", "--kubelet", TRUE], "not a lab machine: .*"),
        (
            [SPEC, "--kubelet", "/nonexistent/kubelet"],
            "/nonexistent/kubelet: no such file",
        ),
        ([SPEC, "--kubelet", TRUE, "--cgroup", "v3"], "--cgroup 'v3': it is v1 or v2"),
    ],
    ids=["machine", "kubelet", "cgroup"],
)
def test_a_node_that_cannot_be_is_wrong_usage(words: list[str], said: str, says: Says) -> None:
    assert re.fullmatch(said, _refused(says, "up", *words))


@pytest.mark.parametrize("text", ["a: [", "- 1", "1: 2"])
def test_a_wrong_configuration_is_wrong_usage(tmp_path: Path, text: str, says: Says) -> None:
    place = tmp_path / "kubelet.yaml"
    place.write_text(text)
    said = _refused(says, "up", SPEC, "--kubelet", TRUE, "--kubelet-config", str(place))
    assert said.startswith("not a KubeletConfiguration: ")


def test_without_qemu_nobody_could_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kubelet_path: str, says: Says
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said = _refused(says, "up", SPEC, "--kubelet", kubelet_path, status=ExitStatus.COULD_NOT_TELL)
    assert said == "qemu-system-x86_64 is not installed: apt-get install qemu-system-x86"


@pytest.mark.parametrize(
    ("apt", "said"),
    [
        (
            "echo deb http://mirror.example/debian bookworm main",
            "mmdebstrap is not installed: apt-get install mmdebstrap",
        ),
        (":", "knows no Debian archive"),
    ],
    ids=["no mmdebstrap", "no archive of Debian"],
)
def test_without_what_an_image_is_made_of_there_is_none(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    apt: str,
    said: str,
    says: Says,
) -> None:
    """The host has nothing but this apt-get."""
    if "mmdebstrap" in said and shutil.which("mmdebstrap", path="/usr/sbin:/sbin"):
        pytest.skip("NOT TESTED: mmdebstrap is where it is always looked for")
    program = tmp_path / "apt-get"
    program.write_text(f"#!/bin/sh\n{apt}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert said in _refused(says, "image", status=ExitStatus.COULD_NOT_TELL)


@pytest.mark.parametrize("command", ["ssh", "down", "reboot"])
def test_a_node_that_is_not_there_is_wrong_usage(command: str, says: Says) -> None:
    assert _refused(says, command, "node7") == "no lab node is called 'node7'; there are: none"


def test_an_empty_lab_is_an_empty_list(says: Says) -> None:
    assert json.loads(_printed(says, "list", "--json")) == []
    assert _printed(says, "list") == ""


def test_the_list_tells_what_is_left_over_and_down_removes_it(says: Says) -> None:
    node = nodes.reserve("half")
    (facts,) = json.loads(_printed(says, "list", "--json"))
    assert (facts["name"], facts["state"], facts["pid"]) == ("half", "left over", None)
    assert _printed(says, "list").split() == ["half", "left", "over"]
    assert _printed(says, "down", "--all") == "half\n"
    assert not node.folder.exists()
    assert lab.down(everything=True) == []
