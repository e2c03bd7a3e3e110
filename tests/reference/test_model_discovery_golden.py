"""Discovery by release against what cAdvisor and the kubelet made of captured machines.

The figures come from the code of the releases named, run over these trees: tests/golden/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import topologies
from differential.record_golden import discovered
from reference import DiscoveryError, MachineInfo, discover
from reference.behaviours import Behaviour
from reference.releases import Release, has
from tests.reference.recorded import GOLDEN, golden
from tests.support.machine_golden import modelled

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


#: The behaviour with which a release has such a figure.
KNOWN_WITH = {
    "id": Behaviour.CACHE_IDS,
    "uncore_caches": Behaviour.CACHE_IDS,
    "socket_id": Behaviour.SYSFS_TOPOLOGY,
    "distances": Behaviour.NUMA_DISTANCES,
    "NumNUMANodes": Behaviour.NUMA_ALLOCATION,
    "NumUncoreCache": Behaviour.UNCORE_CACHES_KNOWN,
    "UncoreCacheID": Behaviour.UNCORE_CACHES_KNOWN,
}


def known(shown: Any, release: Release) -> Any:
    """Without the figures that the release does not have."""
    if isinstance(shown, list):
        return [known(one, release) for one in shown]
    if not isinstance(shown, dict):
        return shown
    return {
        key: known(one, release)
        for key, one in shown.items()
        if key not in KNOWN_WITH or has(release, KNOWN_WITH[key])
    }


def seen(info: MachineInfo) -> dict[str, Any]:
    """``info`` in the layout of the figures."""
    # Whatever its CPU topology is, cAdvisor's part is shown.
    bare = replace(info, refusal="", num_cores=info.num_cores or 1)
    shown: dict[str, Any] = known(discovered(modelled(bare)), info.release)
    shown["num_cores"] = info.num_cores
    if info.fault and not has(info.release, Behaviour.SYSFS_TOPOLOGY):
        shown["topology_error"] = info.fault
    try:
        found = info.cpu_topology()
    except DiscoveryError as error:
        del shown["cpu_topology"]
        return shown | {"numa_error" if info.refusal else "discover_error": str(error)}
    assert found.num_numa_nodes == len(found.numa_masks)
    assert found.num_uncore_caches == len(found.uncore_masks)
    return shown


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
