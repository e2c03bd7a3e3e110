"""The scenario that CONTRIBUTING.md grows is one: it fails where it should, and passes else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from conformance import scenario as registry
from conformance.catalogue import catalogue
from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.recording import PromisesOnly
from conformance.scenario import Scenario
from conformance.subject import Subject
from conformance.subjects.miniatures import miniature
from conformance.subjects.reference import ReferenceSubject
from reference import NEWEST
from topologies import machine

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> Scenario:
    """The finished scenario of the page, in a catalogue of its own."""
    catalogue()
    monkeypatch.setattr(registry, "_REGISTRY", {})
    steps, whole, _ = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S
    )
    compile(steps, str(PAGE), "exec")
    exec(compile(whole, str(PAGE), "exec"), {"__name__": __name__})
    (found,) = registry._REGISTRY.values()
    return found


def _verdict(grown: Scenario, subject: Subject, *, model: bool) -> str:
    def oracle(*args: Any, **kwargs: Any) -> ModelOracle | PromisesOnly:
        return ModelOracle(*args, release=NEWEST, **kwargs) if model else PromisesOnly()

    case = Case(grown, machine("1s-1n-4c-smt2"))
    return judge(case, subject, oracle=oracle, release=NEWEST).result.verdict


@pytest.mark.parametrize("model", [True, False], ids=["model", "promise alone"])
def test_the_scenario_of_the_page_fails_where_it_should(grown: Scenario, model: bool) -> None:
    """On the miniature that the page names, and on no other subject."""
    assert _verdict(grown, miniature("forgets-to-give-back"), model=model) == "fail"
    assert _verdict(grown, ReferenceSubject(), model=model) == "pass"
