"""Each find that is told in docs/hunt-finds.md, on the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from differential.hunt_finds import finds, page
from hunting.finds import Find
from hunting.known import defect_of
from hunting.replaying import replayed

_PAGE = Path(__file__).parents[2] / "docs" / "hunt-finds.md"


@pytest.mark.parametrize("find", finds(), ids=lambda find: find.key)
def test_the_model_breaks_the_promise_in_the_same_way(find: Find) -> None:
    """And for the same known defect, if for any."""
    broken = replayed(find.task, find.history, find.promise)
    assert broken is not None
    difference = broken.violation.difference
    assert (broken.violation.rule, difference.what, difference.expected, difference.seen) == (
        find.rule,
        find.what,
        find.expected,
        find.seen,
    )
    defect = defect_of(broken)
    assert (defect.number if defect else 0) == find.issue


def test_each_was_shown_on_a_real_kubelet() -> None:
    """Or it would be a fault of the model."""
    assert all(any(find.confirmed.values()) for find in finds())


def test_the_page_is_what_its_command_writes() -> None:
    """Every story is walked again."""
    assert _PAGE.read_text() == page()
