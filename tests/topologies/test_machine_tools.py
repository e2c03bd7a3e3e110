"""Machines as lscpu and hwloc see them: readers that know real kernels.

What they count in an export of a machine is what a kubelet counts, for every machine of the
catalogue but those of other projects, whose files contradict each other or lack some, and those of
s390x, which show no NUMA nodes, so that a kubelet takes their sockets. That a description is what
its spec promises is held by ``test_machine_described.py``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

import pytest

from reference import discover
from tests.topologies.conftest import printed_by
from topologies import machine as load_machine
from topologies import names, write
from topologies.entries import catalogue_entry

#: A kubelet takes the CPUs of equal core id and socket for one core; these tools do not.
FEWER_CORES = "qemu-1s-1n-8c-smt1-arm64-clusters"
SHAPES = [
    *(
        name
        for name in names()
        if not (entry := catalogue_entry(name)).imported
        and entry.architecture != "s390x"
        and name != FEWER_CORES
    ),
    "2s-2n-8c-smt2-off3,11",
    "3s-6n-18c-smt2-interleaved-off35",
    "2s-2n-16c-smt2-off8-15,24-31",  # a whole socket
]

#: The name of a machine, and where it lies.
Laid: TypeAlias = tuple[str, Path]


def counts(name: str) -> dict[str, int]:
    """What the model says that a kubelet finds. NUMA nodes without CPUs are no part of a CPU
    topology, but of the machine; the L3 caches are told apart as cAdvisor does."""
    info = discover(load_machine(name).tree)
    topology = info.cpu_topology()
    caches = {cache for node in info.nodes for cache in node.caches} | {
        cache for node in info.nodes for core in node.cores for cache in core.uncore_caches
    }
    return {
        "PU": topology.num_cpus,
        "Core": topology.num_cores,
        "Package": topology.num_sockets,
        "NUMANode": len(info.nodes),
        "L3Cache": sum(cache.level == 3 for cache in caches),
    }


@pytest.fixture(scope="module", params=SHAPES)
def laid_out(request: pytest.FixtureRequest) -> Iterator[Laid]:
    """A machine on disk, once for both tools, and gone after: pytest would keep 20,000 files."""
    with tempfile.TemporaryDirectory(dir=_in_memory()) as place:
        write(load_machine(request.param).tree, place)
        yield request.param, Path(place)


def _in_memory() -> str | None:
    """A file system in memory, where there is room: some others take seconds to reuse the inodes
    of what was just removed."""
    shm = Path("/dev/shm")
    return str(shm) if os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 1 << 28 else None


def test_lscpu_counts_the_same(laid_out: Laid) -> None:
    """Its table of online CPUs has their places; its summary has averages, which lie where cores
    are uneven, and counts what is offline."""
    name, place = laid_out
    promised, info = counts(name), discover(load_machine(name).tree)
    table = _table(printed_by("lscpu", "--sysroot", place, "-p=CPU,CORE,SOCKET,NODE"))
    assert [row[0] for row in table] == list(info.cpu_topology().cpus)
    assert len({row[1] for row in table}) == promised["Core"]
    assert len({row[2] for row in table}) == promised["Package"]
    with_cpus = [node for node in info.nodes if node.cores]
    assert len({row[3] for row in table}) == len(with_cpus)
    seen = dict(_fields(json.loads(printed_by("lscpu", "--sysroot", place, "-J"))["lscpu"]))
    assert int(seen["Socket(s):"]) == promised["Package"]
    assert int(seen["NUMA node(s):"]) == promised["NUMANode"]
    nodes = [cpus for field, cpus in seen.items() if re.fullmatch(r"NUMA node\d+ CPU.*", field)]
    assert sum(_size(cpus) for cpus in nodes) == promised["PU"]


def _table(text: str) -> list[list[int]]:
    rows = [line.split(",") for line in text.splitlines() if not line.startswith("#")]
    return [[int(cell or -1) for cell in row] for row in rows]


def test_hwloc_counts_the_same(laid_out: Laid) -> None:
    name, place = laid_out
    assert hwloc_counts(place) == {**counts(name), **_caches_without_ids(name)}


def _caches_without_ids(name: str) -> dict[str, int]:
    """By their CPUs, as hwloc tells them apart; a kubelet sees none of them."""
    tree = load_machine(name).tree
    if any(path.endswith("/index3/id") for path in tree):
        return {}
    sets = {text for path, text in tree.items() if path.endswith("/index3/shared_cpu_list")}
    return {"L3Cache": len(sets)}


def test_a_kubelet_counts_fewer_cores_than_there_are(tmp_path: Path) -> None:
    """Core ids repeat in the clusters of a socket."""
    write(load_machine(FEWER_CORES).tree, tmp_path)
    assert hwloc_counts(tmp_path)["Core"] == 8
    assert counts(FEWER_CORES)["Core"] == 4


def hwloc_counts(place: Path) -> dict[str, int]:
    """How many of each kind hwloc finds, in its own words."""
    found = ElementTree.fromstring(printed_by("lstopo-no-graphics", "-i", place, "--of", "xml"))
    kinds = Counter(entry.get("type", "") for entry in found.iter("object"))
    return {kind: kinds[kind] for kind in ("PU", "Core", "Package", "NUMANode", "L3Cache")}


def _fields(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    found = []
    for entry in entries:
        found.append((entry["field"], entry["data"] or ""))
        found += _fields(entry.get("children", []))
    return found


def _size(cpus: str) -> int:
    pieces = (piece.partition("-") for piece in cpus.split(",") if piece)
    return sum(int(last or first) - int(first) + 1 for first, _, last in pieces)
