"""Recording golden results again: the drivers that are built say what is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from conformance.subjects.exec.program import Program
from differential import record_golden
from differential.record_golden import GOLDEN, Outcome, Row, askable, machine_info, read_machines
from reference.releases import Release

MACHINES = read_machines(GOLDEN / "kubelet-topologies.json")
ALIGNED = read_machines(GOLDEN / "align-by-socket-topologies.json")


@pytest.fixture
def program(release: str, driver_path: Callable[[str], Path]) -> Iterator[Program]:
    """The driver of the release."""
    path = driver_path(release)
    with closing(Program(path.name, [str(path)])) as made:
        yield made


@pytest.mark.parametrize("release", ["1.22", "1.26", "1.32", "1.36", "1.37"])
def test_a_driver_allocates_as_recorded(program: Program) -> None:
    rows = record_golden.read_rows(GOLDEN / "kubelet-allocations.jsonl.gz")
    outcome = record_golden.record_rows(program, rows, MACHINES)
    assert outcome.differences == []
    assert outcome.equal > 600


@pytest.mark.parametrize("release", ["1.26", "1.32", "1.36", "1.37"])
def test_a_driver_refuses_the_files_that_are_recorded_as_refused(program: Program) -> None:
    cases = json.loads((GOLDEN / "checkpoints-1.37.json").read_text(encoding="utf-8"))["read"]
    outcome = record_golden.compare_checkpoints(program, cases)
    assert outcome.differences == []
    assert outcome.equal + outcome.not_asked == 82
    assert outcome.equal >= 49


def test_checkpoints_are_not_written() -> None:
    with pytest.raises(SystemExit, match="compared only"):
        record_golden.main(["checkpoints", "--driver", "1.36", "--write"])


@pytest.mark.parametrize("name", [*MACHINES, *ALIGNED])
def test_the_kubelet_is_given_the_topology_that_is_recorded(name: str) -> None:
    places = (MACHINES | ALIGNED)[name]
    found = machine_info(places).cpu_topology()
    assert {cpu: tuple(place) for cpu, place in found.details.items()} == places


@pytest.mark.parametrize(
    ("row", "release", "asked"),
    [
        ({}, "1.36", True),
        ({"strategy": "dist"}, "1.36", True),
        ({"strategy": "dist"}, "1.22", False),
        ({"strategy": "dist", "group_size": 2}, "1.36", True),
        ({"strategy": "dist", "group_size": 2, "cpus": 3}, "1.36", False),
        ({"strategy": "dist", "group_size": 2, "cpus": 10}, "1.36", False),
        ({"strategy": "dist", "v1.36": {"error": "HANG"}}, "1.36", False),
        ({"cpus": 0}, "1.36", False),
    ],
)
def test_what_the_policy_refuses_itself_is_not_asked(row: Row, release: str, asked: bool) -> None:
    whole: dict[str, Any] = {"strategy": "packed", "available": "0-7", "cpus": 2}
    assert askable(whole | row, MACHINES["1s-4c-ht"], Release.parse(release)) is asked


def test_a_difference_is_told() -> None:
    outcome = Outcome([])
    outcome.note("1s-4c-ht packed 0-7 2", "0,4", "0,4")
    outcome.note("1s-4c-ht packed 0-7 3", "0-1,4", "0-2")
    assert outcome.equal == 1
    assert outcome.differences == ["1s-4c-ht packed 0-7 3: recorded 0-1,4, now 0-2"]


def test_rows_are_written_as_they_were_read(tmp_path: Path) -> None:
    rows = record_golden.read_rows(GOLDEN / "align-by-socket-1.37.jsonl.gz")
    record_golden.write_rows(tmp_path / "rows.jsonl.gz", rows)
    assert record_golden.read_rows(tmp_path / "rows.jsonl.gz") == rows


@pytest.mark.parametrize("what", record_golden.WHAT)
def test_it_says_what_it_records_from(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        record_golden.main([what])
    assert ended.value.code == 2
    assert "is recorded from a" in capsys.readouterr().err
