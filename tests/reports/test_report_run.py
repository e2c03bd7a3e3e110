"""Reading a stream, whole or broken, and saying what it amounts to."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import reports
from conformance.results import Footer, ResultsError
from conformance.verdict import ExitStatus, Verdict
from reports.run import Run
from tests.reports.conftest import fakes, footer, headed


def test_a_whole_stream_is_read_back(tmp_path: Path) -> None:
    run = fakes.one_of_each()
    read = reports.load(fakes.write(run, tmp_path / "result.jsonl"))
    assert (read, read.caution, read.status) == (run, "", ExitStatus.NOT_CONFORMANT)


def test_a_stream_without_a_footer_is_read_and_said_to_be_cut_off(tmp_path: Path) -> None:
    torn = fakes.run(fakes.result(), fakes.result(scenario="b"), footer=None)
    path = fakes.write(torn, tmp_path / "result.jsonl")
    run = reports.load(path)
    assert len(run.results) == 2
    assert "the footer is missing" in run.cut_off
    assert run.status is ExitStatus.COULD_NOT_TELL
    assert run.caution.startswith("This run was cut off")
    assert run.verdict == "Could not tell: 2 promises kept."
    broken = fakes.run(fakes.result("fail"), fakes.result(), footer=None)
    assert reports.load(fakes.write(broken, path)).status is ExitStatus.NOT_CONFORMANT


@pytest.mark.parametrize("damage", [b'{"kind":"result","scen', b"\xff\xfe\n", b'{"kind":"x"}\n'])
def test_what_came_before_the_damage_is_kept(damage: bytes, tmp_path: Path) -> None:
    lines = fakes.write(fakes.run(fakes.result()), tmp_path / "a").read_bytes().splitlines(True)
    path = tmp_path / "result.jsonl"
    path.write_bytes(b"".join(lines[:-1]) + damage)
    run = reports.load(path)
    assert len(run.results) == 1
    assert f"{path}:5" in run.cut_off


def test_text_after_the_footer_voids_the_footer(tmp_path: Path) -> None:
    path = fakes.write(fakes.run(fakes.result()), tmp_path / "result.jsonl")
    with path.open("ab") as stream:
        stream.write(b"{}\n")
    run = reports.load(path)
    assert run.footer is None
    assert run.status is ExitStatus.COULD_NOT_TELL


@pytest.mark.parametrize("content", [b"", b"not json\n", b'{"kind":"header"}\n'])
def test_a_stream_without_a_header_is_an_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "result.jsonl"
    path.write_bytes(content)
    with pytest.raises(ResultsError, match=r"result\.jsonl"):
        reports.load(path)
    with pytest.raises(ResultsError):
        reports.load(tmp_path / "missing.jsonl")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (footer({"pass": 2, "fail": 0}, 0), "counts 2 pass, its results are 1 fail, 1 pass"),
        (footer({"pass": 1, "fail": 1}, 0), "claims conformance"),
        (footer({"pass": 1, "fail": 1}, 77), "exit status 77"),
    ],
)
def test_a_footer_that_contradicts_the_results_is_not_believed(end: Footer, words: str) -> None:
    run = fakes.run(fakes.result("fail"), fakes.result(), footer=end)
    assert words in run.contradiction
    assert words in run.caution
    assert run.status is ExitStatus.NOT_CONFORMANT


def test_a_green_footer_over_nothing_is_not_believed() -> None:
    run = fakes.run(footer=footer({}, 0))
    assert run.contradiction
    assert run.status is ExitStatus.COULD_NOT_TELL


def test_a_machine_on_which_nothing_applied_is_named() -> None:
    """A footer that names one and claims conformance is not believed."""

    def run_of(status: int, *idle: str) -> Run:
        return fakes.run(fakes.result(), footer=footer({"pass": 1}, status, idle=[*idle]))

    run = run_of(ExitStatus.TOO_FEW, "node7")
    assert run.status is ExitStatus.TOO_FEW
    assert run.verdict == (
        "Too few scenarios ran for a verdict: 1 promise kept, no scenario applied on node7."
    )
    words = run_of(ExitStatus.TOO_FEW, *(f"node{n}" for n in range(7))).verdict
    assert words.endswith("no scenario applied on node0, node1, node2, node3, node4 and 2 more.")
    assert "claims conformance" in run_of(ExitStatus.CONFORMANT, "node7").contradiction


def test_a_graver_footer_is_believed_and_has_words() -> None:
    """A floor that was missed or a node not restored shows in no result."""
    for status in ExitStatus:
        run = fakes.run(fakes.result(), footer=footer({"pass": 1}, status))
        assert (run.contradiction, run.status) == ("", status)
        assert run.verdict.endswith(": 1 promise kept.")


def test_a_verdict_nobody_knows_is_unknown() -> None:
    run = fakes.run(fakes.result("splendid"))
    assert run.counts[Verdict.UNKNOWN] == 1
    assert run.status is ExitStatus.COULD_NOT_TELL


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ("pass", "Conformant: 1 promise kept."),
        ("pass pass skip", "Conformant: 2 promises kept, 1 skipped."),
        ("pass fail skip", "Not conformant: 1 promise kept, 1 broken, 1 skipped."),
        ("fail unknown", "Not conformant: 0 promises kept, 1 broken, 1 without an answer."),
        ("pass unknown", "Could not tell: 1 promise kept, 1 without an answer."),
        ("skip", "Too few scenarios ran for a verdict: 0 promises kept, 1 skipped."),
        ("", "Too few scenarios ran for a verdict: 0 promises kept."),
    ],
)
def test_the_verdict_in_words(verdicts: str, words: str) -> None:
    assert fakes.run(*map(fakes.result, verdicts.split())).verdict == words


def test_order_is_by_gravity_and_name_however_the_workers_ran() -> None:
    cases = {"a": "skip", "b": "pass", "c": "unknown", "z": "fail", "d": "fail"}
    run = fakes.run(*(fakes.result(verdict, scenario=one) for one, verdict in cases.items()))
    assert [result.scenario for result in run.ordered] == ["d", "z", "c", "b", "a"]


def test_a_machine_without_results_is_still_named() -> None:
    run = headed(fakes.run(fakes.result()), machines=["silent", "2s-2n-8c-smt2"])
    assert run.machines == ("silent", "2s-2n-8c-smt2")


def test_write_all_and_summarise_work_from_the_stream_alone(tmp_path: Path) -> None:
    stream = fakes.write(fakes.one_of_each(), tmp_path / "result.jsonl")
    reports.write_all(stream, tmp_path / "new" / "folder")
    made = sorted(path.name for path in (tmp_path / "new" / "folder").iterdir())
    assert made == ["junit.xml", "report.html"]
    printed = io.StringIO()
    reports.summarise(stream, Console(file=printed, width=80))
    assert "Not conformant" in printed.getvalue()
