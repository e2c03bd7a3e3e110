"""Machines that show no clock speed, under a kubelet built for amd64."""

from __future__ import annotations

import pytest

from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.clock import with_clock
from differential.detected import detect
from topologies import Machine, Tree, describe, machine
from topologies.entries import catalogue_entry
from topologies.paths import CPU
from topologies.steady import steady

PATH = f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq"
CLOCKLESS = ("2s-4n-128c-smt1-arm64-kunpeng920", "6s-1n-20c-smt1-s390x-z196")


@pytest.mark.parametrize("name", CLOCKLESS)
def test_a_clock_is_added_and_nothing_else(name: str) -> None:
    tree = machine(name).tree
    assert dict(with_clock(tree)) == {**tree, PATH: "2000000\n"}
    assert dict(with_clock(with_clock(tree))) == dict(with_clock(tree))


@pytest.mark.parametrize("name", ["2s-2n-16c-smt2", "8s-8n-64c-smt4-ppc64-power7"])
def test_a_machine_that_shows_a_clock_stays_as_it_is(name: str) -> None:
    tree = machine(name).tree
    assert with_clock(tree) is tree


def test_a_collected_node_without_cpufreq_has_a_clock(subject: KubeletSubject) -> None:
    """What a node measures is left out of its machine, its clock speed too."""
    whole = machine("2s-2n-16c-smt2")
    shown = {path: text for path, text in whole.tree.items() if "/cpufreq" not in path}
    collected = Machine("node", steady(Tree(shown)))
    assert "MHz" not in collected.tree["proc/cpuinfo"]
    assert detect(subject, collected).cpu_topology["NumCPUs"] == 32


def test_a_tree_without_cpuinfo_stays_as_it_is() -> None:
    """The kubelet then says itself what it lacks."""
    whole = describe("1s-1n-2c-smt1").tree
    tree = Tree({path: text for path, text in whole.items() if path != "proc/cpuinfo"})
    assert with_clock(tree) is tree


@pytest.mark.parametrize("name", CLOCKLESS)
def test_a_real_kubelet_starts_on_it(subject: KubeletSubject, name: str) -> None:
    assert catalogue_entry(name).architecture in ("aarch64", "s390x")
    assert detect(subject, machine(name)).cpu_topology["NumCPUs"] in (20, 128)


def test_the_reserved_cpu_is_one_that_a_kubelet_knows(subject: KubeletSubject) -> None:
    """CPU 4 is online and in no NUMA node."""
    found = detect(subject, machine("2s-2n-24c-smt1-off0-3,21-23-xeon-e5-2680v3"))
    assert min(map(int, found.cpu_topology["CPUDetails"])) == 5
