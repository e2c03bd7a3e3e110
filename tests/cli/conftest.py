"""What a run leaves: its result stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from conformance.results import Footer, Header, Result, read
from tests.cli import running
from tests.cli.running import Done

Command: TypeAlias = Callable[..., Done]
Stream: TypeAlias = Callable[[Path], tuple[Header, list[Result], Footer]]


@pytest.fixture
def pinproof() -> Command:
    """Runs ``pinproof``, for tests of other folders."""
    return running.pinproof


@pytest.fixture
def results() -> Stream:
    """Reads the result stream in a report's directory."""

    def of(directory: Path) -> tuple[Header, list[Result], Footer]:
        header, *between, footer = read(directory / "result.jsonl")
        assert isinstance(header, Header)
        assert isinstance(footer, Footer)
        return header, [one for one in between if isinstance(one, Result)], footer

    return of


@dataclass(frozen=True)
class Judged:
    """A run that ended: what it printed, and what is in its result stream."""

    done: Done
    header: Header
    found: list[Result]
    footer: Footer

    @property
    def failed(self) -> list[Result]:
        """The results of broken promises."""
        return [one for one in self.found if one.verdict == "fail"]


Judges: TypeAlias = Callable[..., Judged]


@pytest.fixture
def judged(results: Stream, tmp_path: Path) -> Judges:
    """``pinproof run`` with a report in ``tmp_path``, or in a folder of this name there."""

    def run(*words: str, folder: str = "", **settings: Any) -> Judged:
        report = tmp_path / folder
        done = running.pinproof("run", *words, "--report", str(report), **settings)
        return Judged(done, *results(report))

    return run
