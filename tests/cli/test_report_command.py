"""``pinproof report``, ``compare`` and ``known`` on streams of real runs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Final

import pytest

from conformance.lines import schema
from tests.cli.conftest import Stream
from tests.cli.running import here

MACHINE: Final = "1s-1n-4c-smt2"
WRONG: Final = "miniature:forgets-to-give-back"


def _run(folder: Path, subject: str, *more: str) -> int:
    arguments = ("run", "--subject", subject, "--machine", MACHINE, "-k", "pool/", "-n", "0")
    return here(*arguments, "--report", str(folder), *more).returncode


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Streams of a right model and a wrong one."""
    folder = tmp_path_factory.mktemp("both")
    assert _run(folder / "right", "miniature:true-sizes") in (0, 1)
    assert _run(folder / "wrong", WRONG) == 1
    return str(folder / "right/result.jsonl"), str(folder / "wrong/result.jsonl")


def test_every_output_of_a_run_is_made_again_from_its_stream(
    both: tuple[str, str], tmp_path: Path
) -> None:
    _, wrong = both
    page = here("report", wrong, "--format", "html")
    assert page.stdout == Path(wrong).with_name("report.html").read_text()
    done = here("report", wrong, "--format", "junit", "-o", str(tmp_path / "x.xml"))
    assert (done.returncode, done.stdout) == (0, "")
    assert 'name="conformance.pool"' in (tmp_path / "x.xml").read_text()
    summary = here("report", wrong, "--gate", status=1)
    assert summary.stdout.splitlines()[-1].startswith("Not conformant: ")


def test_a_fork_that_starts_red_is_gated_by_what_it_breaks_anew(both: tuple[str, str]) -> None:
    right, wrong = both
    done = here("compare", right, wrong, status=1)
    assert "pool/deletion-returns-cpus: pass, now fail" in done.stdout
    same = here("compare", wrong, wrong, status=0)
    assert same.stdout.splitlines()[-1].startswith("No regression: ")
    found = json.loads(here("compare", right, wrong, "--format", "json").stdout)
    assert found["regression"][0]["machine"] == MACHINE


def test_the_first_list_of_known_failures_makes_the_run_green_and_stays_strict(
    both: tuple[str, str], results: Stream, tmp_path: Path
) -> None:
    listed = tmp_path / "known.toml"
    here("report", both[1], "-f", "known", "-o", str(listed), status=0)
    assert here("known", "--from", both[1]).stdout == listed.read_text()
    entries = tomllib.loads(listed.read_text())["known"]
    assert _run(tmp_path / "again", WRONG, "--known", str(listed)) == 0
    header, found, footer = results(tmp_path / "again")
    failed = {one.scenario for one in found if one.verdict == "fail"}
    assert failed == {one["scenario"] for one in entries} == {one.scenario for one in header.known}
    assert footer.counts["fail"] == len(failed)
    assert "broken as is known" in (tmp_path / "again/report.html").read_text()
    late = tmp_path / "late.toml"
    expires = str(entries[0]["expires"])
    late.write_text(listed.read_text().replace(expires, "2020-01-31", 1))
    assert _run(tmp_path / "late", WRONG, "--known", str(late)) == 1
    assert _run(tmp_path / "fixed", "reference", "--known", str(listed)) == 1
    assert "listed as a known failure" in (tmp_path / "fixed/junit.xml").read_text()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_known_failures_are_no_failures_of_pytest(
    both: tuple[str, str], tmp_path: Path, workers: str
) -> None:
    """In one process or in several, with pytest's own plugins too."""
    listed = tmp_path / "known.toml"
    here("known", "--from", both[1], "-o", str(listed))
    arguments = ("run", "--subject", WRONG, "--machine", MACHINE, "-k", "pool/", "-n", workers)
    done = here(*arguments, "--known", str(listed), "--durations=1", status=0)
    assert "broken as is known" in done.stdout.splitlines()[-1]


def test_the_schema_is_printed() -> None:
    assert json.loads(here("report", "--schema").stdout) == schema()
