"""What is found once is not looked for again."""

from __future__ import annotations

import pytest

import topologies
from conformance import discovered
from conformance.discovered import contradiction, info_of, topology_of
from reference import NEWEST


def test_a_topology_is_made_once() -> None:
    machine = topologies.machine("1s-1n-4c-smt2")
    assert topology_of(machine, release=NEWEST) is topology_of(machine, release=NEWEST)
    info = info_of(machine.tree, release=NEWEST)
    assert info.cpu_topology() is info.cpu_topology()


def test_every_machine_of_the_catalogue_is_remembered() -> None:
    """With one more of each, which a scenario made by taking a CPU offline."""
    assert 2 * len(topologies.entry_names()) <= discovered._KEPT


def test_the_machine_asked_for_longest_ago_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discovered, "_KEPT", 2)
    monkeypatch.setattr(discovered, "_infos", {})
    one, two, three = (topologies.describe(f"1s-1n-{cores}c-smt1").tree for cores in (1, 2, 3))
    first = info_of(one, release=NEWEST)
    second = info_of(two, release=NEWEST)
    assert info_of(one, release=NEWEST) is first
    info_of(three, release=NEWEST)
    assert info_of(one, release=NEWEST) is first
    assert info_of(two, release=NEWEST) is not second


@pytest.mark.parametrize(
    ("release", "lists_offline"), [("1.18", True), ("1.20", False), ("1.36", False)]
)
def test_a_machine_that_contradicts_itself_is_not_judged_by_releases_that_read_cpuinfo(
    release: str, lists_offline: bool
) -> None:
    """The capture's ``/proc/cpuinfo`` lists CPUs 0-3 and 21-23, which sysfs says are offline."""
    odd = topologies.machine("2s-2n-24c-smt1-off0-3,21-23-xeon-e5-2680v3")
    reason = contradiction(odd, topology_of(odd, release=release), release=release)
    assert reason.endswith("lists offline CPUs 0-3,21-23") is lists_offline
    assert bool(reason) is lists_offline
    usual = topologies.machine("2s-2n-8c-smt2")
    assert contradiction(usual, topology_of(usual, release=release), release=release) == ""
