"""``pinproof lab`` as a person meets it: exit statuses, and one line for what is wrong."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from conformance.verdict import ExitStatus
from hil.lab import lab, nodes
from tests.cli.running import pinproof


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def _lab(*words: str) -> str:
    """What it prints."""
    return pinproof("lab", *words, status=0).stdout


def _refused(*words: str, status: ExitStatus = ExitStatus.USAGE) -> str:
    """The one line that says why."""
    (line,) = pinproof("lab", *words, status=status).stderr.splitlines()
    assert line.startswith("pinproof: ")
    return line.removeprefix("pinproof: ")


def _true() -> str:
    found = shutil.which("true")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense", "--kubelet", "TRUE"], "no machine: .*"),
        (
            ["1s-1n-4c-smt1", "--kubelet", "/nonexistent/kubelet"],
            "no kubelet: /nonexistent/kubelet: there is no such file",
        ),
        (
            ["1s-1n-4c-smt1", "--kubelet", "TRUE", "--cgroup", "v3"],
            "cgroup is v1 or v2, not 'v3'",
        ),
    ],
    ids=["machine", "kubelet", "cgroup"],
)
def test_a_node_that_cannot_be_is_wrong_usage(words: list[str], said: str) -> None:
    words = [_true() if one == "TRUE" else one for one in words]
    assert re.fullmatch(said, _refused("up", *words))


@pytest.mark.parametrize("text", ["a: [", "- 1", "1: 2"])
def test_a_wrong_configuration_is_wrong_usage(tmp_path: Path, text: str) -> None:
    place = tmp_path / "kubelet.yaml"
    place.write_text(text)
    words = ["up", "1s-1n-4c-smt1", "--kubelet", _true(), "--kubelet-config", str(place)]
    assert _refused(*words).startswith("not a KubeletConfiguration: ")


def test_without_qemu_nobody_could_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kubelet_path: str
) -> None:
    """And the package that has it is named."""
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["up", "1s-1n-4c-smt1", "--kubelet", kubelet_path]
    said = _refused(*words, status=ExitStatus.COULD_NOT_TELL)
    assert said == "qemu-system-x86_64 is not installed: apt-get install qemu-system-x86"


def _apt(folder: Path, script: str) -> Path:
    """A folder with nothing but an apt-get that does this."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "apt-get").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "apt-get").chmod(0o755)
    return programs


def test_without_mmdebstrap_there_is_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = _apt(tmp_path, "echo deb http://mirror.example/debian bookworm main")
    monkeypatch.setenv("PATH", f"{programs}:{tmp_path}")
    if shutil.which("mmdebstrap", path="/usr/sbin:/sbin"):
        pytest.skip("NOT TESTED: mmdebstrap is where it is always looked for")
    said = _refused("image", status=ExitStatus.COULD_NOT_TELL)
    assert said == "mmdebstrap is not installed: apt-get install mmdebstrap"


def test_an_apt_that_knows_no_debian_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(_apt(tmp_path, ":")))
    said = _refused("image", status=ExitStatus.COULD_NOT_TELL)
    assert "knows no Debian archive" in said


@pytest.mark.parametrize("command", ["ssh", "down", "reboot"])
def test_a_node_that_is_not_there_is_wrong_usage(command: str) -> None:
    assert _refused(command, "node7") == "no lab node is called 'node7'; there are: none"


def test_down_wants_to_know_which() -> None:
    assert _refused("down") == "name a node, or give --all"


def test_an_empty_lab_is_an_empty_list() -> None:
    assert json.loads(_lab("list", "--json")) == []
    assert _lab("list") == ""


def test_the_list_tells_what_is_left_over_and_down_removes_it() -> None:
    node = nodes.reserve("half")
    (facts,) = json.loads(_lab("list", "--json"))
    assert (facts["name"], facts["state"], facts["pid"]) == ("half", "left over", None)
    assert _lab("list").split() == ["half", "left", "over"]
    assert _lab("down", "--all") == "half\n"
    assert not node.folder.exists()
    assert lab.down(everything=True) == []
