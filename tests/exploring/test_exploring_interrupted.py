"""An exploration that is interrupted while it shrinks ends soon, and tells what it found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

import reports
from conformance.pods import best_effort, guaranteed
from hunting.exploring.history import History, history_at
from hunting.exploring.plan import write_plan
from hunting.scope import Task
from reference import CPUSet
from reference.steps import Apply, Delete, KubeletConfig, Start, Step

#: A subject of another package, which forgets to give back. From its fourth node on, which is the
#: first of those that shrinking takes, each step takes 0.4 s. The nodes of ``several`` may be taken
#: away, as those of a kubelet in a sandbox.
_SLOW: Final = """
import threading
from conformance.subject import SubjectLostError
from conformance.subjects.miniatures import miniature
from conformance.subjects.reference import ModelNode, ReferenceSubject

class SlowNode(ModelNode):
    def __init__(self, node, gone, takes):
        self._within, self._gone, self._takes = node, gone, takes

    def __getattr__(self, name):
        return getattr(self._within, name)

    def do(self, step):
        if self._gone.wait(self._takes):
            raise SubjectLostError("the node was taken away")
        self._within.do(step)

    view = lambda self: self._within.view()
    settle = lambda self, satisfied: self._within.settle(satisfied)

class Slow(ReferenceSubject):
    def __init__(self):
        self._inner = miniature("forgets-to-give-back")
        self.info, self._gone = self._inner.info, threading.Event()

    def node(self, machine, config, *, machines):
        with open("nodes", "a") as file:
            file.write(".")
            takes = 0.4 if file.tell() > 3 else 0.0
        return SlowNode(self._inner.node(machine, config, machines=machines), self._gone, takes)

class Several(Slow):
    at_a_time = 2

    def interrupt(self):
        self._gone.set()

def opened(rest, progress):
    return Several() if rest == "several" else Slow()
"""
#: Shared pods that have no part in the difference.
_NEEDLESS: Final = 10
#: Seconds; shrinking alone takes 60 if nobody interrupts it. A busy host may need some to write.
_SOON: Final = 30.0


@pytest.mark.parametrize(
    ("sign", "how", "how_many"), [(signal.SIGINT, "one", "1"), (signal.SIGTERM, "several", "2")]
)
def test_an_interrupt_ends_the_shrinking(
    tmp_path: Path, sign: int, how: str, how_many: str
) -> None:
    """The cause is told as it was found, and its history differs when it is walked again."""
    history = _long_history()
    write_plan([history], "1.36", tmp_path / "plan.json")
    words = ["explore", f"slow:{how}", "--plan", "plan.json", "-n", how_many]
    with subprocess.Popen(
        [sys.executable, "-m", "pinproof", *words, "--report", "out"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": _package(tmp_path)},
    ) as running:  # fmt: skip
        _wait_for_shrinking(tmp_path / "nodes", running)
        began = time.monotonic()
        running.send_signal(sign)
        said, noted = running.communicate(timeout=120)
    assert time.monotonic() - began < _SOON
    assert running.returncode == 1, noted
    assert "interrupted; what was found is kept, --resume goes on" in noted
    assert "cause 1: out/causes/1" in noted
    assert "Traceback" not in noted
    assert "shared pool" in said
    every = reports.load(tmp_path / "out/result.jsonl", ended=1).results
    assert [(one.scenario, one.verdict) for one in every] == [("explored/plan-1", "fail")]
    story = (tmp_path / "out/causes/1/story.txt").read_text()
    assert "delete pod a   <-- here" in story
    assert history_at(tmp_path / "out/causes/1/history.json").taken == history.taken


def _long_history() -> History:
    config = KubeletConfig(reserved_system_cpus=CPUSet([0]))
    needless = [Apply(best_effort(f"s{number}")) for number in range(_NEEDLESS)]
    steps: tuple[Step, ...] = (Start(), *needless, Apply(guaranteed("a", 1)), Delete("a"))
    return History.of(Task("1.36", "1s-1n-4c-smt2", config), steps)


def _package(folder: Path) -> str:
    """The path of a package with the subject, as if it were installed."""
    found = folder / "slow_subject-1.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-subject\nVersion: 1\n")
    (found / "entry_points.txt").write_text("[pinproof.subjects]\nslow = slow_subject:opened\n")
    (folder / "slow_subject.py").write_text(_SLOW)
    return str(folder)


def _wait_for_shrinking(nodes: Path, running: subprocess.Popen[str]) -> None:
    """The first node was for the smoke test, and two have walked the whole history."""
    end = time.monotonic() + 300
    while not nodes.exists() or nodes.stat().st_size < 4:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)
    time.sleep(0.5)
