"""The page of upstream's tests: current, and every scenario that it names is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.catalogue import find
from differential.upstream_tests import UpstreamTest, page, upstream_tests


def test_the_page_is_current() -> None:
    """`python -m differential.upstream_tests` writes it."""
    shown = Path(__file__).parents[2] / "docs/tables/upstream-tests.md"
    assert shown.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("one", upstream_tests(), ids=lambda one: f"{one.file}:{one.line}")
def test_each_has_an_equal_or_a_reason(one: UpstreamTest) -> None:
    """A scenario that exists, or what is missing."""
    assert bool(one.scenarios) != bool(one.missing)
    assert [name for name in one.scenarios if find(name) is None] == []
