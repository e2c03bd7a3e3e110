"""A campaign with several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from conformance.promises import PROMISES
from conformance.subject import SubjectError
from hunting.campaign import FILE, Campaign, Header, Shard, read
from hunting.processes import Processes, SearchOptions
from tests.support.until import content, until

_LONG = ("--release", "1.37", "--cpus", "8", "--depth", "4", "--alpha", "--seed", "7")


def _campaign(folder: Path, *moves: str) -> Campaign:
    machines = ["1s-1n-2c-smt2", "1s-1n-3c-smt1"]
    header = Header(release="1.37", machines=machines, depth=1, moves=list(moves))
    return Campaign(header, Shard(), folder)


@pytest.mark.parametrize("moves", [(), ("down",)])
def test_two_processes_find_what_one_does(tmp_path: Path, moves: tuple[str, ...]) -> None:
    """As many steps, states and broken promises, whatever moves are on; and nothing is left for a
    third campaign."""
    one, two = _campaign(tmp_path / "one", *moves), _campaign(tmp_path / "two", *moves)
    list(one.run())
    found = list(two.run(jobs=2))
    assert two.is_done
    assert one.done == two.done
    assert (one.tally.steps, one.tally.states) == (two.tally.steps, two.tally.states)
    assert {find.key: find.met for find in one.finds} == {find.key: find.met for find in two.finds}
    assert {find.key for find in found} == {find.key for find in one.finds}
    _, done, finds = read(tmp_path / "two" / FILE)
    assert len(done) == len(one.done)
    assert {find.key for find in finds} == {find.key for find in found}
    assert list(_campaign(tmp_path / "two", *moves).run(jobs=2)) == []


def test_a_process_that_dies_ends_the_campaign(tmp_path: Path) -> None:
    """In one line, and the others with it."""
    work = _campaign(tmp_path)._tasks
    with Processes(2, SearchOptions(1, (), blind=False)) as running:
        every = list(running._running.values())
        every[0].kill()
        every[0].join()
        with pytest.raises(SubjectError, match="has ended with status -9"):
            list(running.search(work))
    assert not any(one.is_alive() for one in every)


def _members(group: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(session) == group and state != "Z":
                found.append(int(stat.parent.name))
    return found


@contextmanager
def _hunt(
    folder: Path, *options: str, shown: bytes = b'"kind":"find"'
) -> Iterator[subprocess.Popen[str]]:
    """A long hunt by two processes in a session of its own, which has written what is ``shown``."""
    words = ("hunt", *_LONG, *options, "-n", "2", "--report", str(folder))
    hunt = subprocess.Popen(
        [sys.executable, "-m", "pinproof", *words],
        start_new_session=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        kept = folder / FILE
        assert until(lambda: shown in content(kept)), "not written"
        assert until(lambda: len(_members(hunt.pid)) > 2), "no process was started"
        yield hunt
    finally:
        with suppress(ProcessLookupError):
            os.killpg(hunt.pid, signal.SIGKILL)
        hunt.communicate()


def test_an_interrupt_keeps_the_finds_and_leaves_no_process(tmp_path: Path) -> None:
    """As with one process."""
    with _hunt(tmp_path / "hunt") as hunt:
        os.killpg(hunt.pid, signal.SIGINT)
        said, errors = hunt.communicate(timeout=60)
        assert "interrupted; what was found is kept" in errors
        assert "Traceback" not in errors
        assert hunt.returncode == 1, said
        assert until(lambda: not _members(hunt.pid)), "a process is left"
    assert read(tmp_path / "hunt" / FILE)[2]


def test_an_interrupt_before_the_first_find_is_no_verdict(tmp_path: Path) -> None:
    """Exit status 3."""
    every = [word for one in PROMISES for word in ("--ignore", one.id)]
    with _hunt(tmp_path / "hunt", *every, shown=b'"kind":"header"') as hunt:
        os.killpg(hunt.pid, signal.SIGINT)
        _, errors = hunt.communicate(timeout=60)
        assert "interrupted; what was found is kept" in errors
        assert hunt.returncode == 3


def test_no_process_outlives_a_campaign_that_is_killed(tmp_path: Path) -> None:
    """They see that it is gone between two states."""
    with _hunt(tmp_path / "hunt") as hunt:
        hunt.kill()
        assert until(lambda: not _members(hunt.pid), 20.0), "a process is left"
