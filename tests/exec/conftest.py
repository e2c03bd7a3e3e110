"""Programs for the subject ``exec:``: one that goes wrong on request, and the real drivers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance.subjects.exec import ExecSubject, drivers
from tests.support import lacking

WRONG = Path(__file__).parents[1] / "support/program_gone_wrong.py"


@pytest.fixture
def wrong() -> str:
    """The command line of the program that goes wrong, but for its manner."""
    return f"{sys.executable} {WRONG}"


@pytest.fixture(scope="session")
def driver_path() -> Callable[[str], Path]:
    """Where the driver of a release is; the test is skipped where none was built."""

    def find(release: str) -> Path:
        found = drivers.WORKSHOP.ready(release)
        if found is None:
            lacking.skip("driver", f"{release} is not compared with Go")
        return found

    return find


@pytest.fixture
def driver(driver_path: Callable[[str], Path]) -> Iterator[ExecSubject]:
    """The driver of 1.36 as a subject."""
    subject = ExecSubject.open(str(driver_path("1.36")))
    yield subject
    subject.close()
