"""Which case is tried on which mutant, and ``python -m differential.mutants``, with witnesses that
are no programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypeAlias

import pytest

from conformance.kubelets.releases import Version
from differential.mutants import __main__ as command
from differential.mutants.hunt import (
    CAUGHT,
    NOT_REACHED,
    OPEN,
    SURVIVED,
    UNTOLD,
    Outcome,
    hunt,
    hunt_group,
    reaching,
)
from differential.mutants.ledger import read
from differential.mutants.planting import Mutant, Planted
from differential.mutants.witness import CaseName, Passed, Said

FAST, SLOW = CaseName("pool/fast", "m"), CaseName("pool/slow", "m")


class Fake:
    """A witness: ``wrong`` says which mutants each case fails on, ``hangs`` where it has no
    verdict."""

    name = "fake"
    wavers = False

    def __init__(
        self, wrong: Mapping[CaseName, set[int]], hangs: Mapping[CaseName, set[int]] | None = None
    ) -> None:
        self._wrong = wrong
        self._hangs = hangs or {}
        self.asked: list[tuple[CaseName, tuple[int, ...]]] = []

    def judge(self, case: CaseName, on: Sequence[int]) -> Said:
        self.asked.append((case, tuple(on)))
        if self._hangs.get(case, set()) & set(on):
            return Said("unknown", "no answer in 6 s")
        if self._wrong.get(case, set()) & set(on):
            return Said("fail", "a rule")
        return Said("pass", "")

    def reached(self, case: CaseName) -> tuple[Said, tuple[int, ...]]:
        raise NotImplementedError

    def close(self) -> None:
        pass


def passed(*numbers: int) -> list[Passed]:
    """Both cases, the slow one first, each reaching these mutants."""
    return [Passed(SLOW, 2.0, numbers), Passed(FAST, 0.1, numbers)]


def test_the_quickest_case_is_tried_first_and_a_failure_ends_it() -> None:
    witness = Fake({FAST: {7}, SLOW: {7}})
    outcome = hunt(7, passed(7), witness)
    assert (outcome.status, outcome.case, outcome.reason) == (CAUGHT, FAST, "a rule")
    assert witness.asked == [(FAST, (7,))]


def test_a_case_that_does_not_reach_a_mutant_is_not_tried_on_it() -> None:
    witness = Fake({FAST: {7}})
    outcome = hunt(7, [Passed(FAST, 0.1, (8,)), Passed(SLOW, 2.0, (7,))], witness)
    assert (outcome.status, outcome.tried) == (SURVIVED, 1)
    assert witness.asked == [(SLOW, (7,))]


def test_no_verdict_is_no_catch_unless_a_later_case_fails() -> None:
    untold = hunt(7, passed(7), Fake({}, hangs={FAST: {7}}))
    assert (untold.status, untold.case) == (UNTOLD, FAST)
    assert untold.reason == "no answer in 6 s"
    caught = hunt(7, passed(7), Fake({SLOW: {7}}, hangs={FAST: {7}}))
    assert (caught.status, caught.case) == (CAUGHT, SLOW)


def test_a_group_is_halved_until_single_mutants_fail() -> None:
    witness = Fake({FAST: {2, 5}, SLOW: {3}})
    outcomes = hunt_group([1, 2, 3, 4, 5], passed(1, 2, 3, 4, 5), witness)
    assert {one.number: (one.status, one.case) for one in outcomes} == {
        1: (SURVIVED, None),
        2: (CAUGHT, FAST),
        3: (CAUGHT, SLOW),
        4: (SURVIVED, None),
        5: (CAUGHT, FAST),
    }
    # What was caught is off from then on.
    assert (SLOW, (1, 3, 4)) in witness.asked
    assert {one.group for one in outcomes} == {5}


def test_what_only_fails_together_is_not_caught() -> None:
    class Pair(Fake):
        def judge(self, case: CaseName, on: Sequence[int]) -> Said:
            return Said("fail", "") if {1, 2} <= set(on) else Said("pass", "")

    outcomes = hunt_group([1, 2], passed(1, 2), Pair({}))
    assert [one.status for one in outcomes] == [SURVIVED, SURVIVED]


def test_a_witness_that_wavers_is_asked_again_with_nothing_on() -> None:
    class Wavering(Fake):
        wavers = True

    sure = Wavering({FAST: {7}})
    assert hunt(7, passed(7), sure).status == CAUGHT
    assert sure.asked == [(FAST, (7,)), (FAST, ())]

    class Busy(Wavering):
        def judge(self, case: CaseName, on: Sequence[int]) -> Said:
            return Said("fail", "nothing came in 8 s") if case == FAST else Said("pass", "")

    unsure = hunt(7, passed(7), Busy({}))
    assert unsure.status == UNTOLD
    assert "without a fault the case does not pass either: nothing came" in unsure.reason


def test_what_time_did_not_allow_stays_open() -> None:
    witness = Fake({FAST: {7}})
    (outcome,) = hunt_group([7], passed(7), witness, until=0.0)
    assert (outcome.status, outcome.tried, witness.asked) == (OPEN, 0, [])


def test_only_cases_that_reach_one_of_them_are_handed_out() -> None:
    known = [Passed(FAST, 0.1, (1, 2)), Passed(SLOW, 2.0, (3,))]
    assert [each.case for each in reaching([2], known)] == [FAST]


# -- python -m differential.mutants ----------------------------------------------------------------

#: By witness: the mutants that its cases reach, and those that it catches.
REACHES = {"driver": {1, 2, 3}, "kubelet": {2, 3, 4}}
CATCHES = {"driver": {1}, "kubelet": {2}}
Run: TypeAlias = Callable[..., tuple[int, dict[int, str]]]


class FakePrograms:
    """Five mutants, and programs that are not there."""

    version = Version(1, 36, 4)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        mutants = tuple(
            Mutant(number, f"policy.go:f:{number}:negated", "policy.go", "f", number, "negated",
                   "a", "!(a)", "if a")
            for number in range(1, 6)
        )  # fmt: skip
        self.planted = Planted(mutants, {}, {})

    def driver(self, progress: object) -> Path:
        return self.folder / "driver"

    kubelet = driver

    def ready_kubelet(self) -> Path:
        return self.folder / "kubelet"


class FakeWorkers:
    """Witnesses in this process."""

    hunted: ClassVar[list[tuple[str, tuple[int, ...]]]] = []
    verdict = "pass"
    #: The one case that each tries.
    case_of: ClassVar[dict[str, int]] = {"driver": 0, "kubelet": 1}

    def __init__(self, name: str, path: Path, count: int) -> None:
        self.name = name
        self.reaches, self.catches = REACHES[name], CATCHES[name]
        self.case = self.case_of[name]

    def reached(self, cases: Iterable[CaseName]) -> Iterator[tuple[CaseName, Said, Passed]]:
        for case in list(cases)[self.case : self.case + 1]:
            yield case, Said(self.verdict, "odd"), Passed(case, 0.1, tuple(self.reaches))

    def hunt(
        self, groups: Sequence[tuple[Sequence[int], Sequence[Passed]]], until: float
    ) -> Iterator[list[Outcome]]:
        for numbers, passed in groups:
            self.hunted.append((self.name, tuple(numbers)))
            witness = Fake({one.case: self.catches for one in passed})
            yield hunt_group(numbers, passed, witness, until)

    def close(self) -> None:
        pass


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the results go; everything that takes a kubelet is replaced."""
    monkeypatch.setattr(command, "programs", lambda target, tell: FakePrograms(tmp_path))
    monkeypatch.setattr(command, "Workers", FakeWorkers)
    monkeypatch.setattr(FakeWorkers, "hunted", [])
    return tmp_path / "result.jsonl"


