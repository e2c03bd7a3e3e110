"""Processes that do tasks: those that die, hang, raise, and are left while they are at work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from conformance import processes
from conformance.processes import Lost, Processes


@contextmanager
def _begun(folder: Path) -> Iterator[Callable[[str], str]]:
    """Leaves a file when it is given back."""
    try:
        yield _done
    finally:
        (folder / str(os.getpid())).touch()


def _done(task: str) -> str:
    if task == "die":
        os._exit(3)
    if task == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if task == "sleep":
        time.sleep(600)
    if task == "raise":
        raise ValueError("it cannot be")
    return task.upper()


@contextmanager
def _failing(why: str) -> Iterator[Callable[[str], str]]:
    if why:
        raise OSError(why)
    yield _done


def _at_work(folder: Path, count: int) -> Processes[str, str]:
    return Processes(count, _begun, (folder,))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that hangs is not waited for as long."""
    monkeypatch.setattr(processes, "_ENDS", 4.0)


def test_every_task_is_done_and_what_is_held_is_given_back(tmp_path: Path) -> None:
    """By each process, before the context is left."""
    tasks = [f"t{number}" for number in range(5)]
    with _at_work(tmp_path, 2) as made:
        pids = {str(one.pid) for one in made._running.values()}
        assert sorted(made.do(tasks)) == [(one, one.upper()) for one in tasks]
        assert list(made.do(["more"])) == [("more", "MORE")]
    assert {one.name for one in tmp_path.iterdir()} == pids


def test_no_task_begins_after_the_time(tmp_path: Path) -> None:
    """It is not lost either."""
    with _at_work(tmp_path, 1) as made:
        assert list(made.do(["a"], until=time.monotonic() - 1)) == []


@pytest.mark.parametrize(
    ("task", "why"), [("die", "has died"), ("stop", "has not answered for 2 s")]
)
def test_one_process_that_goes_wrong_loses_its_task_alone(
    task: str, why: str, tmp_path: Path
) -> None:
    """The other process does the rest."""
    with _at_work(tmp_path, 2) as made:
        list(made.do(["both", "have begun"]))
        found = dict(made.do([task, "a", "b", "c"], patience=2))
    assert found == {task: Lost(why), "a": "A", "b": "B", "c": "C"}


def test_without_a_process_the_rest_is_lost(tmp_path: Path) -> None:
    """In this search, and in a later one."""
    with _at_work(tmp_path, 1) as made:
        assert list(made.do(["die", "a"])) == [("die", Lost("has died")), ("a", Lost("has died"))]
        assert list(made.do(["b"])) == [("b", Lost("has died"))]


def test_a_process_that_cannot_begin_has_died() -> None:
    """Whatever it raised, which is on stderr."""
    with Processes[str, str](1, _failing, ("no such subject",)) as made:
        assert list(made.do(["a"])) == [("a", Lost("has died"))]


def test_what_a_task_raises_is_raised(tmp_path: Path) -> None:
    """A fault of the program is not a lost task."""
    with _at_work(tmp_path, 1) as made, pytest.raises(ValueError, match="it cannot be"):
        list(made.do(["raise"]))


@pytest.mark.parametrize(("task", "state", "give_back"), [("sleep", "S", 2), ("stop", "T", 1)])
def test_leaving_ends_processes_that_are_at_work(
    task: str, state: str, give_back: int, tmp_path: Path
) -> None:
    """Also one that is stopped, which hears nothing but a kill; the others give back."""
    with _at_work(tmp_path, 2) as made:
        at_work = made.do(["a", "b", task])
        for _ in range(2):
            assert next(at_work)[1] in {"A", "B"}
        processes = [one.pid for one in made._running.values()]
        until = time.monotonic() + 20
        while state not in map(_state, processes) and time.monotonic() < until:
            time.sleep(0.05)
        began = time.monotonic()
    assert time.monotonic() - began < 20
    assert not any(map(_state, processes))
    assert len(list(tmp_path.iterdir())) == give_back


def _state(pid: int | None) -> str:
    """As the kernel has it: S sleeping, T stopped; nothing where there is no such process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def test_other_processes_are_left_alone(tmp_path: Path) -> None:
    """Of the same program."""
    with _at_work(tmp_path / "none", 1) as other:
        with _at_work(tmp_path, 1) as made:
            assert list(made.do(["stop"], patience=2)) == [
                ("stop", Lost("has not answered for 2 s"))
            ]
        assert all(one.is_alive() for one in other._running.values())
