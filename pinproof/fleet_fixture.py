"""The fixture ``pinproof_fleet``: fleets for tests of schedulers and agents, by pytest's plugin.

    def test_my_scheduler(pinproof_fleet):
        with pinproof_fleet("2s-4n-64c-smt2=2", "--topology-manager-policy", "restricted") as fleet:
            client = kubernetes.config.new_client_from_config(str(fleet.kubeconfig))

What belongs here: a fleet in a process of its own, which ends with the test's. What never does:
what a fleet is (:mod:`pinproof.fleet`).
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeAlias

import pytest

#: Seconds in which a fleet has to end, before it is killed; it takes two.
_PATIENCE: Final = 60.0
_COUNT: Final = itertools.count(1)


class FleetError(RuntimeError):
    """A fleet did not come up, or one of its commands failed; what ``pinproof`` said of it."""


@dataclass(frozen=True, slots=True)
class RunningFleet:
    """A fleet that is up. ``kubeconfig``: of a user with every right; ``nodes``: the folder of each
    node by its name, as ``pinproof fleet list`` prints it."""

    name: str
    kubeconfig: Path
    nodes: dict[str, Path]

    def call(self, command: str, *words: str) -> str:
        """``pinproof fleet COMMAND`` (stop, start, upgrade, draw, list) for this fleet: its
        standard output. Raises :class:`FleetError`."""
        argv = [*_FLEET, command, *words]
        if command != "list":
            argv += ["--name", self.name]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise FleetError(_last(done.stderr))
        return done.stdout


MakesFleet: TypeAlias = Callable[..., AbstractContextManager[RunningFleet]]

_FLEET: Final = (sys.executable, "-m", "pinproof", "fleet")


@pytest.fixture(scope="session")
def pinproof_fleet() -> MakesFleet:
    """A function that makes fleets. It takes the words of ``pinproof fleet up``, waits until all
    nodes are Ready, and gives a :class:`RunningFleet`; the end of the ``with`` block takes the
    fleet down. Each fleet has a name of its own, so workers may have one each. It raises
    :class:`FleetError` where the fleet does not come up, with the last line that it wrote."""
    return _fleet


@contextmanager
def _fleet(*words: str) -> Iterator[RunningFleet]:
    name = f"pytest-{os.getpid()}-{next(_COUNT)}"
    argv = [*_FLEET, "up", *words, "--name", name, "--until-eof"]
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            kubeconfig = process.stdout.readline().strip()
            if not kubeconfig:
                process.wait()
                raise FleetError(_written(said))
            yield RunningFleet(name, Path(kubeconfig), _nodes(name))
        finally:
            process.stdin.close()
            _await(process)
        if process.returncode:
            raise FleetError(_written(said))


def _await(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()


def _nodes(name: str) -> dict[str, Path]:
    from pinproof.fleet_folder import FleetFolder, facts

    return {one["name"]: Path(one["folder"]) for one in facts(FleetFolder(name))["nodes"]}


def _written(said: IO[str]) -> str:
    said.seek(0)
    return _last(said.read())


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["it wrote nothing"])[-1]
