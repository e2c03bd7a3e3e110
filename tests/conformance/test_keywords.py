"""``-k`` before items are made: nothing is left out that pytest would run."""

from __future__ import annotations

from typing import Final

import pytest

from conformance.session import selection
from conformance.session.keywords import may_match
from pinproof.pytest_arguments import ALONE
from topologies import finding

MACHINES: Final = ("1s-1n-4c-smt1", "2s-2n-8c-smt2")


class _Collected:
    """What pytest makes, and what it leaves of it."""

    def __init__(self) -> None:
        self.made = 0
        self.left: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.made = len(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.left = [item.nodeid for item in session.items]


def collected(keyword: str) -> _Collected:
    found = _Collected()
    machines = [f"--pin-machine={name}" for name in MACHINES]
    words = [*ALONE, "-p", "no:cacheprovider", "-qq", "--collect-only", "--pin-no-smoke"]
    pytest.main([*words, *machines, "-k", keyword], plugins=[found])
    return found


@pytest.mark.parametrize(
    ("keyword", "few"),
    [
        ("machine/cpu-upgrade-incident", True),
        ("qos/fraction-shares and 2s", True),
        ("(pool/ or QOS/) and 1s-1n", True),
        ("not pool/", False),
        ("test_scenario", False),
        ("pinproof", False),
        ("scenario[pool/", True),
        ("smt2]", True),
    ],
)
def test_pytest_runs_the_same_cases(
    keyword: str, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = collected(keyword)
    monkeypatch.setattr(selection, "may_match", lambda keyword: lambda case: True)
    whole = collected(keyword)
    assert mine.left == whole.left != []
    assert (mine.made < whole.made) == few


def test_no_machine_is_read_for_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """One machine of eighty, where ``-k`` names a scenario that has its own."""
    read: list[str] = []
    monkeypatch.setattr(finding, "_from_catalogue", _counting(finding._from_catalogue, read))
    words = [*ALONE, "-p", "no:cacheprovider", "-qq", "--collect-only", "--pin-no-smoke"]
    pytest.main([*words, "-k", "machine/cpu-upgrade-incident"])
    assert {*read} == {"1s-1n-4c-smt1"}


def _counting(function: object, read: list[str]) -> object:
    def called(name: str) -> object:
        read.append(name)
        return function(name)  # type: ignore[operator]

    return called


def test_a_word_is_found_whatever_its_case() -> None:
    assert may_match("POOL/")("pool/shrinks@1s-1n-4c-smt1")
    assert not may_match("qos/ or state")("pool/shrinks@1s-1n-4c-smt1")
