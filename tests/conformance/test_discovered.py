"""What is found once is not looked for again."""

from __future__ import annotations

import topologies
from conformance import discovered
from conformance.discovered import info_of, topology_of
from reference import NEWEST


def test_a_topology_is_made_once() -> None:
    machine = topologies.machine("1s-1n-4c-smt2")
    assert topology_of(machine, release=NEWEST) is topology_of(machine, release=NEWEST)
    info = info_of(machine.tree, release=NEWEST)
    assert info.cpu_topology() is info.cpu_topology()


def test_every_machine_of_the_catalogue_is_remembered() -> None:
    """With one more of each, which a scenario made by taking a CPU offline."""
    assert 2 * len(topologies.entry_names()) <= discovered._KEPT
