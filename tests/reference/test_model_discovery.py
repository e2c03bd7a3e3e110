"""Discovery: trees written here, and what cAdvisor made of the captured ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import topologies
from reference import Cache, DiscoveryError, NotModelled, discover

GOLDEN = Path(__file__).parents[1] / "golden"
CPU, NODE = "sys/devices/system/cpu", "sys/devices/system/node"


def tree(
    *, cores: Mapping[int, tuple[int, int]], nodes: Mapping[int, list[int]] | None = None
) -> dict[str, str]:
    """A tree of CPUs {cpu: (core_id, package)} in NUMA nodes {node: cpus}, linked."""
    files = {f"{CPU}/online": ",".join(map(str, cores)) + "\n", "proc/cpuinfo": ""}
    for cpu, (core, package) in cores.items():
        files[f"{CPU}/cpu{cpu}/topology/core_id"] = f"{core}\n"
        files[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = f"{package}\n"
        files["proc/cpuinfo"] += f"processor\t: {cpu}\nphysical id\t: {package}\n\n"
    for node, cpus in ({0: list(cores)} if nodes is None else nodes).items():
        files[f"{NODE}/node{node}/meminfo"] = f"Node {node} MemTotal:       1024 kB\n"
        for cpu in cpus:
            files[f"{NODE}/node{node}/cpu{cpu}"] = f"../../cpu/cpu{cpu}"
    return files


SMALL = {0: (0, 0), 1: (1, 0), 2: (0, 0), 3: (1, 0)}


def places(files: Mapping[str, str]) -> dict[int, tuple[int, ...]]:
    return {cpu: tuple(place) for cpu, place in discover(files).cpu_topology().details.items()}


def test_a_core_goes_by_its_lowest_cpu() -> None:
    assert places(tree(cores=SMALL)) == {
        0: (0, 0, 0, 0), 1: (0, 0, 1, 0), 2: (0, 0, 0, 0), 3: (0, 0, 1, 0),
    }  # fmt: skip


def test_a_tree_without_links_is_the_same_machine() -> None:
    linked = tree(cores=SMALL)
    spelled = {path: text for path, text in linked.items() if "node0/cpu" not in path}
    for path, text in linked.items():
        if path.startswith(f"{CPU}/cpu"):
            spelled[path.replace(f"{CPU}/", f"{NODE}/node0/")] = text
    assert discover(spelled) == discover(linked)


def test_equal_core_ids_of_two_packages_are_two_cores() -> None:
    two = tree(cores={0: (0, 0), 1: (0, 1)}, nodes={0: [0, 1]})
    found = discover(two)
    assert len(found.nodes[0].cores) == found.num_sockets == 2


def test_an_offline_cpu_is_left_out() -> None:
    files = tree(cores=SMALL) | {f"{CPU}/online": "0-2\n"}
    topology = discover(files).cpu_topology()
    assert str(topology.cpus) == "0-2"
    assert (topology.num_cpus, topology.num_cores, topology.cpus_per_core) == (3, 2, 1)


@pytest.mark.parametrize(
    ("online", "cpus"),
    [
        ("0,2-3\n", [0, 2, 3]),
        ("0-1,x,3", [0, 1]),
        ("0-1-2,3", []),
        ("3-0", []),
        ("65536,1", []),
        ("", []),
        ("\n", []),
    ],
)
def test_the_online_list_counts_up_to_its_first_fault(online: str, cpus: list[int]) -> None:
    found = discover(tree(cores=SMALL) | {f"{CPU}/online": online})
    assert sorted(cpu for core in found.nodes[0].cores for cpu in core.thread_ids) == cpus


def test_without_an_online_list_every_cpu_counts() -> None:
    files = tree(cores=SMALL)
    del files[f"{CPU}/online"]
    assert discover(files).num_cores == 4


@pytest.mark.parametrize("target", [".", "../../../../../../../cpu/cpu0", "nowhere"])
def test_a_link_that_leads_nowhere_is_no_cpu(target: str) -> None:
    files = tree(cores={0: (0, 0)}) | {f"{NODE}/node0/cpu0": target}
    info = discover(files)
    assert info.num_cores == 0
    with pytest.raises(DiscoveryError, match="could not detect number of cpus"):
        info.cpu_topology()


def test_a_loop_of_links_ends_discovery() -> None:
    files = tree(cores={0: (0, 0)}) | {f"{NODE}/node0/cpu0": "cpu0"}
    info = discover(files)
    assert (info.num_cores, info.nodes) == (0, ())
    assert "symbolic links" in info.fault


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"{NODE}/node0/meminfo", "nothing\n"),
        (f"{NODE}/node0/distance", "10 x\n"),
        (f"{CPU}/cpu1/topology/core_id", "one\n"),
        (f"{NODE}/node0/hugepages/hugepages-2048kB/nr_hugepages", "\n"),
    ],
)
def test_a_faulty_file_empties_the_topology(path: str, text: str) -> None:
    info = discover(tree(cores=SMALL) | {path: text})
    assert (info.num_cores, info.nodes) == (0, ())
    assert info.fault
    assert info.num_sockets == 1


@pytest.mark.parametrize("name", ["core_id", "physical_package_id"])
def test_a_cpu_without_its_ids_is_left_out(name: str) -> None:
    files = tree(cores=SMALL)
    del files[f"{CPU}/cpu3/topology/{name}"]
    assert discover(files).num_cores == 3


def test_nodes_come_in_the_order_of_their_names() -> None:
    cores = {cpu: (cpu, 0) for cpu in range(3)}
    info = discover(tree(cores=cores, nodes={2: [1], 10: [2], 0: [0]}))
    assert [node.node_id for node in info.nodes] == [0, 10, 2]


def test_a_node_without_cpus_counts_for_nothing() -> None:
    info = discover(tree(cores={0: (0, 0)}, nodes={0: [0], 1: []}))
    assert len(info.nodes) == 2
    assert info.cpu_topology().num_numa_nodes == 1


def test_without_numa_nodes_packages_take_their_place() -> None:
    files = tree(cores={0: (0, 3), 1: (1, 3), 2: (0, 7)}, nodes={})
    files[f"{CPU}/online"] = "0-1\n"
    info = discover(files)
    assert [node.node_id for node in info.nodes] == [3, 7]
    # Offline CPUs are counted here, and only here.
    assert info.num_cores == 3
    assert str(info.cpu_topology().cpus) == "0-1"


def test_without_cpuinfo_lines_the_ids_are_counted() -> None:
    files = tree(cores={0: (0, 0), 1: (1, 0), 2: (0, 5), 3: (0, 5)})
    files["proc/cpuinfo"] = "processor\t: 0\nBogoMIPS\t: 50\n"
    info = discover(files)
    assert (info.num_sockets, info.num_physical_cores) == (2, 3)


def _with_l3(files: dict[str, str], cpu: int, number: str, shared: str) -> None:
    folder = f"{CPU}/cpu{cpu}/cache/index3"
    files |= {
        f"{folder}/id": number, f"{folder}/size": "36864K\n", f"{folder}/level": "3\n",
        f"{folder}/type": "Unified\n", f"{folder}/shared_cpu_map": shared,
    }  # fmt: skip


def test_an_l3_that_spans_the_node_is_no_uncore_cache() -> None:
    files = tree(cores=SMALL)
    for cpu in SMALL:
        _with_l3(files, cpu, "0\n", "f\n")
    info = discover(files)
    assert info.nodes[0].caches == (Cache(0, 36864 * 1024, 3, "Unified"),)
    assert {place[3] for place in places(files).values()} == {0}


def test_smaller_l3_caches_are_uncore_caches() -> None:
    files = tree(cores=SMALL)
    for cpu in SMALL:
        _with_l3(files, cpu, f"{4 + cpu % 2}\n", "00000000,00000005\n")
    assert {cpu: place[3] for cpu, place in places(files).items()} == {0: 4, 1: 5, 2: 4, 3: 5}


def test_the_first_unreadable_cache_ends_the_caches_of_its_node() -> None:
    files = tree(cores=SMALL)
    for cpu in SMALL:
        _with_l3(files, cpu, "7\n", "5\n")
    files[f"{CPU}/cpu1/cache/index3/size"] = "36M\n"
    assert {cpu: place[3] for cpu, place in places(files).items()} == {0: 7, 1: 0, 2: 7, 3: 0}


def test_an_absurd_cpu_number_costs_no_memory() -> None:
    files = tree(cores={0: (0, 0)})
    files[f"{NODE}/node0/cpu{10**12}"] = "../../cpu/cpu0"
    del files[f"{CPU}/online"]
    with pytest.raises(NotModelled):
        discover(files)


# -- captured machines ---------------------------------------------------------------------------

_CAPTURES = sorted((GOLDEN / "captures").glob("*.tar.xz"))


def _caches(caches: tuple[Cache, ...]) -> list[dict[str, Any]] | None:
    return [
        {"id": one.id, "level": one.level, "size": one.size, "type": one.type} for one in caches
    ] or None


def _seen(name: str) -> dict[str, Any]:
    files = topologies.load(GOLDEN / "captures" / f"{name}.tar.xz", check=False)
    info = discover(files, architecture="x86_64")  # of the build that made the figures
    seen: dict[str, Any] = {
        "num_cores": info.num_cores,
        "num_physical_cores": info.num_physical_cores,
        "num_sockets": info.num_sockets,
        "topology": [
            {
                "node_id": node.node_id,
                "memory": node.memory,
                "caches": _caches(node.caches),
                "distances": list(node.distances) or None,
                "cores": [
                    {
                        "core_id": core.core_id,
                        "socket_id": core.socket_id,
                        "thread_ids": list(core.thread_ids),
                        "caches": _caches(core.caches),
                        "uncore_caches": _caches(core.uncore_caches),
                    }
                    for core in node.cores
                ],
            }
            for node in info.nodes
        ],
    }
    try:
        topology = info.cpu_topology()
    except DiscoveryError as error:
        return seen | {"discover_error": str(error)}
    keys = ("NUMANodeID", "SocketID", "CoreID", "UncoreCacheID")
    seen["cpu_topology"] = {
        "NumCPUs": topology.num_cpus,
        "NumCores": topology.num_cores,
        "NumSockets": topology.num_sockets,
        "NumNUMANodes": topology.num_numa_nodes,
        "NumUncoreCache": topology.num_uncore_caches,
        "CPUDetails": {
            str(cpu): dict(zip(keys, place, strict=True)) for cpu, place in topology.details.items()
        },
    }
    return seen


@pytest.mark.parametrize("name", [path.name.removesuffix(".tar.xz") for path in _CAPTURES])
def test_a_captured_machine_is_what_cadvisor_made_of_it(name: str) -> None:
    golden = json.loads((GOLDEN / "discovery.json").read_text())
    assert _seen(name) == golden[name]
