"""The result stream of a run, as the tests of the command line read it."""

from __future__ import annotations

from tests.cli.conftest import results

__all__ = ["results"]
