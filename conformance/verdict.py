"""The four verdicts, and the exit status of a run made of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum, IntEnum
from typing import Final


class Verdict(Enum):
    """What is known of one scenario on one machine."""

    PASS = "pass"
    FAIL = "fail"  # the subject broke the promise
    SKIP = "skip"  # the scenario does not apply: the reason says what is missing
    UNKNOWN = "unknown"  # could not tell: the harness, the network or the machine broke


class ExitStatus(IntEnum):
    """What a command's exit status says (README.md)."""

    CONFORMANT = 0
    NOT_CONFORMANT = 1
    USAGE = 2
    COULD_NOT_TELL = 3
    TOO_FEW = 4
    NOT_RESTORED = 5


#: Of a run's parts that end differently.
_WORST_FIRST: Final = (
    *(ExitStatus.NOT_RESTORED, ExitStatus.NOT_CONFORMANT, ExitStatus.USAGE),
    *(ExitStatus.COULD_NOT_TELL, ExitStatus.TOO_FEW, ExitStatus.CONFORMANT),
)


def worst(statuses: Iterable[int]) -> ExitStatus:
    """The status of several parts of a run, or of several runs."""
    return _WORST_FIRST[min(map(_WORST_FIRST.index, statuses))]


def tally(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """How often each verdict occurs; all four are present."""
    counts = dict.fromkeys(Verdict, 0)
    for verdict in verdicts:
        counts[verdict] += 1
    return counts


def exit_status(
    counts: Mapping[Verdict, int], *, floor: int = 1, idle: Collection[str] = ()
) -> ExitStatus:
    """The status of a run: a broken promise outranks ``unknown``, and that outranks having run
    too little. Only passes and failures count against ``floor``, which is at least 1,
    so that green but empty is impossible; ``idle`` are the machines that were named and on
    which no scenario applied, and one of them is too little as well."""
    if counts.get(Verdict.FAIL, 0):
        return ExitStatus.NOT_CONFORMANT
    if counts.get(Verdict.UNKNOWN, 0):
        return ExitStatus.COULD_NOT_TELL
    if idle or counts.get(Verdict.PASS, 0) < max(floor, 1):
        return ExitStatus.TOO_FEW
    return ExitStatus.CONFORMANT
