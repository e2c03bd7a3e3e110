"""What a run leaves: its result stream; and an API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from conformance.results import Footer, Header, Result, read
from tests.cli import running
from tests.cli.running import Done
from tests.support.cluster import Cluster, running_cluster

Stream: TypeAlias = Callable[[Path], tuple[Header, list[Result], Footer]]


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
    """``pinproof run`` with a report in ``tmp_path``, or in a folder of this name there. A kubelet
    gets a process of its own."""

    def run(*words: str, folder: str = "", **settings: Any) -> Judged:
        report = tmp_path / folder
        command = running.pinproof if "kubelet:" in " ".join(words) else running.here
        done = command("run", *words, "--report", str(report), **settings)
        return Judged(done, *results(report))

    return run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real API server, without a kubelet."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made
