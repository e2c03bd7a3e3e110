"""Scenarios of one node stay in one process: two cannot have it at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

import conformance.suite
from conformance.results import Result, read
from tests.cli.running import python
from tests.support import inner_run

MACHINES = ("1s-1n-2c-smt1", "1s-1n-4c-smt1", "1s-1n-4c-smt2")
#: The model stands in for nodes: what is tested is who runs what.
_NODES: Final = "import conformance.plugin\nconformance.plugin.REAL = 'reference'\n"


@pytest.mark.parametrize("workers", ["2", "3"])
def test_a_node_belongs_to_one_worker(workers: str, tmp_path: Path) -> None:
    seen = _workers_by_machine(tmp_path, workers, _NODES)
    assert {machine: len(some) for machine, some in seen.items()} == dict.fromkeys(MACHINES, 1)
    assert len(set.union(*seen.values())) == int(workers)


def _workers_by_machine(folder: Path, workers: str, plugin: str) -> dict[str, set[str]]:
    (folder / "as_nodes.py").write_text(plugin)
    stream = folder / "stream.jsonl"
    machines = [word for name in MACHINES for word in ("--pin-machine", name)]
    python(
        *("-m", "pytest", "--pyargs", "conformance.suite", "-q", "-n", workers, "-p", "as_nodes"),
        *("--pin-subject", "reference", *machines, "-k", "config or smoke"),
        *("--pin-stream", str(stream)),
        cwd=folder,
        status=0,
        PYTHONPATH=os.pathsep.join([str(folder), *filter(None, sys.path)]),
    )
    found: dict[str, set[str]] = defaultdict(set)
    for record in read(stream):
        if isinstance(record, Result):
            found[record.machine.name].add(record.worker)
    return found


#: A model whose nodes wait, as far as the suite is told, and which notes who began what.
_WAITING: Final = """
import os, pathlib
from conformance.session import ahead
from conformance.subjects.reference import ReferenceSubject
ReferenceSubject.at_a_time = 2
ReferenceSubject.interrupt = lambda self: None
begin, asked = ahead.Ahead._begin, ahead.Ahead.judgement
def noted(what, do):
    def both(self, case):
        with pathlib.Path(__file__).with_name(f"{what}-{os.getpid()}").open("a") as file:
            file.write(f"{case.id}\\n") if what == "asked" or case.id not in self._begun else None
        return do(self, case)
    return both
ahead.Ahead._begin = noted("begun", begin)
ahead.Ahead.judgement = noted("asked", asked)
"""


def test_what_is_no_node_is_dealt_out(tmp_path: Path) -> None:
    """Each worker begins what it was given, and no case is begun in vain. A node's cases that were
    dealt out would be seen as well."""
    seen = _workers_by_machine(tmp_path, "2", _WAITING)
    assert max(map(len, seen.values())) == 2
    assert len(list(tmp_path.glob("begun-*"))) == 2
    begun, asked = (
        [case for path in tmp_path.glob(f"{what}-*") for case in path.read_text().split()]
        for what in ("begun", "asked")
    )
    assert sorted(begun) == sorted(asked)
    assert len(set(begun)) == len(begun)


#: Workers whose controller is gone when they tell it of their end.
_DEAF: Final = """
import pytest

import conformance.suite
def deaf(send):
    def sendevent(name, **more):
        send(name, **more)
        if name == "workerfinished":
            raise OSError("cannot send (already closed?)")
    return sendevent
def pytest_sessionstart(session):
    for plugin in session.config.pluginmanager.get_plugins():
        if hasattr(plugin, "torun"):
            plugin.sendevent = deaf(plugin.sendevent)
"""


def test_a_worker_that_cannot_tell_of_its_end_is_quiet(tmp_path: Path) -> None:
    """As after SIGTERM to the first process; the advice is about xdist's own hook."""
    (tmp_path / "deaf.py").write_text(_DEAF)
    suite = Path(conformance.suite.__file__).with_name("test_scenarios.py")
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", str(suite), "-c", "/dev/null", "-n", "2", "-q"),
            *("-p", "deaf", "--pin-machine", "1s-1n-4c-smt2", "-k", "config/"),
        ],
        env={**inner_run.environment(), "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,  # the checkout's own modules would hide the installed ones
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert " passed" in ended.stdout, ended.stdout + ended.stderr
    assert "PluggyTeardownRaisedWarning" not in ended.stdout + ended.stderr
