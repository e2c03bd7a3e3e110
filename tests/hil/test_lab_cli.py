"""``pinproof lab`` as a person meets it: exit statuses, and one line for what is wrong."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.verdict import ExitStatus
from hil.lab import lab, nodes


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def _lab(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pinproof", "lab", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def _one_line(done: subprocess.CompletedProcess[str]) -> str:
    (line,) = done.stderr.splitlines()
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
    done = _lab("up", *(_true() if one == "TRUE" else one for one in words))
    assert done.returncode == ExitStatus.USAGE
    assert re.fullmatch(said, _one_line(done))


@pytest.mark.parametrize("text", ["a: [", "- 1", "1: 2"])
def test_a_wrong_configuration_is_wrong_usage(tmp_path: Path, text: str) -> None:
    place = tmp_path / "kubelet.yaml"
    place.write_text(text)
    done = _lab("up", "1s-1n-4c-smt1", "--kubelet", _true(), "--kubelet-config", str(place))
    assert done.returncode == ExitStatus.USAGE
    assert _one_line(done).startswith("not a KubeletConfiguration: ")


def test_without_qemu_nobody_could_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kubelet_path: str
) -> None:
    """And the package that has it is named."""
    monkeypatch.setenv("PATH", str(tmp_path))
    done = _lab("up", "1s-1n-4c-smt1", "--kubelet", kubelet_path)
    assert done.returncode == ExitStatus.COULD_NOT_TELL
    assert _one_line(done) == ("the lab needs qemu-system-x86_64: apt-get install qemu-system-x86")


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
    done = _lab("image")
    assert done.returncode == ExitStatus.COULD_NOT_TELL
    assert _one_line(done) == "the lab needs mmdebstrap: apt-get install mmdebstrap"


def test_an_apt_that_knows_no_debian_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(_apt(tmp_path, ":")))
    done = _lab("image")
    assert done.returncode == ExitStatus.COULD_NOT_TELL
    assert "knows no Debian archive" in _one_line(done)


@pytest.mark.parametrize("command", ["ssh", "down", "reboot"])
def test_a_node_that_is_not_there_is_wrong_usage(command: str) -> None:
    done = _lab(command, "node7")
    assert done.returncode == ExitStatus.USAGE
    assert _one_line(done) == "no lab node is called 'node7'; there are: none"


def test_down_wants_to_know_which() -> None:
    done = _lab("down")
    assert done.returncode == ExitStatus.USAGE
    assert _one_line(done) == "name a node, or give --all"


def test_an_empty_lab_is_an_empty_list() -> None:
    done = _lab("list", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == []
    assert _lab("list").stdout == ""


def test_the_list_tells_what_is_left_over_and_down_removes_it() -> None:
    node = nodes.reserve("half")
    (facts,) = json.loads(_lab("list", "--json").stdout)
    assert (facts["name"], facts["state"], facts["pid"]) == ("half", "left over", None)
    assert _lab("list").stdout.split() == ["half", "left", "over"]
    done = _lab("down", "--all")
    assert done.stdout == "half\n"
    assert not node.folder.exists()
    assert lab.down(everything=True) == []
