"""docs/tables/blind-hunt.md: which defects of the past are found without knowledge of any."""

from __future__ import annotations

from pathlib import Path

import pytest

from differential.blind_hunt import Bug, bugs, found, page

_PAGE = Path(__file__).parents[2] / "docs/tables/blind-hunt.md"


def test_each_of_71_defects_is_searched_or_has_a_reason() -> None:
    """And only one of the two."""
    every = bugs()
    assert len(every) == 71
    assert all(bool(one.search) != bool(one.beyond) for one in every)


def test_the_page_is_what_its_command_writes() -> None:
    """Every search is done again."""
    assert _PAGE.read_text() == page()


@pytest.mark.parametrize("bug", [one for one in bugs() if one.search], ids=lambda one: one.number)
def test_a_defect_that_is_searched_is_found(bug: Bug) -> None:
    """In a release that had it."""
    find = found(bug)
    assert find is not None
    assert find.issue == 0
