"""Trying named faults: each alone on the scenarios that must catch it, and many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

import msgspec

from conformance.catalogue import find
from conformance.verdict import Verdict
from differential.mutants.witness import CaseName, Said, is_caught
from differential.named_faults.faults import Fault


class Tried(msgspec.Struct, frozen=True):
    """One fault on one case: the verdict, the rule that was broken or why there is no verdict, and
    the differences. ``driver``: the case fails on the driver as well."""

    fault: str
    case: CaseName
    verdict: str
    rule: str
    seen: str = ""
    driver: bool = False

    @property
    def caught(self) -> bool:
        return self.verdict == Verdict.FAIL.value

    @property
    def has_verdict(self) -> bool:
        return self.verdict in (Verdict.FAIL.value, Verdict.PASS.value)


Trial: TypeAlias = tuple[CaseName, tuple[str, ...]]


class Judges(Protocol):
    """Witnesses that judge cases with faults on."""

    def judged(
        self, trials: Iterable[Trial]
    ) -> Iterator[tuple[CaseName, tuple[str, ...], Said]]: ...


def alone(faults: Sequence[Fault], judges: Judges, tell: Callable[[Tried], None]) -> list[Tried]:
    """Try each fault that is not allowed alone on each case that must catch it; ``tell`` gets each
    as it is known. In the end each case that failed is tried with no fault on. If it does not pass
    then, there is no verdict."""
    real = (one for one in faults if not one.allowed)
    trials = [(case, (one.name,)) for one in real for case in one.cases(_machine_of)]
    tried: list[Tried] = []
    for each in _tried(trials, judges):
        tell(each)
        tried.append(each)
    unsound = dict(_unsound((each for each in tried if each.caught), judges))
    for at, each in enumerate(tried):
        if each.caught and each.case in unsound:
            reason = f"without a fault the case does not pass either: {unsound[each.case]}"
            tried[at] = Tried(each.fault, each.case, Verdict.UNKNOWN.value, reason)
            tell(tried[at])
    return tried


def _unsound(tried: Iterable[Tried], judges: Judges) -> Iterator[tuple[CaseName, str]]:
    """The cases that do not pass with no fault on, and why."""
    cases = dict.fromkeys(one.case for one in tried)
    for case, _, said in judges.judged([(each, ()) for each in cases]):
        if said.verdict != Verdict.PASS.value:
            yield case, said.reason


def together(
    faults: Sequence[Fault], cases: Iterable[CaseName], judges: Judges
) -> Iterator[tuple[CaseName, Said]]:
    """Try every case with all of these faults on."""
    names = tuple(one.name for one in faults)
    for case, _, said in judges.judged([(case, names) for case in cases]):
        yield case, said


def accused(
    faults: Sequence[Fault],
    cases: Iterable[CaseName],
    judges: Judges,
    tell: Callable[[CaseName, Said], None],
) -> list[Tried]:
    """Try allowed changes all at once on every case; returns those for which alone a case fails
    that passes with none on. ``tell`` gets each case as it is known."""
    suspects: list[CaseName] = []
    for case, said in together(faults, cases, judges):
        tell(case, said)
        if is_caught(said):
            suspects.append(case)
    single = [(case, (one.name,)) for case in suspects for one in faults]
    failed = [tried for tried in _tried(single, judges) if tried.caught]
    unsound = dict(_unsound(failed, judges))
    return [tried for tried in failed if tried.case not in unsound]


def _tried(trials: Iterable[Trial], judges: Judges) -> Iterator[Tried]:
    for case, (name, *_), said in judges.judged(trials):
        yield Tried(name, case, said.verdict, said.reason, said.seen)


def _machine_of(scenario: str) -> str:
    found = find(scenario)
    return found.machine if found is not None else ""
