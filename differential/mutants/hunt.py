"""Which case catches which mutant.

A case is only tried on the mutants whose places it reaches, and the first ``fail`` ends it. Cases
that try most mutants a second come first: of a single mutant, the quickest. On a slow witness
mutants go in groups: a case that passes with a whole group on has caught none of them; one that
does not is tried on halves until single mutants are found. Only what fails with one mutant alone on
counts as caught, and where a busy host could make a case fail (``wavers``), only if the case passes
right after with none on. Mutants of a group may hide one another, so a group can only make the
score smaller.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from conformance.verdict import Verdict
from differential.mutants.witness import CaseName, Passed, Said, Witness, is_caught

CAUGHT: Final = "caught"
SURVIVED: Final = "survived"
#: No verdict in time, or none at all, in at least one case, and no ``fail`` in any.
UNTOLD: Final = "timed out"
NOT_REACHED: Final = "not reached"
#: The mutant survived the driver, and the kubelet has not been tried on it.
OPEN: Final = "open"

#: Seconds that every shorter case counts as.
_SHORTEST: Final = 0.01


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one mutant. ``case`` is the one that caught it, or gave no verdict; ``tried``
    is the number of cases that were tried on it; ``group`` the size of its group."""

    number: int
    status: str
    witness: str = ""
    case: CaseName | None = None
    reason: str = ""
    tried: int = 0
    group: int = 1


def hunt(number: int, passed: Iterable[Passed], witness: Witness) -> Outcome:
    """Try one mutant on every case that reaches it, until it is caught."""
    (outcome,) = hunt_group([number], passed, witness)
    return outcome


def hunt_group(
    numbers: Sequence[int], passed: Iterable[Passed], witness: Witness, until: float = math.inf
) -> list[Outcome]:
    """Try mutants together on every case that reaches any of them; cases that try most mutants a
    second come first. After ``until`` (of the monotonic clock) no case is begun, and the mutants
    that are left stay open."""
    hunter = _Hunter(numbers, witness)
    for each in most_telling(numbers, passed):
        if not hunter.left:
            break
        if time.monotonic() > until:
            return hunter.outcomes(OPEN)
        hunter.use(each)
    return hunter.outcomes(SURVIVED)


class _Hunter:
    def __init__(self, numbers: Sequence[int], witness: Witness) -> None:
        self.left = list(numbers)
        self._all = list(numbers)
        self._witness = witness
        self._found: dict[int, Outcome] = {}
        self._untold: dict[int, Outcome] = {}
        self._tried = dict.fromkeys(numbers, 0)

    def use(self, each: Passed) -> None:
        """Try one case on the mutants that are left and that it reaches."""
        reached = set(each.reached)
        on = [number for number in self.left if number in reached]
        if on:
            for number in on:
                self._tried[number] += 1
            self._split(each.case, on)
            self.left = [number for number in self.left if number not in self._found]

    def _split(self, case: CaseName, on: Sequence[int]) -> None:
        said = self._witness.judge(case, on)
        if said.verdict == Verdict.PASS.value:
            return
        if len(on) == 1:
            if is_caught(said) and self._witness.wavers:
                said = self._confirmed(case, said)
            self._note(case, on[0], said)
            return
        half = len(on) // 2
        self._split(case, on[:half])
        self._split(case, on[half:])

    def _confirmed(self, case: CaseName, said: Said) -> Said:
        """The verdict, if the case passes right now with no mutant on."""
        now = self._witness.judge(case, ())
        if now.verdict == Verdict.PASS.value:
            return said
        return Said(
            Verdict.UNKNOWN.value, f"without a fault the case does not pass either: {now.reason}"
        )

    def _note(self, case: CaseName, number: int, said: Said) -> None:
        status = CAUGHT if is_caught(said) else UNTOLD
        outcome = Outcome(
            number, status, self._witness.name, case, said.reason, group=len(self._all)
        )
        if is_caught(said):
            self._found[number] = outcome
        else:
            self._untold.setdefault(number, outcome)

    def outcomes(self, left: str) -> list[Outcome]:
        """The outcome of each mutant; ``left`` is the status of those without one."""
        blank = [
            Outcome(number, left, self._witness.name, group=len(self._all)) for number in self._all
        ]
        untold = self._untold if left == SURVIVED else {}
        return [
            msgspec.structs.replace(
                self._found.get(one.number) or untold.get(one.number) or one,
                tried=self._tried[one.number],
            )
            for one in blank
        ]


def reaching(numbers: Iterable[int], passed: Iterable[Passed]) -> list[Passed]:
    """The cases that reach any of these mutants."""
    wanted = set(numbers)
    return [each for each in passed if wanted & set(each.reached)]


def most_telling(numbers: Iterable[int], passed: Iterable[Passed]) -> list[Passed]:
    """Cases by how many of these mutants they try a second, most first."""
    wanted = set(numbers)

    def cost(each: Passed) -> float:
        return max(each.seconds, _SHORTEST) / (len(wanted & set(each.reached)) or _SHORTEST)

    return sorted(passed, key=cost)
