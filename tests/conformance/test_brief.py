"""One report a case in ``pinproof run``; and all of pytest's where a plugin may read them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.results import Result, read
from pinproof import pytest_arguments

_COUNTS = """
import collections, pytest
met = collections.Counter()
def pytest_runtest_logreport(report):
    met[report.when] += 1
def pytest_sessionfinish(session):
    print("reports:", dict(met))
"""


def _run(folder: Path, *more: str) -> tuple[str, list[Result]]:
    (folder / "counting.py").write_text(_COUNTS)
    stream = folder / "result.jsonl"
    path = [str(folder), os.environ.get("PYTHONPATH", "")]
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *pytest_arguments.ALONE, "-p", "no:cacheprovider"),
            *("-p", "counting", "-s", "--pin-machine=1s-1n-4c-smt2", "-k", "pool/"),
            *(f"--pin-stream={stream}", *more),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert stream.exists(), ran.stdout + ran.stderr
    return ran.stdout, [one for one in read(stream) if isinstance(one, Result)]


def test_a_brief_run_reports_each_case_once_and_judges_the_same(tmp_path: Path) -> None:
    whole, expected = _run(tmp_path)
    brief, found = _run(tmp_path, *pytest_arguments.BRIEF)
    count = len(expected)
    assert f"reports: {{'setup': {count}," in whole
    assert f"reports: {{'call': {count}}}" in brief
    assert [(one.scenario, one.verdict, one.reason, one.steps) for one in found] == [
        (one.scenario, one.verdict, one.reason, one.steps) for one in expected
    ]


@pytest.mark.parametrize(
    ("more", "brief"),
    [
        ([], True),
        (["-x", "-n", "2"], True),
        (["--lf", "-n0", "--maxfail=3"], True),
        (["--junitxml=x.xml"], False),
        (["-p", "counting"], False),
        (["--setup-show"], False),
    ],
)
def test_only_options_that_read_no_other_report_leave_a_run_brief(
    more: list[str], brief: bool
) -> None:
    assert bool(pytest_arguments.brief(more)) is brief


def test_results_read_from_a_stream_share_their_machine(tmp_path: Path) -> None:
    _, found = _run(tmp_path)
    assert len(found) > 1
    assert len({id(one.machine) for one in found}) == 1
