"""``pinproof report``, ``compare`` and ``known`` on streams of real runs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from conformance.lines import schema

if TYPE_CHECKING:
    from tests.cli.conftest import Command, Stream

MACHINE: Final = "1s-1n-4c-smt2"
WRONG: Final = "miniature:forgets-to-give-back"


def _run(pinproof: Command, folder: Path, subject: str, *more: str) -> int:
    arguments = ("run", "--subject", subject, "--machine", MACHINE, "-k", "pool/", "-n", "0")
    return pinproof(*arguments, "--report", str(folder), *more).returncode


@pytest.fixture
def both(pinproof: Command, tmp_path: Path) -> tuple[str, str]:
    """Streams of a right model and a wrong one."""
    assert _run(pinproof, tmp_path / "right", "miniature:true-sizes") in (0, 1)
    assert _run(pinproof, tmp_path / "wrong", WRONG) == 1
    return str(tmp_path / "right/result.jsonl"), str(tmp_path / "wrong/result.jsonl")


def test_every_output_of_a_run_is_made_again_from_its_stream(
    pinproof: Command, both: tuple[str, str], tmp_path: Path
) -> None:
    _, wrong = both
    page = pinproof("report", wrong, "--format", "html")
    assert page.stdout == (tmp_path / "wrong/report.html").read_text()
    done = pinproof("report", wrong, "--format", "junit", "-o", str(tmp_path / "x.xml"))
    assert (done.returncode, done.stdout) == (0, "")
    assert 'name="conformance.pool"' in (tmp_path / "x.xml").read_text()
    summary = pinproof("report", wrong, "--gate")
    assert summary.returncode == 1
    assert summary.stdout.splitlines()[-1].startswith("Not conformant: ")


def test_a_fork_that_starts_red_is_gated_by_what_it_breaks_anew(
    pinproof: Command, both: tuple[str, str]
) -> None:
    right, wrong = both
    done = pinproof("compare", right, wrong)
    assert done.returncode == 1
    assert "pool/deletion-returns-cpus: pass, now fail" in done.stdout
    same = pinproof("compare", wrong, wrong)
    assert same.returncode == 0
    assert same.stdout.splitlines()[-1].startswith("No regression: ")
    found = json.loads(pinproof("compare", right, wrong, "--format", "json").stdout)
    assert found["regression"][0]["machine"] == MACHINE


def test_the_first_list_of_known_failures_makes_the_run_green_and_stays_strict(
    pinproof: Command, both: tuple[str, str], results: Stream, tmp_path: Path
) -> None:
    """One that passes, and one past its date, make it red."""
    listed = tmp_path / "known.toml"
    assert pinproof("report", both[1], "-f", "known", "-o", str(listed)).returncode == 0
    assert pinproof("known", "--from", both[1]).stdout == listed.read_text()
    entries = tomllib.loads(listed.read_text())["known"]
    assert _run(pinproof, tmp_path / "again", WRONG, "--known", str(listed)) == 0
    header, found, footer = results(tmp_path / "again")
    failed = {one.scenario for one in found if one.verdict == "fail"}
    assert failed == {one["scenario"] for one in entries} == {one.scenario for one in header.known}
    assert footer.counts["fail"] == len(failed)
    assert "broken as is known" in (tmp_path / "again/report.html").read_text()
    late = tmp_path / "late.toml"
    expires = str(entries[0]["expires"])
    late.write_text(listed.read_text().replace(expires, "2020-01-31", 1))
    assert _run(pinproof, tmp_path / "late", WRONG, "--known", str(late)) == 1
    assert _run(pinproof, tmp_path / "fixed", "reference", "--known", str(listed)) == 1
    assert "listed as a known failure" in (tmp_path / "fixed/junit.xml").read_text()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_known_failures_are_no_failures_of_pytest(
    pinproof: Command, both: tuple[str, str], tmp_path: Path, workers: str
) -> None:
    """In one process or in several, with pytest's own plugins too."""
    listed = tmp_path / "known.toml"
    pinproof("known", "--from", both[1], "-o", str(listed))
    arguments = ("run", "--subject", WRONG, "--machine", MACHINE, "-k", "pool/", "-n", workers)
    done = pinproof(*arguments, "--known", str(listed), "--durations=1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "broken as is known" in done.stdout.splitlines()[-1]


def test_the_schema_is_printed(pinproof: Command) -> None:
    assert json.loads(pinproof("report", "--schema").stdout) == schema()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["report"], "name a result stream"),
        (["report", "absent.jsonl"], "absent.jsonl: No such file or directory"),
        (["report", "bad.jsonl"], "bad.jsonl:1: not a record"),
        (["report", "old.jsonl"], "old.jsonl:1: schema 1 is older than 2"),
        (["report", "cut.jsonl", "-o", "x"], "--output is for a --format other than text"),
        (["report", "cut.jsonl", "-f", "json", "-o", "no/x"], "--output no/x: No such file"),
        (["compare", "absent.jsonl", "cut.jsonl"], "absent.jsonl: No such file"),
        (["report", "cut.jsonl", "--format", "known"], "cut.jsonl: cut off: the footer is missing"),
        (["run", "--known", "absent.toml"], "absent.toml: No such file"),
        (["run", "--known", "ids.toml"], "unknown scenario 'pool/no'"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    pinproof: Command, tmp_path: Path, arguments: list[str], line: str
) -> None:
    (tmp_path / "bad.jsonl").write_text("<html>\n")
    (tmp_path / "old.jsonl").write_text('{"kind":"header","schema":1}\n')
    header = {"kind": "header", "schema": 2, "pinproof": "0", "started": "", "machines": []}
    subject = {"name": "kubelet:1.36", "release": "1.36"}
    (tmp_path / "cut.jsonl").write_text(json.dumps({**header, "subject": subject}) + "\n")
    (tmp_path / "ids.toml").write_text(
        '[[known]]\nscenario = "pool/no"\nreason = "r"\nexpires = 2999-01-01\n'
    )
    done = pinproof(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert line in done.stderr
    assert done.stderr.count("\n") == 1
