"""Discovery by release against what cAdvisor and the kubelet made of captured machines.

The figures come from the code of the releases named, run over these trees: tests/golden/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

import topologies
from reference import Cache, DiscoveryError, MachineInfo, discover
from reference.behaviours import Behaviour
from reference.machine.machineinfo import Core
from reference.releases import Release, has
from tests.reference.recorded import GOLDEN, golden

CPU, NODE = "sys/devices/system/cpu", "sys/devices/system/node"

Files = dict[str, str]


BY_RELEASE: dict[str, dict[str, Any]] = golden("discovery-by-release.json.gz")


def test_the_figures_without_a_release_are_those_of_the_newer_ones() -> None:
    """What ``record_golden discovery`` compares with: tests/golden/README.md."""
    for release in ("1.32.2", "1.36.3", "1.37.0"):
        assert BY_RELEASE[release] == golden("discovery.json")


def cases() -> Iterator[tuple[str, str]]:
    for variant, machines in BY_RELEASE.items():
        for machine in machines:
            yield variant, machine


# -- the variants: what was done to a tree, and which build read it --------------------------------


def without_nul_bytes(files: Files) -> Files:
    return {path: text.replace("\0", "") for path, text in files.items()}


def cpus_of(files: Files) -> list[int]:
    found = {re.match(rf"{CPU}/cpu([0-9]+)/", path) for path in files}
    return sorted(int(one[1]) for one in found if one)


def with_every_online_file(files: Files) -> Files:
    return {f"{CPU}/cpu{cpu}/online": "1\n" for cpu in cpus_of(files)} | files


def without_online_files(files: Files) -> Files:
    own = re.compile(rf"{CPU}/cpu[0-9]+/online")
    return {path: text for path, text in files.items() if not own.fullmatch(path)}


def completed(files: Files) -> Files:
    """With the lists of NUMA nodes, and of each node's CPUs, that its links imply."""
    nodes: dict[int, set[int]] = {}
    for path in files:
        found = re.match(rf"{NODE}/node([0-9]+)(?:/cpu([0-9]+))?", path)
        if found:
            cpus = nodes.setdefault(int(found[1]), set())
            cpus |= {int(found[2])} if found[2] else set()
    lists = {
        f"{NODE}/node{node}/cpulist": ",".join(map(str, sorted(cpus))) + "\n"
        for node, cpus in nodes.items()
    }
    lists[f"{NODE}/online"] = ",".join(map(str, sorted(nodes))) + "\n"
    return without_nul_bytes(files) | lists


CHANGES: dict[str, Callable[[Files], Files]] = {
    "": lambda files: files,
    "completed": completed,
    "without NUL bytes": without_nul_bytes,
    "with every cpuN/online": with_every_online_file,
    "without cpuN/online": without_online_files,
}


@cache
def captured(machine: str) -> Files:
    return dict(topologies.load(GOLDEN / "captures" / f"{machine}.tar.xz", check=False))


def machine_info(variant: str, machine: str) -> MachineInfo:
    release, _, rest = variant.partition(" ")
    found = re.fullmatch(r"(?:on (\w+)(?:, )?)?(.*)", rest)
    assert found
    return discover(
        CHANGES[found[2]](captured(machine)),
        release=release,
        architecture=found[1] or "x86_64",
        usable_cpus=2,  # of the machine on which the figures were made
    )


# -- what the figures say, in the model's words ----------------------------------------------------


def _topology(info: MachineInfo, release: Release) -> list[dict[str, Any]]:
    behaviour_of = {
        "id": Behaviour.CACHE_IDS,
        "uncore_caches": Behaviour.CACHE_IDS,
        "socket_id": Behaviour.SYSFS_TOPOLOGY,
        "distances": Behaviour.NUMA_DISTANCES,
    }
    unknown = {key for key, behaviour in behaviour_of.items() if not has(release, behaviour)}

    def known(**row: object) -> dict[str, Any]:
        return {key: value for key, value in row.items() if key not in unknown}

    def caches(found: tuple[Cache, ...]) -> list[dict[str, Any]] | None:
        rows = [known(id=c.id, level=c.level, size=c.size, type=c.type) for c in found]
        return rows or None

    def shown(core: Core) -> dict[str, Any]:
        return known(
            core_id=core.core_id,
            socket_id=core.socket_id,
            thread_ids=list(core.thread_ids),
            caches=caches(core.caches),
            uncore_caches=caches(core.uncore_caches),
        )

    return [
        known(
            node_id=node.node_id,
            memory=node.memory,
            caches=caches(node.caches),
            distances=list(node.distances) or None,
            cores=[shown(core) for core in node.cores],
        )
        for node in info.nodes
    ]


def _cpu_topology(info: MachineInfo, release: Release) -> dict[str, Any]:
    topology = info.cpu_topology()
    keys = ["NUMANodeID", "SocketID", "CoreID", "UncoreCacheID"]
    seen: dict[str, Any] = {
        "NumCPUs": topology.num_cpus,
        "NumCores": topology.num_cores,
        "NumSockets": topology.num_sockets,
    }
    if release.minor >= 23:
        seen["NumNUMANodes"] = topology.num_numa_nodes
    if has(release, Behaviour.UNCORE_CACHES_KNOWN):
        seen["NumUncoreCache"] = topology.num_uncore_caches
    else:
        keys.pop()
    seen["CPUDetails"] = {
        str(cpu): dict(zip(keys, place, strict=False)) for cpu, place in topology.details.items()
    }
    return seen


def seen(info: MachineInfo) -> dict[str, Any]:
    """``info`` in the layout of the figures."""
    release = info.release
    shown: dict[str, Any] = {
        "num_cores": info.num_cores,
        "num_physical_cores": info.num_physical_cores,
        "num_sockets": info.num_sockets,
        "topology": _topology(info, release),
    }
    if info.fault and not has(release, Behaviour.SYSFS_TOPOLOGY):
        shown["topology_error"] = info.fault
    if info.refusal:
        return shown | {"numa_error": info.refusal}
    try:
        return shown | {"cpu_topology": _cpu_topology(info, release)}
    except DiscoveryError as error:
        return shown | {"discover_error": str(error)}


@pytest.mark.parametrize(("variant", "machine"), list(cases()))
def test_a_captured_machine_is_what_the_release_made_of_it(variant: str, machine: str) -> None:
    expected = BY_RELEASE[variant][machine]
    shown = seen(machine_info(variant, machine))
    if "unstable" in expected:
        _one_of(shown, expected["unstable"])
        return
    expected = expected | {"topology": expected["topology"] or []}
    if " " in variant:
        # The figures of variants were sorted by node when they were written down.
        for side in (shown, expected):
            side["topology"].sort(key=lambda node: node["node_id"])
    assert shown == expected


def _one_of(shown: dict[str, Any], outcomes: list[dict[str, Any]]) -> None:
    """Where NUMA nodes overlap: as the outcomes but for the NUMA nodes of CPUs."""

    def without_numa(side: dict[str, Any]) -> dict[str, Any]:
        topology = dict(side["cpu_topology"])
        topology["CPUDetails"] = {
            cpu: {key: place[key] for key in ("CoreID", "SocketID")}
            for cpu, place in topology["CPUDetails"].items()
        }
        return side | {"cpu_topology": topology}

    for outcome in outcomes:
        assert without_numa(shown) == without_numa(outcome)
