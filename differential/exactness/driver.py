"""The process that runs the Go code: started again where it was lost, and kept busy.

What belongs here: which program is asked, and how many cases are under way. What never does: what
is asked (``walk``).
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from conformance.subject import SubjectLostError
from conformance.subjects.exec import wire
from conformance.subjects.exec.program import Program, Starved
from differential.exactness.cases import Case
from differential.exactness.script import (
    Difference,
    Script,
    compare,
    first_difference,
    lost,
    make_sure_it_hangs,
)
from differential.exactness.walk import Model

#: Seconds for one answer of the Go code, which takes a minute of processor time on 16 NUMA nodes.
_PATIENCE: Final = 900.0
_HANG_PATIENCE: Final = 3.0
#: How many cases are sent ahead: meanwhile the model walks the next.
_AHEAD: Final = 6
#: Of the driver's Go runtime. Every case leaves garbage; collecting it as rarely as this saves the
#: driver a third of its time. The model walks on the other processor.
_SETTINGS: Final = {"GOGC": "1000", "GOMEMLIMIT": "400MiB", "GOMAXPROCS": "1"}


class Driver:
    """The driver of a release. ``hang_patience``: seconds without an answer after which it counts
    as hanging."""

    def __init__(self, path: Path, *, hang_patience: float = _HANG_PATIENCE) -> None:
        self._path = path
        self._hang_patience = hang_patience
        self._program: Program | None = None
        self._under_way: deque[_UnderWay] = deque()

    def compare(self, case: Case) -> tuple[Difference | None, Script]:
        """The first difference in a case, and the script that was walked."""
        script = Model(case).script()
        if self._under_way:  # answers that :meth:`walk` does not wait for any more
            self.close()
            self._under_way.clear()
        return compare(script, self._ready()), script

    def make_sure_it_hangs(self, case: Case) -> tuple[Difference | None, Script]:
        """As :meth:`compare` of a case that ends with a kubelet that hangs, by another program. One
        that had no processor shows nothing, and the next one is given ten times as long. Raises
        :class:`Starved` where a hundred times was too short, too."""
        script, patience = Model(case).script(), self._hang_patience
        while True:
            try:
                with contextlib.closing(self._launch()) as program:
                    return make_sure_it_hangs(script, program, patience), script
            except Starved:
                if patience >= 100 * self._hang_patience:
                    raise
                patience *= 10

    def walk(self, cases: Iterable[Case]) -> Iterator[tuple[Case, Difference | None, Script]]:
        """Each case with what :meth:`compare` finds, several of them under way at a time. A call of
        :meth:`compare` ends it. Raises :class:`Starved` where two programs had no processor for one
        case."""
        for case in cases:
            self._under_way.append(self._sent(case))
            if len(self._under_way) > _AHEAD:
                yield self._answered(self._under_way.popleft())
        while self._under_way:
            yield self._answered(self._under_way.popleft())

    def close(self) -> None:
        if self._program is not None:
            self._program.close()

    def _sent(self, case: Case) -> _UnderWay:
        script = Model(case).script()
        requests = script.requests()
        program = self._ready()
        with contextlib.suppress(SubjectLostError):  # reported where its answers are missing
            program.send(requests)
        return _UnderWay(case, script, requests, program)

    def _answered(self, one: _UnderWay) -> tuple[Case, Difference | None, Script]:
        if not one.program.lost:
            try:
                answers = one.program.receive(one.requests)
                return one.case, first_difference(one.script, answers), one.script
            except Starved:
                pass
            except SubjectLostError as error:
                return one.case, lost(error), one.script
        # The program was lost with an earlier case, or had no processor: a new one is asked.
        with contextlib.closing(self._launch()) as program:
            return one.case, compare(one.script, program), one.script

    def _ready(self) -> Program:
        if self._program is None or self._program.lost:
            self._program = self._launch()
        return self._program

    def _launch(self) -> Program:
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        return Program("driver", [str(self._path)], patience=_PATIENCE)


class _UnderWay(NamedTuple):
    """A case whose answers are still to come."""

    case: Case
    script: Script
    requests: list[wire.Request]
    program: Program
