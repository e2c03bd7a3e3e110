"""The command as a user runs it, as the tests of the command line have it."""

from __future__ import annotations

from tests.cli.conftest import pinproof, results

__all__ = ["pinproof", "results"]
