"""The digest of a machine: equal for two captures of it, another one for another machine."""

from __future__ import annotations

import pytest

import topologies
from topologies import Machine, Tree
from topologies.paths import CPU, CPUINFO, NODE
from topologies.processor import memory_by_node, microcode, processor
from topologies.steady import steady, steady_digest

MEMINFO = f"{NODE}/node0/meminfo"
FREE = f"{NODE}/node0/hugepages/hugepages-2048kB/free_hugepages"


def changed(machine: Machine, path: str, old: str, new: str) -> Machine:
    text = machine.tree.get(path, "")
    assert old in text or not text
    return Machine(machine.name, Tree({**machine.tree, path: text.replace(old, new) or new}))


@pytest.fixture
def machine() -> Machine:
    return topologies.machine("qemu-2s-2n-16c-smt2")


def test_what_passes_is_not_in_it(machine: Machine) -> None:
    later = changed(machine, MEMINFO, "121764 kB", "99 kB")
    later = changed(later, MEMINFO, "154628 kB", "154616 kB")
    later = changed(later, CPUINFO, "2300.006", "3100.120")
    later = changed(later, CPUINFO, "bogomips\t: 4600.01", "bogomips\t: 4599.98")
    later = changed(later, FREE, "0", "12")
    assert later.digest != machine.digest
    assert steady_digest(later) == steady_digest(machine)
    assert steady_digest(Machine("other", machine.tree)) == steady_digest(machine)


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (CPUINFO, "Skylake", "Icelake"),
        (CPUINFO, "0x1", "0x2"),
        (f"{CPU}/online", "0-31", "0-30"),
        (f"{CPU}/cpu3/topology/core_id", "3", "4"),
        (f"{NODE}/node1/distance", "10", "12"),
    ],
)
def test_what_the_machine_is_is_in_it(machine: Machine, path: str, old: str, new: str) -> None:
    assert steady_digest(changed(machine, path, old, new)) != steady_digest(machine)


def test_a_steady_tree_keeps_totals(machine: Machine) -> None:
    tree = steady(machine.tree)
    assert tree[MEMINFO] == ("Node 0 MemTotal:         154628 kB\nNode 0 HugePages_Total:     0\n")
    assert "MHz" not in tree[CPUINFO]
    assert FREE not in tree
    assert memory_by_node(tree) == memory_by_node(machine.tree)
    assert sum(memory_by_node(tree).values()) > 154628 << 10


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("qemu-2s-2n-16c-smt2", "Intel Xeon Processor (Skylake)"),
        ("4s-4n-30c-smt8-ppc64", "POWER10 (architected), altivec supported"),
        ("1s-1n-96c-smt1-arm64", "ARM implementer 0x41, part 0xd4f"),
        ("6s-6n-30c-smt2-s390x-books2-drawers2", "IBM/S390 3931"),
    ],
)
def test_the_processor_has_a_name_on_every_architecture(name: str, model: str) -> None:
    assert processor(topologies.machine(name).tree) == model


def test_a_tree_without_cpuinfo_has_no_processor() -> None:
    empty = Tree({})
    assert (processor(empty), microcode(empty), memory_by_node(empty)) == ("", "", {})
