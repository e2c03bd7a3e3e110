"""``python -m differential.mutants``, with witnesses that are no programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from conformance.kubelets.releases import Version
from differential.mutants import __main__ as command
from differential.mutants.hunt import CAUGHT, NOT_REACHED, OPEN, SURVIVED, Outcome, hunt_group
from differential.mutants.ledger import read
from differential.mutants.planting import Mutant, Planted
from differential.mutants.witness import CaseName, Passed, Said

#: By witness: the mutants that its cases reach, and those that it catches.
REACHES = {"driver": {1, 2, 3}, "kubelet": {2, 3, 4}}
CATCHES = {"driver": {1}, "kubelet": {2}}


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


class FakeWitness:
    """Catches some mutants."""

    name = "fake"
    wavers = False

    def __init__(self, catches: set[int]) -> None:
        self._catches = catches

    def judge(self, case: CaseName, on: Sequence[int]) -> Said:
        return Said("fail" if self._catches & set(on) else "pass", "")

    def reached(self, case: CaseName) -> tuple[Said, tuple[int, ...]]:
        raise NotImplementedError

    def close(self) -> None:
        pass


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
            yield hunt_group(numbers, passed, FakeWitness(self.catches), until)

    def close(self) -> None:
        pass


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the results go; everything that takes a kubelet is replaced."""
    monkeypatch.setattr(command, "programs", lambda target, tell: FakePrograms(tmp_path))
    monkeypatch.setattr(command, "Workers", FakeWorkers)
    monkeypatch.setattr(FakeWorkers, "hunted", [])
    return tmp_path / "result.jsonl"


def statuses(path: Path) -> dict[int, str]:
    return {row.mutant.number: row.outcome.status for row in read(path)[1]}


def test_the_driver_is_tried_first_and_the_kubelet_on_what_is_left(
    ran: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["1.36", "--resume", str(ran)]) == 0
    assert statuses(ran) == {
        1: CAUGHT, 2: CAUGHT, 3: SURVIVED, 4: SURVIVED, 5: NOT_REACHED
    }  # fmt: skip
    assert sorted(FakeWorkers.hunted[:5]) == [("driver", (number,)) for number in range(1, 6)]
    assert FakeWorkers.hunted[5:] == [("kubelet", (2, 3, 4))]
    assert "5 of 5 mutants tried. Score 40.0 %" in capsys.readouterr().out


def test_a_second_run_tries_only_what_the_first_left(ran: Path) -> None:
    assert command.main(["1.36", "--resume", str(ran), "--witness", "driver"]) == 0
    assert statuses(ran) == {1: CAUGHT, 2: OPEN, 3: OPEN, 4: OPEN, 5: OPEN}
    FakeWorkers.hunted.clear()
    assert command.main(["1.36", "--resume", str(ran)]) == 0
    assert FakeWorkers.hunted == [("kubelet", (2, 3, 4))]


def test_the_kubelet_is_not_tried_on_what_the_driver_passed_in_the_same_case(
    ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeWorkers, "case_of", {"driver": 0, "kubelet": 0})
    assert command.main(["1.36", "--resume", str(ran)]) == 0
    assert statuses(ran)[2] == SURVIVED
    assert FakeWorkers.hunted[5:] == [("kubelet", (4,))]


def test_what_chosen_scenarios_leave_is_open(ran: Path) -> None:
    assert command.main(["1.36", "--resume", str(ran), "--scenario", "no/such"]) == 0
    assert set(statuses(ran).values()) == {OPEN}


def test_no_time_leaves_everything_open(ran: Path) -> None:
    assert command.main(["1.36", "--resume", str(ran), "--minutes", "-1"]) == 0
    assert set(statuses(ran).values()) <= {OPEN, NOT_REACHED}


def test_a_score_below_the_floor_is_exit_status_1(
    ran: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["1.36", "--resume", str(ran), "--floor", "41"]) == 1
    assert "the score 40.0 % is below 41 %" in capsys.readouterr().err


def test_programs_that_fail_with_no_fault_on_are_not_used(
    ran: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FakeWorkers, "verdict", "fail")
    assert command.main(["1.36", "--resume", str(ran)]) == 3
    said = capsys.readouterr().err
    assert "with no fault on the driver does not pass" in said
    assert not FakeWorkers.hunted


def test_only_what_was_asked_for_is_tried(ran: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["1.36", "--resume", str(ran), "--only", "*:2:*"]) == 0
    assert statuses(ran) == {2: CAUGHT}
    assert command.main(["1.36", "--only", "nothing"]) == 4
    assert command.main(["1.36", "--list", "--sample", "2"]) == 0
    assert "2 mutants of 1.36.4" in capsys.readouterr().out


def test_an_unknown_machine_is_wrong_usage(ran: Path) -> None:
    assert command.main(["1.36", "--machine", "no-such-machine"]) == 2


def test_the_report_is_written(ran: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert command.main(["1.36", "--resume", str(ran), "--report", str(page)]) == 0
    assert "# Mutants of Kubernetes 1.36.4" in page.read_text()
