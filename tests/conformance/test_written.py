"""What is written is read by several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier, BrokenBarrierError
from typing import ClassVar

from conformance.written import made


@dataclass(frozen=True)
class _Met:
    """Whether two of them are made at once."""

    number: int

    meeting: ClassVar = Barrier(2)
    patience: ClassVar = [0.3]
    met: ClassVar[list[bool]] = []

    def __post_init__(self) -> None:
        try:
            self.meeting.wait(*self.patience)
        except BrokenBarrierError:
            self.meeting.reset()
            self.met.append(False)
        else:
            self.met.append(True)


def test_threads_make_a_kind_for_the_first_time_one_after_the_other() -> None:
    """With msgspec 0.22 a process ends in a segmentation fault where they do so at once: two of
    60 in which eight threads made the first view."""

    def make(number: int) -> _Met:
        return made(_Met, {"number": number})

    with ThreadPoolExecutor(2) as pool:
        assert [one.number for one in pool.map(make, range(2))] == [0, 1]
        assert not any(_Met.met)
        _Met.met.clear()
        _Met.patience[:] = [30.0]
        assert [one.number for one in pool.map(make, range(2))] == [0, 1]
        assert _Met.met == [True, True]
