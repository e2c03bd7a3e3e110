"""Marks by which ``-m`` selects scenarios."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from conformance.catalogue import catalogue
from conformance.results import Result, read
from conformance.session.marks import marks_of
from tests.cli.running import here, python


def test_every_scenario_has_its_level_and_what_importers_ask_for() -> None:
    for one in catalogue():
        level, says = marks_of(one)
        assert level.name == one.level.value
        assert says.name == "pinproof"
        assert (says.kwargs["area"], says.kwargs["level"]) == (one.area, one.level.value)
    risks = Counter(marks_of(one)[1].kwargs["risk"] for one in catalogue())
    assert set(risks) >= {"pods", "kubelet-restart", "cpu-offline", "reboot"}


@pytest.mark.parametrize(
    ("expression", "is_left"),
    [
        ("core", lambda one: one.level.value == "core"),
        ("extended and pinproof(risk='pods')", lambda one: one.level.value == "extended"
            and marks_of(one)[1].kwargs["risk"] == "pods"),
    ],
)  # fmt: skip
def test_a_run_has_the_scenarios_of_the_expression(
    expression: str, is_left: object, tmp_path: Path
) -> None:
    """Of one area, so that the run is short."""
    assert callable(is_left)
    here("run", "--machine", "1s-1n-4c-smt2", "-n", "0", "--report", str(tmp_path), "-m",
         f"{expression} and pinproof(area='pool')", status=0)  # fmt: skip
    found = {one.scenario for one in read(tmp_path / "result.jsonl") if isinstance(one, Result)}
    assert found == {one.id for one in catalogue() if one.area == "pool" and is_left(one)}
    assert found


def test_the_marks_are_registered(tmp_path: Path) -> None:
    """So that ``--strict-markers`` takes them under plain pytest."""
    words = ("--pyargs", "conformance.suite", "--strict-markers", "-q", "-p", "no:cacheprovider")
    asked = ("--pin-machine", "1s-1n-4c-smt2", "-k", "pool/", "-m", "core")
    done = python("-m", "pytest", *words, *asked, cwd=tmp_path, status=0)
    core = [one for one in catalogue() if one.area == "pool" and one.level.value == "core"]
    assert f"{len(core)} passed" in done.stdout
