"""Runs of two workers over two nodes made of files: what the nodes are is asked once, and a worker
that cannot begin ends the run with one line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from conformance.subject import SubjectSetupError
from hil.changes import WriteFile
from hil.inspection import NodeFacts
from hil.safety import Allow, Guarded, Risk
from hil.subject import NodeSubject
from tests.cli.running import ran
from tests.support import inner_run
from tests.support.fakenode import CONFIG, FakeNode

#: A plugin: ``local:`` is the node of files of that name. Each question is written down.
_STAND_IN: Final = """\
import os
from functools import partial
from pathlib import Path

import hil.subject
from hil.inspection import gather
from hil.shell import NodeUnreachable
from hil.transport.local import LocalShell

HERE = Path(__file__).parent
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "controller")


def connect(address):
    if WORKER in os.environ.get("WITHOUT_NODES", "").split():
        raise NodeUnreachable(f"{address.name}: it cannot be reached")
    path = f"{HERE}/{address.name}/fake/bin:{os.environ['PATH']}"
    return LocalShell(address.name, environment={**os.environ, "PATH": path})


def asked(shell, **kept):
    with (HERE / "asked").open("a") as file:
        file.write(f"{WORKER} {shell.name} {kept['paths'].manifests}\\n")
    return gather(shell, root=f"{HERE}/{shell.name}", **kept)


hil.subject.connect, hil.subject.gather = connect, asked
"""
_INVENTORY: Final = """\
[[node]]
name = "a"
url = "local:"
[[node]]
name = "b"
url = "local:"
kubelet.manifests = "/etc/kubernetes/manifests"
"""
_PYTEST: Final = ("pytest", "--pyargs", "conformance.suite", "-q", "--pin-subject")
_PINPROOF: Final = ("pinproof", "run", "--subject")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        FakeNode(tmp_path / name, machine="1s-1n-4c-smt2")
    (tmp_path / "stand_in.py").write_text(_STAND_IN)
    (tmp_path / "lab.toml").write_text(_INVENTORY)
    return tmp_path


def _run(words: tuple[str, ...], folder: Path, without: str = "") -> tuple[int, str]:
    """The exit status of a run of a few scenarios, and what it wrote."""
    options = ("node:lab.toml?max-risk=read-only", "-n", "2", "-k", "qos/")
    environment = {
        **inner_run.environment(),
        "PYTEST_PLUGINS": "stand_in",
        "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
        "WITHOUT_NODES": without,
    }
    done = ran(sys.executable, "-m", *words, *options, cwd=folder, env=environment)
    return done.returncode, done.stdout + done.stderr


def test_a_node_is_asked_what_it_is_once_in_a_run(folder: Path) -> None:
    """Before its first scenario, and with what the inventory says of its kubelet."""
    _, written = _run(_PYTEST, folder)
    assert "gw1" in written or "skipped" in written
    asked = (folder / "asked").read_text().splitlines()
    assert asked == ["controller a ", "controller b /etc/kubernetes/manifests"]


def test_a_node_that_another_run_is_changing_is_busy(reachable: FakeNode, facts: NodeFacts) -> None:
    """Whatever it looks like meanwhile."""
    silent = CONFIG.replace("staticPodPath", "staticPodsNot").encode()
    with Guarded(reachable.shell(), facts, Risk.KUBELET_RESTART, "another", allow=Allow) as guarded:
        guarded.change(WriteFile("/var/lib/kubelet/config.yaml", silent))
        with pytest.raises(SubjectSetupError, match="another"):
            NodeSubject.open("local:")
    reachable.file("/var/lib/kubelet/config.yaml", silent.decode())
    with pytest.raises(SubjectSetupError, match="watches no folder of static pods"):
        NodeSubject.open("local:")


@pytest.mark.parametrize("without", ["gw1", "gw0 gw1"])
@pytest.mark.parametrize("words", [_PYTEST, _PINPROOF])
def test_a_worker_that_cannot_begin_ends_the_run_with_one_line(
    folder: Path, words: tuple[str, ...], without: str
) -> None:
    status, written = _run(words, folder, without)
    assert status == 3, written
    assert "a: it cannot be reached" in written
    assert "Traceback" not in written
    assert ".py:" not in written
    assert written.count("cannot be reached") == 1, written
