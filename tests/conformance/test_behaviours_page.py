"""The page of behaviours: every test and scenario that it names is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from conformance.catalogue import catalogue

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "docs" / name for name in ("behaviours.md", "unconfirmed.md")]
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
    leads = re.findall(r"^## (\d+) .*\n\nSections: .*\(facts/(\S+)\)", PAGES[0].read_text(), re.M)
    assert [number for number, _ in leads] == [str(number) for number in range(1, 10)]
    assert [f"{int(number):02d}" for number, _ in leads] == [name[:2] for _, name in leads]


def test_every_section_has_rows() -> None:
    """The nine sections, in order."""
    found = re.findall(r"^## ([1-9]) ", PAGES[0].read_text(), re.M)
    assert found == [str(number) for number in range(1, 10)]
