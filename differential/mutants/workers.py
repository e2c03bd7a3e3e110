"""Processes that witness: each has a driver or a kubelet of its own."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Final, TypeVar

from conformance.subject import SubjectSetupError
from conformance.subjects.kubelet.inside.syscalls import die_with_parent
from differential.mutants.hunt import Outcome, hunt_group
from differential.mutants.witness import (
    CaseName,
    DriverWitness,
    KubeletWitness,
    Passed,
    Said,
)

_T = TypeVar("_T")
_WITNESSES: Final[dict[str, Callable[[Path], DriverWitness | KubeletWitness]]] = {
    "driver": DriverWitness,
    "kubelet": KubeletWitness,
}
_own: list[DriverWitness | KubeletWitness] = []


class Workers:
    """``count`` processes with the program at ``path`` as a witness of the kind ``name``;
    ``niceness`` is added to this process's."""

    def __init__(self, name: str, path: Path, count: int, *, niceness: int = 10) -> None:
        self.name = name
        self._count = count
        # A forked process would share the threads of gRPC.
        self._pool = ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(name, path, niceness),
        )

    def reached(self, cases: Iterable[CaseName]) -> Iterator[tuple[CaseName, Said, Passed]]:
        """What each case says and reaches with no mutant on, as it is known."""
        yield from self._all(_reached, [(case,) for case in cases], math.inf)

    def hunt(
        self, groups: Sequence[tuple[Sequence[int], Sequence[Passed]]], until: float
    ) -> Iterator[list[Outcome]]:
        """The outcomes of groups of mutants, each with the cases that reach it, as they are known.
        After ``until`` (of the monotonic clock) no case is begun."""
        yield from self._all(_hunt, [(*group, until) for group in groups], until)

    def judged(
        self, trials: Iterable[tuple[CaseName, tuple[str, ...]]]
    ) -> Iterator[tuple[CaseName, tuple[str, ...], Said]]:
        """What each case says with these faults on, as it is known."""
        yield from self._all(_judged, list(trials), math.inf)

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=True)

    def _all(
        self, task: Callable[..., _T], arguments: Sequence[tuple[Any, ...]], until: float
    ) -> Iterator[_T]:
        waiting: set[Future[_T]] = set()
        left = list(reversed(arguments))
        while left or waiting:
            while left and len(waiting) < self._count and time.monotonic() < until:
                waiting.add(self._pool.submit(task, *left.pop()))
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for each in done:
                try:
                    yield each.result()
                except BrokenProcessPool as error:
                    raise SubjectSetupError(f"a {self.name} worker died: {error}") from error


def _begin(name: str, path: Path, niceness: int) -> None:
    die_with_parent(signal.SIGKILL)
    os.nice(niceness)
    _own.append(_WITNESSES[name](path))


def _reached(case: CaseName) -> tuple[CaseName, Said, Passed]:
    began = time.monotonic()
    said, numbers = _own[0].reached(case)
    return case, said, Passed(case, round(time.monotonic() - began, 3), numbers)


def _judged(case: CaseName, on: tuple[str, ...]) -> tuple[CaseName, tuple[str, ...], Said]:
    return case, on, _own[0].judge(case, on)


def _hunt(numbers: Sequence[int], passed: Sequence[Passed], until: float) -> list[Outcome]:
    try:
        return hunt_group(numbers, passed, _own[0], until)
    finally:
        _own[0].close()
