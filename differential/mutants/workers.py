"""Processes that witness: each has a driver or a kubelet of its own."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from conformance.processes import Lost, Processes
from conformance.subject import SubjectSetupError
from conformance.subjects.kubelet.inside.syscalls import die_with_parent
from differential.mutants.hunt import Outcome, hunt_group
from differential.mutants.witness import CaseName, DriverWitness, KubeletWitness, Passed, Said

_T = TypeVar("_T")
_Witness: TypeAlias = DriverWitness | KubeletWitness
_WITNESSES: Final[dict[str, Callable[[Path], _Witness]]] = {
    "driver": DriverWitness,
    "kubelet": KubeletWitness,
}
#: A function that takes a witness first, and its other arguments.
_Work: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]


class Workers:
    """``count`` processes with the program at ``path`` as a witness of the kind ``name``;
    ``niceness`` is added to this process's."""

    def __init__(self, name: str, path: Path, count: int, *, niceness: int = 10) -> None:
        self.name = name
        self._processes: Processes[_Work, Any] = Processes(count, _begun, (name, path, niceness))
        self._processes.__enter__()

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
        self._processes.__exit__()

    def _all(
        self, task: Callable[..., _T], arguments: Sequence[tuple[Any, ...]], until: float
    ) -> Iterator[_T]:
        work = [(task, given) for given in arguments]
        for _, answer in self._processes.do(work, until=until):
            if isinstance(answer, Lost):
                raise SubjectSetupError(f"a {self.name} worker {answer.why}")
            yield answer


@contextmanager
def _begun(name: str, path: Path, niceness: int) -> Iterator[Callable[[_Work], Any]]:
    die_with_parent(signal.SIGKILL)
    os.nice(niceness)
    with closing(_WITNESSES[name](path)) as witness:
        yield lambda work: work[0](witness, *work[1])


def _reached(witness: _Witness, case: CaseName) -> tuple[CaseName, Said, Passed]:
    began = time.monotonic()
    said, numbers = witness.reached(case)
    return case, said, Passed(case, round(time.monotonic() - began, 3), numbers)


def _judged(
    witness: _Witness, case: CaseName, on: tuple[str, ...]
) -> tuple[CaseName, tuple[str, ...], Said]:
    return case, on, witness.judge(case, on)


def _hunt(
    witness: _Witness, numbers: Sequence[int], passed: Sequence[Passed], until: float
) -> list[Outcome]:
    with closing(witness):
        return hunt_group(numbers, passed, witness, until)
