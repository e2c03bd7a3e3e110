"""The result file, the list of equivalent mutants, and the score made of both."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from conformance.subject import SubjectUsageError
from differential.mutants.equivalent import Equivalent, known_equivalents, reason_of
from differential.mutants.hunt import CAUGHT, NOT_REACHED, OPEN, SURVIVED, UNTOLD, Outcome
from differential.mutants.ledger import Header, Ledger, Row, read
from differential.mutants.planting import Mutant, Planted
from differential.mutants.report import Score, page, summary
from differential.mutants.witness import CaseName

HEADER = Header("1.36.4", "1.36.4-abc", "def", ["2s-2n-8c-smt2"], 5)
CASE = CaseName("pool/shrinks", "2s-2n-8c-smt2")


def mutant(number: int, kind: str = "negated", *, file: str = "policy.go") -> Mutant:
    return Mutant(number, f"{file}:f:{number}:{kind}", file, "f", number, kind, "a", "!(a)", "if a")


def row(number: int, status: str, kind: str = "negated") -> Row:
    case = CASE if status in (CAUGHT, UNTOLD) else None
    return Row(mutant(number, kind), Outcome(number, status, "driver", case))


def test_a_run_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "result.jsonl"
    first = Ledger(path, HEADER)
    first.note([row(1, CAUGHT), row(2, OPEN)])
    with path.open("a") as stream:
        stream.write('{"kind":"mutant","mut')  # killed while it wrote
    again = Ledger(path, HEADER)
    assert again.is_final(mutant(1))
    assert not again.is_final(mutant(2))
    assert not again.is_final(mutant(3))
    again.note([row(2, SURVIVED)])
    header, rows = read(path)
    assert header == HEADER
    assert {one.mutant.number: one.outcome.status for one in rows} == {1: CAUGHT, 2: SURVIVED}


def test_what_was_not_caught_is_tried_again_with_other_scenarios(tmp_path: Path) -> None:
    path = tmp_path / "result.jsonl"
    Ledger(path, HEADER).note([row(1, CAUGHT), row(2, SURVIVED), row(3, NOT_REACHED)])
    newer = msgspec.structs.replace(HEADER, catalogue="newer")
    assert set(Ledger(path, newer, reading=True).rows) == {mutant(n).id for n in (1, 2, 3)}
    assert set(Ledger(path, newer).rows) == {mutant(1).id}
    assert read(path)[0] == newer


def test_results_of_other_mutants_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "result.jsonl"
    Ledger(path, HEADER)
    other = Header("1.36.4", "1.36.4-other", "def", ["2s-2n-8c-smt2"], 5)
    with pytest.raises(SubjectUsageError, match=r"is about 1\.36\.4 with other mutants"):
        Ledger(path, other)


def test_what_is_no_result_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "result.jsonl"
    path.write_text("nonsense\n")
    with pytest.raises(SubjectUsageError, match="is not a result file"):
        Ledger(path, HEADER)


def test_the_score_leaves_out_equivalent_mutants_and_says_that_some_are_open() -> None:
    rows = [
        row(1, CAUGHT),
        row(2, SURVIVED),
        row(3, NOT_REACHED),
        row(4, OPEN),
        row(5, UNTOLD),
        row(6, SURVIVED, "bound"),
    ]
    known = [Equivalent("*:bound", "equivalent", "both bounds give the same")]
    score = Score(rows, known)
    assert score.percent == 20.0
    assert str(score) == (
        "at least 20.0 %: 1 caught, 1 survived, 1 not reached, 1 timed out, 1 open, 1 equivalent"
    )


def test_a_mutant_that_is_caught_counts_though_it_is_on_the_list() -> None:
    known = [Equivalent("*", "not visible", "nobody can see it")]
    assert Score([row(1, CAUGHT)], known).percent == 100.0


def test_an_equivalent_is_found_by_id_and_text() -> None:
    assert reason_of(mutant(1), [Equivalent("policy.go:f:1:*", "equivalent", "r")]) is not None
    assert reason_of(mutant(1), [Equivalent("policy.go:f:2:*", "equivalent", "r")]) is None
    assert reason_of(mutant(1), [Equivalent("*", "equivalent", "r", before="b")]) is None
    assert reason_of(mutant(1), [Equivalent("*", "equivalent", "r", source="if a")]) is not None


def test_every_entry_of_the_list_says_why_and_which_of_the_two() -> None:
    for one in known_equivalents():
        assert one.kind in ("equivalent", "not visible"), one
        assert len(one.reason) > 20, one
        assert one.id.count(":") >= 3, one


def test_summary_and_page_name_survivors_and_catchers() -> None:
    rows = [row(1, CAUGHT), row(2, SURVIVED)]
    assert "2 of 5 mutants tried. Score 50.0 %" in summary(rows, [], 5)
    text = page(HEADER, rows, [], 5)
    assert "- `policy.go:f:2:negated`: `a` becomes `!(a)`" in text
    assert "| `pool/shrinks` | 1 |" in text


def test_new_lines_are_those_that_the_older_function_lacks() -> None:
    mutants = tuple(mutant(number) for number in (1, 2))
    newer = Planted(mutants, {}, {"policy.go:f": "if a"})
    assert newer.new_since(Planted((), {}, {"policy.go:f": "  if a\n  if b"})) == ()
    assert newer.new_since(Planted((), {}, {"policy.go:f": "if b"})) == mutants
    assert newer.new_since(Planted((), {}, {})) == mutants
