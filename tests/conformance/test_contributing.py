"""The scenario that the contributor's tutorial grows is one: it fails where it should, and passes
else. ``.ci/tutorials`` types the page."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from conformance import scenario as registry
from conformance.catalogue import catalogue
from conformance.scenario import Scenario
from conformance.subjects.miniatures import miniature
from tests.conformance.judging import judged
from tests.support.transcripts import blocks

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "tutorials" / "contributor.md"


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> Scenario:
    """The finished scenario of the page, in a catalogue of its own."""
    catalogue()
    monkeypatch.setattr(registry, "_REGISTRY", {})
    steps, whole = (one.text for one in blocks(PAGE) if one.language == "python")
    compile(steps, str(PAGE), "exec")
    exec(compile(whole, str(PAGE), "exec"), {"__name__": __name__})
    (found,) = registry._REGISTRY.values()
    return found


@pytest.mark.parametrize("model", [True, False], ids=["model", "promise alone"])
def test_the_scenario_of_the_page_fails_where_it_should(grown: Scenario, model: bool) -> None:
    """On the miniature that the page names, and on no other subject."""
    wrong = judged(grown, "1s-1n-4c-smt2", miniature("forgets-to-give-back"), model=model)
    assert wrong.verdict == "fail"
    assert judged(grown, "1s-1n-4c-smt2", model=model).verdict == "pass"
