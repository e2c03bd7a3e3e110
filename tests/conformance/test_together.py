"""What ``pinproof run`` makes fewer of than pytest: items, one for the cases of a scenario on the
model, and reports, one a case where no plugin may read all of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from conformance.results import Result, read
from conformance.session import selection
from conformance.session.keywords import may_match
from pinproof import pytest_arguments
from pinproof.pytest_arguments import ALONE
from tests.cli.running import pinproof, python
from topologies import finding

BROKEN = "miniature:splits-cores"


def _run(folder: Path, subject: str, *more: str) -> tuple[str, list[Result]]:
    """What ``pinproof run`` prints, and its results by scenario and machine."""
    ran = pinproof(
        *("run", "--subject", subject, "--report", "out"),
        *("--machine", "1s-1n-4c-smt2", "--machine", "2s-2n-8c-smt2", *more),
        cwd=folder,
        XDG_CACHE_HOME=str(folder / "cache"),
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


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[Result]]:
    """The folder of a run in one process, what it printed, and its results."""
    folder = tmp_path_factory.mktemp("alone")
    return folder, *_run(folder, BROKEN, "-n0")


def test_the_results_are_those_of_one_item_a_case(
    alone: tuple[Path, str, list[Result]], tmp_path: Path
) -> None:
    """``--durations`` leaves nothing together."""
    _, said, found = alone
    apart, expected = _run(tmp_path, BROKEN, "-n0", "--durations=0")
    assert _told(found) == _told(expected) != []
    assert said.splitlines()[-2] == apart.splitlines()[-2], said


def test_workers_share_the_scenarios(alone: tuple[Path, str, list[Result]], tmp_path: Path) -> None:
    _, found = _run(tmp_path, BROKEN, "-n2")
    assert _told(found) == _told(alone[2])
    assert {one.worker for one in found} == {"gw0", "gw1"}


def test_what_failed_last_is_each_case_that_failed(
    alone: tuple[Path, str, list[Result]],
) -> None:
    folder, _, found = alone
    red = [one for one in found if one.verdict in ("fail", "unknown")]
    _, again = _run(folder, BROKEN, "--lf")
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


# -- reports ---------------------------------------------------------------------------------------

_COUNTS = """
import collections, pytest
met = collections.Counter()
def pytest_runtest_logreport(report):
    met[report.when] += 1
def pytest_sessionfinish(session):
    print("reports:", dict(met))
"""


def _reported(folder: Path, *more: str) -> tuple[str, list[Result]]:
    (folder / "counting.py").write_text(_COUNTS)
    stream = folder / "result.jsonl"
    path = [str(folder), os.environ.get("PYTHONPATH", "")]
    ran = python(
        *("-m", "pytest", *pytest_arguments.ALONE, "-p", "no:cacheprovider", "-p", "counting"),
        *("-s", "--pin-machine=1s-1n-4c-smt2", "-k", "pool/", f"--pin-stream={stream}", *more),
        cwd=folder,
        PYTHONPATH=os.pathsep.join(filter(None, path)),
    )
    assert stream.exists(), ran.stdout + ran.stderr
    return ran.stdout, [one for one in read(stream) if isinstance(one, Result)]


def test_a_brief_run_reports_each_case_once_and_judges_the_same(tmp_path: Path) -> None:
    """Results that are read from a stream share their machine."""
    whole, expected = _reported(tmp_path)
    brief, found = _reported(tmp_path, *pytest_arguments.BRIEF)
    count = len(expected)
    assert count > 1
    assert f"reports: {{'setup': {count}," in whole
    assert f"reports: {{'call': {count}}}" in brief
    assert [(one.scenario, one.verdict, one.reason, one.steps) for one in found] == [
        (one.scenario, one.verdict, one.reason, one.steps) for one in expected
    ]
    assert len({id(one.machine) for one in found}) == 1


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


# -- -k before items are made: nothing is left out that pytest would run ---------------------------

MACHINES: Final = ("1s-1n-4c-smt1", "2s-2n-8c-smt2")


class _Collected:
    """What pytest makes, and what it leaves of it."""

    def __init__(self) -> None:
        self.made = 0
        self.left: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.made = len(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.left = [item.nodeid for item in session.items]


def collected(keyword: str) -> _Collected:
    found = _Collected()
    machines = [f"--pin-machine={name}" for name in MACHINES]
    words = [*ALONE, "-p", "no:cacheprovider", "-qq", "--collect-only", "--pin-no-smoke"]
    pytest.main([*words, *machines, "-k", keyword], plugins=[found])
    return found


@pytest.mark.parametrize(
    ("keyword", "few"),
    [
        ("machine/cpu-upgrade-incident", True),
        ("qos/fraction-shares and 2s", True),
        ("(pool/ or QOS/) and 1s-1n", True),
        ("not pool/", False),
        ("test_scenario", False),
        ("pinproof", False),
        ("scenario[pool/", True),
        ("smt2]", True),
    ],
)
def test_pytest_runs_the_same_cases(
    keyword: str, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = collected(keyword)
    monkeypatch.setattr(selection, "may_match", lambda keyword: lambda case: True)
    whole = collected(keyword)
    assert mine.left == whole.left != []
    assert (mine.made < whole.made) == few


def test_no_machine_is_read_for_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """One machine of eighty, where ``-k`` names a scenario that has its own."""
    read: list[str] = []
    monkeypatch.setattr(finding, "_from_catalogue", _counting(finding._from_catalogue, read))
    words = [*ALONE, "-p", "no:cacheprovider", "-qq", "--collect-only", "--pin-no-smoke"]
    pytest.main([*words, "-k", "machine/cpu-upgrade-incident"])
    assert {*read} == {"1s-1n-4c-smt1"}


def _counting(function: object, read: list[str]) -> object:
    def called(name: str) -> object:
        read.append(name)
        return function(name)  # type: ignore[operator]

    return called


def test_a_word_is_found_whatever_its_case() -> None:
    assert may_match("POOL/")("pool/shrinks@1s-1n-4c-smt1")
    assert not may_match("qos/ or state")("pool/shrinks@1s-1n-4c-smt1")
