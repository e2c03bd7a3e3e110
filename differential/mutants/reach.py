"""What each case reaches in a program with no mutant on, kept in a file from run to run.

What belongs here: which cases have to be tried again, and when the program counts as wrong. What
never does: how a case is run (``witness``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from conformance.subject import SubjectError
from conformance.verdict import Verdict
from differential.mutants.witness import CaseName, Passed, Said, scenario_digest

#: How often a case that does not pass is tried again: a kubelet on a busy host may be late.
_RETRIES: Final = 2


class Reaching(Protocol):
    """Workers that run cases with no mutant on."""

    name: str

    def reached(self, cases: Iterable[CaseName]) -> Iterator[tuple[CaseName, Said, Passed]]:
        """What each case says and reaches, as it is known."""


class _Line(msgspec.Struct, frozen=True):
    """``digest``: of the scenario at that time; ``passed``: ``None`` where the case was skipped."""

    case: CaseName
    digest: str
    passed: Passed | None


def cases_that_pass(
    workers: Reaching, wanted: Sequence[CaseName], path: Path, tell: Callable[[str], None]
) -> list[Passed]:
    """The cases that the program passes with no mutant on. Those whose scenario has not changed are
    taken from the file ``path``. A case that gives no verdict is left out. Raises
    :class:`SubjectError` where one fails: the program does not behave like the released one."""
    kept = _read(path)
    digests = {case: scenario_digest(case.scenario) for case in wanted}
    todo = [case for case in wanted if (case, digests[case]) not in kept]
    for _ in range(1 + _RETRIES):
        odd: dict[CaseName, Said] = {}
        for number, (case, said, each) in enumerate(workers.reached(todo), 1):
            if said.verdict not in (Verdict.PASS.value, Verdict.SKIP.value):
                odd[case] = said
                continue
            found = each if said.verdict == Verdict.PASS.value else None
            with path.open("ab") as stream:
                stream.write(msgspec.json.encode(_Line(case, digests[case], found)) + b"\n")
            if number % 20 == 0:
                tell(f"{workers.name}: {number} of {len(todo)} cases with no fault on")
        todo = list(odd)
        if not todo:
            break
    _judge_odd(workers.name, odd, tell)
    return cases_kept(wanted, path)


def cases_kept(wanted: Iterable[CaseName], path: Path) -> list[Passed]:
    """The cases, of those wanted, that the file ``path`` has as passed with their present
    scenarios."""
    kept = _read(path)
    found = [kept.get((case, scenario_digest(case.scenario))) for case in wanted]
    return [each for each in found if each is not None]


def _judge_odd(name: str, odd: dict[CaseName, Said], tell: Callable[[str], None]) -> None:
    wrong = [
        f"{case}: {said.verdict}: {said.reason}"
        for case, said in odd.items()
        if said.verdict == Verdict.FAIL.value
    ]
    if wrong:
        raise SubjectError(f"with no fault on the {name} does not pass: {'; '.join(wrong)}")
    for case, said in odd.items():
        tell(f"{name}: left out, since it gives no verdict: {case}: {said.reason}")


def _read(path: Path) -> dict[tuple[CaseName, str], Passed | None]:
    if not path.is_file():
        return {}
    # What lies behind the last newline was cut off, or is empty.
    lines = path.read_bytes().split(b"\n")[:-1]
    found = [msgspec.json.decode(line, type=_Line) for line in lines]
    return {(one.case, one.digest): one.passed for one in found}
