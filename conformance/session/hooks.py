"""Hooks for pytest plugins that follow a run of the suite. They are called in the process that
writes the result stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.known import Standing
    from conformance.results import Result


def pytest_pinproof_begin(total: int) -> None:
    """A run of ``total`` cases begins."""


def pytest_pinproof_result(result: Result, standing: Standing) -> None:
    """One more result."""
