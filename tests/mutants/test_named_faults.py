"""Named faults: putting them into source, trying them, the command, and their page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar, Final

import pytest

import topologies
from conformance.catalogue import find
from conformance.subject import SubjectSetupError
from differential.mutants.witness import CaseName, Said
from differential.named_faults import __main__ as command
from differential.named_faults import seen, trials
from differential.named_faults.faults import Edit, Fault, known_faults, known_slips, planted
from differential.named_faults.trials import Tried

PAGE: Final = Path(__file__).parents[2] / "docs/tables/named-faults.md"
GO: Final = (
    "// Text.\npackage small\n\nfunc f(a, b int) bool {\n\tif a < b {\n\t\treturn true\n\t}\n}\n"
)
FIRST, SECOND = "pool/shrinks-and-grows", "qos/fraction-shares"


def fault(name: str, find: str, put: str) -> Fault:
    return Fault(name, "Does wrong.", (Edit("small.go", find, put),), (FIRST,))


def go(*faults: Fault) -> str:
    return planted(faults, lambda path: {"small.go": GO}[path])["small.go"]


# -- putting faults into source ------------------------------------------------------------------


def test_a_fault_is_behind_its_switch_and_the_switch_is_imported() -> None:
    text = go(fault("one", "if a < b {", "if a < b && !$ON {"))
    assert 'if a < b && !mutant_.On("one") {' in text
    assert 'package small; import mutant_ "k8s.io/kubernetes/pkg/pinproofmutant"' in text
    assert text.count("\n") == GO.count("\n") + 2


def test_two_faults_may_change_one_line() -> None:
    text = go(
        fault("one", "if a < b {", "if a < b && !$ON {"),
        fault("two", "if a < b {", "if $ON || a < b {"),
    )
    assert 'if mutant_.On("two") || a < b && !mutant_.On("one") {' in text


def test_a_text_that_is_not_there_just_once_is_an_error() -> None:
    with pytest.raises(
        SubjectSetupError, match=r"fault one: small\.go has this text 0 times: if c"
    ):
        go(fault("one", "if c", "if $ON"))
    with pytest.raises(SubjectSetupError, match=r"small\.go has this text 2 times: {"):
        go(fault("one", "{", "{ $ON"))


def test_faults_that_replace_the_same_text_are_an_error() -> None:
    with pytest.raises(SubjectSetupError, match=r"faults one and two change the same text"):
        go(fault("one", "a < b", "$ON"), fault("two", "a < b", "!$ON"))


def test_faults_that_widen_and_narrow_one_condition_are_an_error() -> None:
    """In ``a < b || one && !two`` the second would do nothing: && binds closer."""
    wider = fault("one", "if a < b {", "if a < b || $ON {")
    narrower = fault("two", "if a < b {", "if a < b && !$ON {")
    for order in ((wider, narrower), (narrower, wider)):
        with pytest.raises(SubjectSetupError, match=r"faults .* add && and \|\| to one condition"):
            go(*order)


# -- the list ------------------------------------------------------------------------------------


def test_every_fault_and_slip_has_what_it_needs() -> None:
    for one in (*known_faults(), *known_slips()):
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.name), one.name
        assert one.does.endswith("."), one.name
        assert any("$ON" in edit.put for edit in one.edit), one.name
    for fault_ in known_faults():
        assert bool(fault_.caught_by) != fault_.allowed, f"{fault_.name}: one of the two"
    for slip in known_slips():
        assert slip.shown_by.endswith("."), slip.name
        assert not slip.caught_by, f"{slip.name}: a slip is measured, not promised"
        assert not slip.allowed, slip.name


def test_every_scenario_and_machine_of_the_list_exists() -> None:
    for one in known_faults():
        for case in one.cases(lambda scenario: ""):
            scenario = find(case.scenario)
            assert scenario is not None, f"{one.name}: {case.scenario}"
            assert topologies.machine(case.machine).name == case.machine


# -- trials --------------------------------------------------------------------------------------


class Judges:
    """Cases that fail with these faults on; ``broken`` fail always."""

    def __init__(self, fails: dict[str, set[str]], broken: Iterable[str] = ()) -> None:
        self._fails = fails
        self._broken = set(broken)

    def judged(
        self, trials: Iterable[trials.Trial]
    ) -> Iterator[tuple[CaseName, tuple[str, ...], Said]]:
        for case, on in trials:
            wrong = self._broken | {
                scenario for name in on for scenario in self._fails.get(name, set())
            }
            if case.scenario in wrong:
                yield case, on, Said("fail", "a rule", "CPUs: expected 1, seen 2")
            else:
                yield case, on, Said("pass", "")


FAULTS: Final = (
    Fault("bad", "Does wrong.", (), (FIRST,)),
    Fault("worse", "Does wrong.", (), (FIRST, SECOND)),
    Fault("harmless", "Does more.", (), (), allowed=True),
)


def verdicts(judges: Judges) -> dict[tuple[str, str], str]:
    rows = trials.alone(FAULTS, judges, lambda tried: None)
    return {(row.fault, row.case.scenario): row.verdict for row in rows}


def test_each_fault_is_tried_alone_on_each_of_its_scenarios() -> None:
    assert verdicts(Judges({"bad": {FIRST}, "worse": {SECOND}})) == {
        ("bad", FIRST): "fail",
        ("worse", FIRST): "pass",
        ("worse", SECOND): "fail",
    }


def test_a_scenario_that_fails_without_a_fault_catches_none() -> None:
    judges = Judges({"bad": {FIRST}, "worse": {FIRST, SECOND}}, broken=[FIRST])
    assert verdicts(judges) == {
        ("bad", FIRST): "unknown",
        ("worse", FIRST): "unknown",
        ("worse", SECOND): "fail",
    }


CASES: Final = [CaseName(FIRST, "m"), CaseName(SECOND, "m")]


def accused(judges: Judges) -> list[Tried]:
    return trials.accused(FAULTS[2:], CASES, judges, lambda case, said: None)


def test_an_allowed_change_that_a_scenario_fails_for_is_accused() -> None:
    (row,) = accused(Judges({"harmless": {SECOND}}))
    assert (row.fault, row.case.scenario) == ("harmless", SECOND)
    assert accused(Judges({})) == []
    assert accused(Judges({"harmless": {SECOND}}, [SECOND])) == []


# -- the command ---------------------------------------------------------------------------------


class FakePrograms:
    def kubelet(self, progress: object) -> Path:
        return Path("kubelet")

    driver = kubelet


class FakeWorkers(Judges):
    fails: ClassVar[dict[str, set[str]]] = {}
    broken: ClassVar[set[str]] = set()

    def __init__(self, name: str, path: Path, count: int, *, niceness: int) -> None:
        super().__init__(self.fails, self.broken)

    def close(self) -> None:
        pass


def status(monkeypatch: pytest.MonkeyPatch, *argv: str, **fails: set[str]) -> int:
    monkeypatch.setattr(command, "known_faults", lambda: FAULTS)
    monkeypatch.setattr(command, "programs", lambda tell: FakePrograms())
    monkeypatch.setattr(command, "Workers", FakeWorkers)
    monkeypatch.setattr(FakeWorkers, "fails", fails)
    return command.main(argv)


def test_exit_status_0_where_all_is_caught_and_nothing_accused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(monkeypatch, bad={FIRST}, worse={FIRST, SECOND}) == 0
    shown = capsys.readouterr()
    assert "2 of 2 named faults are caught" in shown.out
    assert "1 allowed changes" in shown.out
    assert "2 faults at once: 2 of the first" in shown.out
    assert f"caught     bad by {FIRST}@2s-2n-8c-smt2: a rule: CPUs: expected 1" in shown.err


@pytest.mark.parametrize(
    ("argv", "fails", "expected"),
    [
        (["--part", "alone"], {"bad": {FIRST}, "worse": {FIRST}}, 1),
        (["--part", "allowed"], {"harmless": {FIRST}}, 1),
        (["--part", "allowed"], {"bad": {FIRST}}, 0),
        (["--part", "together"], {"harmless": {FIRST}}, 1),
        (["--only", "nothing-*"], {}, 4),
    ],
    ids=["a fault lives", "accused", "not accused", "all at once conformant", "no such name"],
)
def test_the_exit_status(
    argv: list[str], fails: dict[str, set[str]], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status(monkeypatch, *argv, **fails) == expected


def test_exit_status_3_without_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeWorkers, "broken", {FIRST})
    assert status(monkeypatch, "--part", "alone", "--only", "bad", bad={FIRST}) == 3


# -- what was seen, and the page -----------------------------------------------------------------


def test_what_was_seen_is_kept_in_the_order_of_the_list(tmp_path: Path) -> None:
    path = tmp_path / "seen.jsonl"
    cases = {scenario: CaseName(scenario, "m") for scenario in (FIRST, SECOND)}
    seen.keep(FAULTS, [Tried("worse", cases[SECOND], "fail", "a rule")], path)
    newer = [
        Tried("bad", cases[FIRST], "fail", "a rule"),
        Tried("worse", cases[SECOND], "fail", "another rule"),
        Tried("worse", cases[FIRST], "pass", ""),
        Tried("gone", cases[FIRST], "fail", "a rule"),
    ]
    seen.keep(FAULTS, newer, path)
    assert [(row.fault, row.rule) for row in seen.read(path)] == [
        ("bad", "a rule"),
        ("worse", "another rule"),
    ]


def test_the_driver_is_tried_on_what_it_was_seen_to_show(tmp_path: Path) -> None:
    path = tmp_path / "seen.jsonl"
    first, second = CaseName(FIRST, "m"), CaseName(SECOND, "m")
    rows = [Tried("worse", first, "fail", "a rule"), Tried("worse", second, "fail", "a rule")]
    seen.keep(FAULTS, rows, path)
    assert seen.for_driver(FAULTS[:2], seen.read(path)) == []
    seen.keep_driver([Tried("worse", first, "skip", ""), Tried("worse", second, "fail", "")], path)
    (shown,) = seen.for_driver(FAULTS[:2], seen.read(path))
    assert (shown.name, shown.caught_by) == ("worse", (SECOND,))
    seen.keep(FAULTS, rows, path)  # the kubelet again
    assert [row.driver for row in seen.read(path)] == [False, True]


def test_every_fault_was_seen_to_be_caught_by_each_of_its_scenarios() -> None:
    rows = seen.read()
    assert all(row.caught for row in rows)
    assert [(row.fault, row.case) for row in rows] == [
        (one.name, case)
        for one in known_faults()
        for case in one.cases(lambda scenario: getattr(find(scenario), "machine", ""))
    ]


def test_the_page_is_what_the_command_writes(capsys: pytest.CaptureFixture[str]) -> None:
    """``python -m differential.named_faults --page > docs/tables/named-faults.md``."""
    assert command.main(["--page"]) == 0
    assert capsys.readouterr().out == PAGE.read_text(encoding="utf-8")
