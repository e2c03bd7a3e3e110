"""One item for the cases of a scenario, in ``pinproof run`` on the model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.results import Result, read
from pinproof import pytest_arguments

BROKEN = "miniature:splits-cores"


def _run(folder: Path, subject: str, *more: str) -> tuple[str, list[Result]]:
    """What ``pinproof run`` prints, and its results by scenario and machine."""
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pinproof", "run", "--subject", subject, "--report", "out"),
            *("--machine", "1s-1n-4c-smt2", "--machine", "2s-2n-8c-smt2", *more),
        ],
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    results = [one for one in read(folder / "out/result.jsonl") if isinstance(one, Result)]
    return ran.stdout + ran.stderr, sorted(
        results, key=lambda one: (one.scenario, one.machine.name)
    )


def _told(results: list[Result]) -> list[tuple[object, ...]]:
    return [
        (one.scenario, one.machine.name, one.verdict, one.reason, one.explanation, one.witness)
        for one in results
    ]


@pytest.mark.parametrize("subject", ["reference", BROKEN])
def test_the_results_are_those_of_one_item_a_case(subject: str, tmp_path: Path) -> None:
    """``--durations`` leaves nothing together."""
    said, found = _run(tmp_path, subject, "-n0")
    apart, expected = _run(tmp_path, subject, "-n0", "--durations=0")
    assert _told(found) == _told(expected) != []
    assert said.splitlines()[-2] == apart.splitlines()[-2], said


def test_workers_share_the_scenarios(tmp_path: Path) -> None:
    _, alone = _run(tmp_path, BROKEN, "-n0")
    _, found = _run(tmp_path, BROKEN, "-n2")
    assert _told(found) == _told(alone)
    assert {one.worker for one in found} == {"gw0", "gw1"}


def test_what_failed_last_is_each_case_that_failed(tmp_path: Path) -> None:
    _, found = _run(tmp_path, BROKEN, "-n0")
    red = [one for one in found if one.verdict in ("fail", "unknown")]
    _, again = _run(tmp_path, BROKEN, "--lf")
    assert _told(again) == _told(red) != []


@pytest.mark.parametrize(
    ("subject", "more", "is_together"),
    [
        ("reference", [], True),
        ("miniature:splits-cores", ["-n", "2", "-rs"], True),
        ("reference", ["-k", "pool/"], False),
        ("reference", ["--lf"], False),
        ("reference", ["-x"], False),
        ("kubelet:1.36", [], False),
        ("exec:driver", [], False),
    ],
)
def test_cases_that_somebody_chooses_have_their_own_items(
    subject: str, more: list[str], is_together: bool
) -> None:
    assert bool(pytest_arguments.together(subject, more)) is is_together
