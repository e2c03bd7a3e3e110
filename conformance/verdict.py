"""The four verdicts, and the exit status of a run made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import Enum, IntEnum
from typing import Final


class Verdict(Enum):
    """The verdict on one scenario on one machine."""

    PASS = "pass"
    FAIL = "fail"  # the subject broke the promise
    SKIP = "skip"  # the scenario does not apply: the reason says what is missing
    UNKNOWN = "unknown"  # no verdict: the harness, the network or the machine broke


class ExitStatus(IntEnum):
    """The exit status of a command (README.md)."""

    CONFORMANT = 0
    NOT_CONFORMANT = 1
    USAGE = 2
    COULD_NOT_TELL = 3
    TOO_FEW = 4
    NOT_RESTORED = 5


#: The first of these that a part of a run has is the status of the whole.
_WORST_FIRST: Final = (
    *(ExitStatus.NOT_RESTORED, ExitStatus.NOT_CONFORMANT, ExitStatus.USAGE),
    *(ExitStatus.COULD_NOT_TELL, ExitStatus.TOO_FEW, ExitStatus.CONFORMANT),
)


def worst(statuses: Iterable[int]) -> ExitStatus:
    """The status of several parts of a run, or of several runs."""
    return _WORST_FIRST[min(map(_WORST_FIRST.index, statuses))]


def tally(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """How often each verdict occurs; all four are present."""
    return dict.fromkeys(Verdict, 0) | Counter(verdicts)


def exit_status(
    counts: Mapping[Verdict, int], *, floor: int = 1, idle: Collection[str] = ()
) -> ExitStatus:
    """The status of a run: a broken promise outranks ``unknown``, and that outranks too few
    scenarios. Only passes count towards ``floor``, which is at least 1, so that an empty run never
    passes. ``idle`` are the machines that were named and on which no scenario applied; with one of
    them the run has too few scenarios, too."""
    if counts.get(Verdict.FAIL, 0):
        return ExitStatus.NOT_CONFORMANT
    if counts.get(Verdict.UNKNOWN, 0):
        return ExitStatus.COULD_NOT_TELL
    if idle or counts.get(Verdict.PASS, 0) < max(floor, 1):
        return ExitStatus.TOO_FEW
    return ExitStatus.CONFORMANT
