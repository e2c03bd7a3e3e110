"""Every kind of machine that the catalogue is to hold is in it, told by its files and not by its
name, and captured from a real kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from reference import CPUTopology, MachineInfo, discover
from topologies import Tree, machine, names
from topologies.cpulist import ids, parse_list
from topologies.entries import CATALOGUE, catalogue_entry
from topologies.paths import CPU, NODE

ARCHIVES = sorted(path.name.removesuffix(".tar.xz") for path in CATALOGUE.glob("*.tar.xz"))
#: By us, from x86: the kinds below are told by files that others lack.
CAPTURED = [
    name
    for name in ARCHIVES
    if not (entry := catalogue_entry(name)).imported and entry.architecture == "x86_64"
]


@dataclass(frozen=True)
class Facts:
    """A machine by what its files say."""

    tree: Tree
    info: MachineInfo

    @property
    def topology(self) -> CPUTopology:
        return self.info.cpu_topology()

    @property
    def sockets(self) -> int:
        return self.topology.num_sockets

    @property
    def nodes(self) -> int:
        """Those with CPUs."""
        return len(self.topology.numa_masks)

    def cpus(self, name: str) -> set[int]:
        return set(ids(parse_list(self.tree[f"{CPU}/{name}"])))

    def siblings(self, cpu: int) -> tuple[int, ...]:
        """The threads of its core."""
        listed = self.tree[f"{CPU}/cpu{cpu}/topology/thread_siblings_list"]
        return tuple(ids(parse_list(listed)))

    def number(self, cpu: int, name: str) -> int:
        return int(self.tree[f"{CPU}/cpu{cpu}/topology/{name}"])

    def places(self, name: str) -> set[tuple[int, int]]:
        """Package and some id in it."""
        return {
            (self.number(cpu, "physical_package_id"), self.number(cpu, name))
            for cpu in self.topology.cpus
        }

    def caches(self, node: int) -> int:
        """L3 caches of a NUMA node."""
        cpus = (cpu for cpu, place in self.topology.details.items() if place.numa == node)
        return len({self.tree[f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list"] for cpu in cpus})


def facts(name: str) -> Facts:
    tree = machine(name).tree
    return Facts(tree, discover(tree))


def near(one: Facts) -> bool:
    return one.siblings(0) == (0, 1)


def far(one: Facts) -> bool:
    return len(one.siblings(0)) == 2 and one.siblings(0)[1] == one.topology.num_cores > 1


def interleaved(one: Facts) -> bool:
    """Neighbours by number are in different sockets."""
    first, second, *_ = *one.topology.cpus, 0
    return one.number(first, "physical_package_id") != one.number(second, "physical_package_id")


def whole(one: Facts) -> bool:
    """Nothing is switched off."""
    return one.cpus("online") == one.cpus("present")


def gaps(one: Facts) -> bool:
    """Ids that no CPU has, switched off or not."""
    present = one.cpus("present")
    return whole(one) and present != set(range(max(present) + 1))


def uneven(one: Facts) -> bool:
    return len({len(one.siblings(cpu)) for cpu in one.topology.cpus}) > 1


KINDS: dict[str, Callable[[Facts], bool]] = {
    "one socket": lambda one: one.sockets == one.nodes == 1,
    "one socket, threads near": lambda one: one.sockets == 1 and near(one),
    "one socket, threads far": lambda one: one.sockets == 1 and far(one),
    "two sockets, threads near": lambda one: one.sockets == one.nodes == 2 and near(one),
    "two sockets, threads far": lambda one: one.sockets == one.nodes == 2 and far(one),
    "four sockets": lambda one: one.sockets == one.nodes == 4,
    "eight sockets": lambda one: one.sockets == one.nodes == 8,
    "without SMT": lambda one: whole(one) and one.topology.num_cpus == one.topology.num_cores > 1,
    "four threads in a core": lambda one: len(one.siblings(0)) == 4,
    "ids go round the sockets": lambda one: one.nodes < len(one.topology.cpus) and interleaved(one),
    "NPS4: a die and an L3 in each of four NUMA nodes of a socket": lambda one: (
        one.nodes == 4 * one.sockets == len(one.places("die_id"))
        and all(one.caches(node) == 1 for node in one.topology.numa_masks)
    ),
    "sub-NUMA clustering: NUMA nodes of a socket under one L3": lambda one: (
        one.nodes == 2 * one.sockets
        and len(one.places("die_id")) == one.sockets == len(one.topology.uncore_masks)
    ),
    "several L3 in a NUMA node": lambda one: one.caches(min(one.topology.numa_masks)) > 1,
    "several dies in a package": lambda one: len(one.places("die_id")) > one.sockets,
    "a NUMA node with memory and no CPU": lambda one: any(
        not node.cores and node.memory for node in one.info.nodes
    ),
    "a NUMA node with CPUs and no memory": lambda one: (
        parse_list(one.tree[f"{NODE}/has_cpu"]) & ~parse_list(one.tree[f"{NODE}/has_memory"]) != 0
    ),
    "offline CPUs": lambda one: one.cpus("online") < one.cpus("present"),
    "SMT switched off": lambda one: (
        one.tree.get(f"{CPU}/smt/active", "").strip() == "0"
        and one.cpus("online") < one.cpus("present")
    ),
    "ids of CPUs with gaps": gaps,
    "ids of packages with gaps": lambda one: (
        max(package for package, _ in one.places("die_id")) >= one.sockets
    ),
    "hybrid-like: cores with one thread and with two": lambda one: uneven(one) and whole(one),
    "more sockets than NUMA nodes": lambda one: one.sockets > one.nodes,
    "one NUMA node over two sockets": lambda one: any(
        len({one.number(cpu, "physical_package_id") for cpu in ids(mask)}) == 2
        for mask in one.topology.numa_masks.values()
    ),
    "one CPU": lambda one: one.topology.num_cpus == 1,
    "more than 64 CPUs": lambda one: one.topology.num_cpus > 64,
    "more than 128 CPUs": lambda one: one.topology.num_cpus > 128,
}


@pytest.fixture(scope="module")
def captured() -> dict[str, Facts]:
    return {name: facts(name) for name in CAPTURED}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_there_from_a_real_kernel(kind: str, captured: dict[str, Facts]) -> None:
    """And is not every machine, or that would say nothing."""
    found = [name for name, one in captured.items() if KINDS[kind](one)]
    assert 0 < len(found) < len(captured)


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64", "ppc64", "s390x"])
def test_every_architecture_is_there_as_hardware_from_our_kernels_and_described(
    architecture: str,
) -> None:
    found = [
        entry
        for name in names()
        if (entry := catalogue_entry(name)).architecture.startswith(architecture)
    ]
    assert any(entry.imported for entry in found)
    assert any(entry.name in ARCHIVES and not entry.imported for entry in found)
    assert any(entry.name not in ARCHIVES for entry in found)


def test_the_largest_has_512_cpus() -> None:
    """No emulator here numbers so many: it is described, and says from what."""
    large = [name for name in names() if machine(name).shape.startswith("2s-2n-256c-smt2")]
    assert large
    for name in large:
        assert facts(name).topology.num_cpus == 512
        assert len(catalogue_entry(name).source) > len("described from ") + 10
