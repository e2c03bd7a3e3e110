"""A machine in the form that dra-driver-cpu's setting ``sysfsOverlay`` reads.

No test runs the driver. What the form says of a machine is held against what a kubelet finds on it.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Hashable, Mapping

import pytest

import topologies
from conformance.discovered import topology_of
from reference import NEWEST
from topologies import BrokenMachine, Link, Tree, describe
from topologies.cpulist import ids, parse_list
from topologies.overlay import passed_over, refusal, sysfs_overlay

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
CONTROL = f"{CPU}/smt/control"
WHOLE = describe("2s-2n-4c-smt2").tree

#: Where the driver finds other cores, sockets or NUMA nodes than a kubelet.
OTHERWISE = {
    "2s-2n-24c-smt1-off0-3,21-23-xeon-e5-2680v3",  # the kubelet takes NUMA node 1 for the machine
    "2s-8n-8c-smt1-xeon-e5472-buggynuma",  # a CPU is in several NUMA nodes
    "4s-8n-64c-smt1-opteron6276",  # each die counts its cores from 0
    "qemu-4s-16n-32c-smt2-near-dies",  # each die counts its cores from 0
    "6s-1n-20c-smt1-s390x-z196",  # no socket has an id
    "qemu-1s-1n-8c-smt1-arm64-clusters",  # each cluster counts its cores from 0
}
#: On which the driver does not start, or leaves CPUs out.
REFUSED = {
    "qemu-1s-1n-4c-smt4-near": "0-3",
    "1s-2n-8c-smt4-near": "0-3",
    "8s-8n-32c-smt4-near": "0-3",
    "4s-4n-30c-smt8-ppc64": "0-7",
    "qemu-4s-16n-32c-smt2-near-dies": "0-1,8-9",
}
WITHOUT_NUMA_NODES = {
    "qemu-4s-4n-4c-smt1-s390x-books4-drawers4",
    "6s-6n-30c-smt2-s390x-books2-drawers2",
    "6s-1n-20c-smt1-s390x-z196",
}
WITHOUT_SOCKETS = {"6s-1n-20c-smt1-s390x-z196", "8s-8n-64c-smt4-ppc64-power7"}


def groups(named: Mapping[int, Hashable]) -> set[frozenset[int]]:
    """Which CPUs have the same name, whatever the name."""
    found: dict[Hashable, set[int]] = defaultdict(set)
    for cpu, name in named.items():
        found[name].add(cpu)
    return {frozenset(cpus) for cpus in found.values()}


def node_names(overlay: Mapping[str, str]) -> dict[int, list[str]]:
    """As the driver looks for them: the entries of each CPU's folder that begin with ``node``."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in overlay:
        if match := re.fullmatch(rf"{CPU}/cpu(\d+)/(node.*)", path):
            found[int(match[1])].append(match[2])
    return found


@pytest.mark.parametrize("name", topologies.names())
def test_the_overlay_says_of_a_machine_what_a_kubelet_finds(name: str) -> None:
    machine = topologies.machine(name)
    overlay, details = sysfs_overlay(machine.tree), topology_of(machine, release=NEWEST).details
    cpus = list(ids(parse_list(overlay[f"{CPU}/online"])))
    said = {
        field: [overlay.get(f"{CPU}/cpu{cpu}/topology/{field}") for cpu in cpus]
        for field in ("physical_package_id", "cluster_id", "core_id")
    }
    found = [
        groups(dict(zip(cpus, said["physical_package_id"], strict=True))),
        groups(dict(zip(cpus, zip(*said.values(), strict=True), strict=True))),
    ]
    right = [
        groups({cpu: place.socket for cpu, place in details.items()}),
        groups({cpu: place.core for cpu, place in details.items()}),
    ]
    nodes = node_names(overlay)
    same_nodes = name in WITHOUT_NUMA_NODES or {cpu: nodes[cpu] for cpu in cpus} == {
        cpu: [f"node{place.numa}"] for cpu, place in details.items()
    }
    assert (found == right and same_nodes) == (name not in OTHERWISE)


@pytest.mark.parametrize("name", topologies.names())
def test_it_is_told_where_the_driver_refuses_a_machine_or_leaves_cpus_out(name: str) -> None:
    tree = topologies.machine(name).tree
    taken = f"it takes CPUs {REFUSED.get(name)} for one core, and a core has 2 CPUs at most"
    assert refusal(tree) == (taken if name in REFUSED else "")
    assert bool(passed_over(tree)) == (name in WITHOUT_NUMA_NODES | WITHOUT_SOCKETS)


def test_every_path_is_a_clean_one_of_sysfs_and_none_is_a_file_and_a_folder() -> None:
    """The driver refuses any other."""
    overlay = sysfs_overlay(WHOLE)
    for path in overlay:
        assert path.startswith("/sys/")
        assert posixpath.normpath(path) == path
        assert not [other for other in overlay if other.startswith(f"{path}/")]


def test_a_cpu_has_one_numa_node_an_empty_file() -> None:
    overlay = sysfs_overlay(WHOLE)
    assert node_names(overlay) == {cpu: [f"node{cpu % 4 // 2}"] for cpu in range(8)}
    assert overlay[f"{CPU}/cpu2/node1"] == ""


def test_the_lists_of_the_nodes_stand_in_for_links_that_old_kernels_lack() -> None:
    bare = Tree({path: text for path, text in WHOLE.items() if not isinstance(text, Link)})
    assert sysfs_overlay(bare) == sysfs_overlay(WHOLE)


def test_what_the_driver_does_not_read_is_left_out() -> None:
    overlay = sysfs_overlay(WHOLE)
    assert overlay[f"{NODE}/node1/cpulist"] == "2-3,6-7\n"
    assert overlay[f"{CPU}/cpu0/cache/index3/level"] == "3\n"
    assert not [path for path in overlay if path.endswith(("meminfo", "size", "core_cpus"))]


@pytest.mark.parametrize(
    ("machine", "control"),
    [
        ("1s-1n-4c-smt2", "on\n"),
        ("1s-1n-4c-smt1", "notsupported\n"),
        ("qemu-1s-1n-4c-smt2-near-off1,3,5,7", "off\n"),
    ],
)
def test_smt_is_never_the_hosts(machine: str, control: str) -> None:
    """Described machines do not say it; captured ones do."""
    assert sysfs_overlay(topologies.machine(machine).tree)[CONTROL] == control


def test_smt_is_not_on_where_the_other_cpus_of_the_cores_are_offline() -> None:
    half = topologies.offline(describe("1s-1n-4c-smt2"), range(4, 8))
    assert sysfs_overlay(half.tree)[CONTROL] == "notsupported\n"


def test_a_machine_whose_online_cpus_cannot_be_read_has_no_overlay() -> None:
    broken = {**WHOLE, f"{CPU[1:]}/online": "some\n"}
    with pytest.raises(BrokenMachine, match="cpu/online"):
        sysfs_overlay(Tree(broken))