@pytest.fixture
def ran(kept: Path) -> Run:
    """Runs the command: its exit status, and how each mutant stands."""

    def run(*words: str) -> tuple[int, dict[int, str]]:
        status = command.main(["1.36", "--resume", str(kept), *words])
        rows = read(kept)[1] if kept.exists() else []
        return status, {row.mutant.number: row.outcome.status for row in rows}

    return run


def test_the_driver_is_tried_first_and_the_kubelet_on_what_is_left(
    ran: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = {1: CAUGHT, 2: CAUGHT, 3: SURVIVED, 4: SURVIVED, 5: NOT_REACHED}
    assert ran() == (0, expected)
    assert sorted(FakeWorkers.hunted[:5]) == [("driver", (number,)) for number in range(1, 6)]
    assert FakeWorkers.hunted[5:] == [("kubelet", (2, 3, 4))]
    assert "5 of 5 mutants tried. Score 40.0 %" in capsys.readouterr().out


def test_a_second_run_tries_only_what_the_first_left(ran: Run) -> None:
    left = {1: CAUGHT, 2: OPEN, 3: OPEN, 4: OPEN, 5: OPEN}
    assert ran("--witness", "driver") == (0, left)
    FakeWorkers.hunted.clear()
    assert ran()[0] == 0
    assert FakeWorkers.hunted == [("kubelet", (2, 3, 4))]


def test_the_kubelet_is_not_tried_on_what_the_driver_passed_in_the_same_case(
    ran: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeWorkers, "case_of", {"driver": 0, "kubelet": 0})
    status, statuses = ran()
    assert (status, statuses[2]) == (0, SURVIVED)
    assert FakeWorkers.hunted[5:] == [("kubelet", (4,))]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["--scenario", "no/such"], {OPEN}),
        (["--minutes", "-1"], {OPEN, NOT_REACHED}),
    ],
    ids=["chosen scenarios", "no time"],
)
def test_what_was_not_tried_is_open(ran: Run, words: list[str], left: set[str]) -> None:
    status, statuses = ran(*words)
    assert status == 0
    assert OPEN in set(statuses.values()) <= left


def test_a_score_below_the_floor_is_exit_status_1(
    ran: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran("--floor", "41")[0] == 1
    assert "the score 40.0 % is below 41 %" in capsys.readouterr().err


def test_programs_that_fail_with_no_fault_on_are_not_used(
    ran: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FakeWorkers, "verdict", "fail")
    assert ran()[0] == 3
    said = capsys.readouterr().err
    assert "with no fault on the driver does not pass" in said
    assert not FakeWorkers.hunted


def test_only_what_was_asked_for_is_tried(ran: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("--only", "*:2:*") == (0, {2: CAUGHT})
    assert command.main(["1.36", "--only", "nothing"]) == 4
    assert command.main(["1.36", "--list", "--sample", "2"]) == 0
    assert "2 mutants of 1.36.4" in capsys.readouterr().out


def test_an_unknown_machine_is_wrong_usage(ran: Run) -> None:
    assert ran("--machine", "no-such-machine") == (2, {})


def test_the_report_is_written(ran: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert ran("--report", str(page))[0] == 0
    assert "# Mutants of Kubernetes 1.36.4" in page.read_text()
