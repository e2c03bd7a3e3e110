"""The page of what was found in the wild: current, and seen on real kubelets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from conformance.recording import shipped
from conformance.scenario import Scenario
from differential import known_defects
from reference import NEWEST

PAGE: Final = Path(__file__).parents[2] / "docs/tables/found-in-the-wild.md"
IN_NEWEST: Final = [
    one for one in known_defects.defects() if known_defects.has_defect(one, int(NEWEST[2:]))
]


def test_the_page_is_current() -> None:
    """`python -m differential.known_defects` writes it."""
    assert PAGE.read_text(encoding="utf-8") == known_defects.page()


@pytest.mark.parametrize("scenario", IN_NEWEST, ids=lambda one: str(one.id))
def test_a_real_kubelet_of_the_newest_release_has_the_defect(scenario: Scenario) -> None:
    """Or the model would accuse it alone."""
    recording = shipped(NEWEST)
    assert recording is not None
    assert scenario.id in {name for name, _ in recording.cases}


def test_a_story_names_configuration_command_and_what_was_seen() -> None:
    """A reader can follow it without the suite."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition("## options/full-pcpus-restart-refuses-what-runs\n")[2]
    assert "option full-pcpus-only=true" in section
    assert "pinproof run --subject kubelet:1.36 --machine 1s-1n-4c-smt2 -k options/" in section
    assert "Pod a is refused: `Pod was rejected: SMT Alignment Error" in section
