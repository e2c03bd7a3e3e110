"""Pages that tell of tests and scenarios: current, and what they name is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from conformance.catalogue import catalogue, find
from conformance.recording import shipped
from conformance.scenario import Scenario
from differential import known_defects, upstream_tests
from reference import NEWEST

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "docs/reference/behaviours.md", ROOT / "docs/explanation/unconfirmed.md"]
_TEST: Final = re.compile(r"`([a-z0-9_]+)::([a-z0-9_]+)`")
_SCENARIO: Final = re.compile(r"`([a-z0-9-]+/[a-z0-9-]+)`")


def _tests() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "tests").glob("*/test_*.py"):
        module = path.stem.removeprefix("test_")
        for name in re.findall(r"^def test_([a-z0-9_]+)", path.read_text(), re.M):
            yield module, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_everything_named_exists(page: Path) -> None:
    """Or somebody renamed it and left the page behind."""
    text = page.read_text()
    assert sorted(set(_TEST.findall(text)) - set(_tests())) == []
    scenarios = {one.id for one in catalogue()}
    assert sorted(set(_SCENARIO.findall(text)) - scenarios) == []


def test_every_row_of_a_behaviour_is_held_by_something() -> None:
    """A row without a test is a claim."""
    rows = [
        line
        for line in PAGES[0].read_text().splitlines()
        if line.startswith("| ") and not line.startswith(("| § ", "| ---"))
    ]
    assert len(rows) > 45
    for row in rows:
        held = row.split("|")[3]
        assert _TEST.search(held) or _SCENARIO.search(held), row


def test_every_section_named_is_one_of_the_facts() -> None:
    """The numbers in the first column, and the page that each part leads to."""
    pages = {path.name: path.read_text() for path in (ROOT / "docs" / "facts").glob("[0-9]*.md")}
    known = {one for text in pages.values() for one in re.findall(r"^## ([0-9.]+) ", text, re.M)}
    cells = re.findall(r"^\| ([0-9][^|]*) \|", PAGES[0].read_text(), re.M)
    named = [number for cell in cells for number in re.findall(r"\d+\.\d+", cell)]
    assert len(named) > 45
    assert sorted(set(named) - known) == []
    leads = re.findall(
        r"^## (\d+) .*\n\nSections: .*\(\.\./facts/(\S+)\)", PAGES[0].read_text(), re.M
    )
    assert [number for number, _ in leads] == [str(number) for number in range(1, 10)]
    assert [f"{int(number):02d}" for number, _ in leads] == [name[:2] for _, name in leads]


# -- what was found in the wild ------------------------------------------------------------------

WILD: Final = ROOT / "docs/tables/found-in-the-wild.md"
IN_NEWEST: Final = [
    one for one in known_defects.defects() if known_defects.has_defect(one, int(NEWEST[2:]))
]


def test_the_page_of_defects_is_current() -> None:
    """`python -m differential.known_defects` writes it."""
    assert WILD.read_text(encoding="utf-8") == known_defects.page()


@pytest.mark.parametrize("scenario", IN_NEWEST, ids=lambda one: str(one.id))
def test_a_real_kubelet_of_the_newest_release_has_the_defect(scenario: Scenario) -> None:
    """Or the model would accuse it alone."""
    recording = shipped(NEWEST)
    assert recording is not None
    assert scenario.id in {name for name, _ in recording.cases}


def test_a_story_names_configuration_command_and_what_was_seen() -> None:
    """A reader can follow it without the suite."""
    text = WILD.read_text(encoding="utf-8")
    section = text.partition("## options/full-pcpus-restart-refuses-what-runs\n")[2]
    assert "option full-pcpus-only=true" in section
    assert "pinproof run --subject kubelet:1.36 --machine 1s-1n-4c-smt2 -k options/" in section
    assert "Pod a is refused: `Pod was rejected: SMT Alignment Error" in section


# -- upstream's tests ----------------------------------------------------------------------------


def test_the_page_of_upstreams_tests_is_current() -> None:
    """`python -m differential.upstream_tests` writes it."""
    shown = ROOT / "docs/tables/upstream-tests.md"
    assert shown.read_text(encoding="utf-8") == upstream_tests.page()


@pytest.mark.parametrize(
    "one", upstream_tests.upstream_tests(), ids=lambda one: f"{one.file}:{one.line}"
)
def test_each_has_an_equal_or_a_reason(one: upstream_tests.UpstreamTest) -> None:
    assert bool(one.scenarios) != bool(one.missing)
    assert [name for name in one.scenarios if find(name) is None] == []
