"""Described machines: the files a real x86 kernel would show."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from topologies import Link, Tree, describe
from topologies.cpulist import ids, parse_list, parse_mask

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
RECORDED = Path(__file__).parents[1] / "golden" / "kubelet-topologies.json"

#: name in the golden file: the spec that describes the same machine
GOLDEN = {
    "1s-4c-noht": "1s-1n-4c-smt1",
    "1s-4c-ht": "1s-1n-4c-smt2",
    "1s-4c-ht-near": "1s-1n-4c-smt2-near",
    "2s-6c-ht-interleaved": "2s-2n-12c-smt2-interleaved",
    "2s-20c-ht": "2s-2n-40c-smt2",
    "2s-2n-10c-ht-interleaved": "2s-4n-40c-smt2-interleaved",
    "1s-4n-8c-ht-l3x2": "1s-4n-32c-smt2-l3x2",
    "2s-4n-16c-ht-l3x2": "2s-8n-128c-smt2-l3x2",
    "8s-4c-smt4": "8s-8n-32c-smt4-near",
    "2s-96c-ht-l3x12": "2s-2n-192c-smt2-l3x12",
    "1s-128c-noht-l3x16": "1s-1n-128c-smt1-l3x16",
    "2n-2s-4c-ht-numafirst": "4s-2n-16c-smt2",
    "1n-4s-3c-noht-numafirst": "4s-1n-12c-smt1",
}


def places(tree: Tree) -> dict[int, tuple[int, int, int, int]]:
    """cpu: (NUMA node, package, lowest CPU of the core, L3 id), read from the files."""
    found = {}
    for cpu in ids(parse_list(tree[f"{CPU}/online"])):
        base = f"{CPU}/cpu{cpu}"
        (node,) = re.findall(rf"{base}/node(\d+)\n", "\n".join(tree) + "\n")
        found[cpu] = (
            int(node),
            int(tree[f"{base}/topology/physical_package_id"]),
            next(ids(parse_list(tree[f"{base}/topology/thread_siblings_list"]))),
            int(tree[f"{base}/cache/index3/id"]),
        )
    return found


def test_the_smallest_machine_file_by_file() -> None:
    tree = describe("1s-1n-1c-smt2").tree
    shown = {path: str(text) for path, text in tree.items()}
    base = f"{CPU}/cpu1"
    assert shown[f"{CPU}/kernel_max"] == "8191\n"
    assert shown[f"{CPU}/offline"] == "\n"
    assert [shown[f"{CPU}/{name}"] for name in ("online", "possible", "present")] == ["0-1\n"] * 3
    assert f"{CPU}/cpu0/online" not in shown, "x86 cannot take CPU 0 offline"
    assert shown[f"{base}/online"] == "1\n"
    for name in ("core_cpus", "core_siblings", "die_cpus", "package_cpus", "thread_siblings"):
        assert shown[f"{base}/topology/{name}"] == "3\n"
        assert shown[f"{base}/topology/{name}_list"] == "0-1\n"
    assert shown[f"{base}/topology/core_id"] == "0\n"
    caches = [
        tuple(
            shown[f"{base}/cache/index{index}/{name}"].strip()
            for name in ("level", "type", "size", "id", "shared_cpu_list", "shared_cpu_map")
        )
        for index in range(4)
    ]
    assert caches == [
        ("1", "Data", "48K", "0", "0-1", "3"),
        ("1", "Instruction", "32K", "0", "0-1", "3"),
        ("2", "Unified", "2048K", "0", "0-1", "3"),
        ("3", "Unified", "32768K", "0", "0-1", "3"),
    ]
    assert shown[f"{NODE}/node0/distance"] == "10\n"
    assert shown[f"{NODE}/node0/meminfo"].startswith("Node 0 MemTotal:       16384000 kB\n")
    assert tree[f"{NODE}/node0/cpu1"] == Link("../../cpu/cpu1")
    assert tree[f"{base}/node0"] == Link("../../node/node0")
    assert isinstance(tree[f"{base}/node0"], Link)


def test_sizes_of_caches_follow_from_sets_and_ways() -> None:
    tree = describe("1s-1n-1c-smt1").tree
    for index in range(4):
        base = f"{CPU}/cpu0/cache/index{index}"
        line, sets, ways = (
            int(tree[f"{base}/{name}"])
            for name in ("coherency_line_size", "number_of_sets", "ways_of_associativity")
        )
        assert f"{line * sets * ways // 1024}K\n" == tree[f"{base}/size"]


def test_far_and_near_siblings() -> None:
    assert [place[2] for place in places(describe("1s-1n-4c-smt2").tree).values()] == [
        0, 1, 2, 3, 0, 1, 2, 3,
    ]  # fmt: skip
    assert [place[2] for place in places(describe("1s-1n-4c-smt2-near").tree).values()] == [
        0, 0, 2, 2, 4, 4, 6, 6,
    ]  # fmt: skip


def test_interleaved_sockets_fill_their_numa_nodes_one_after_the_other() -> None:
    found = places(describe("2s-4n-8c-smt1-interleaved").tree)
    assert [found[cpu][:2] for cpu in range(8)] == [
        (0, 0), (2, 1), (0, 0), (2, 1), (1, 0), (3, 1), (1, 0), (3, 1),
    ]  # fmt: skip


def test_an_l3_of_a_socket_spans_its_numa_nodes() -> None:
    tree = describe("2s-4n-8c-smt1-l3s").tree
    assert tree[f"{CPU}/cpu0/cache/index3/shared_cpu_list"] == "0-3\n"
    assert tree[f"{NODE}/node0/cpulist"] == "0-1\n"


def test_sparse_ids() -> None:
    tree = describe("2s-2n-4c-smt1-cpustep3-pkgstep2-nodestep4").tree
    assert tree[f"{CPU}/present"] == "0,3,6,9\n"
    assert tree[f"{CPU}/possible"] == "0-9\n"
    assert tree[f"{CPU}/offline"] == "1-2,4-5,7-8\n"
    assert {place[:2] for place in places(tree).values()} == {(0, 0), (4, 2)}
    assert tree[f"{NODE}/online"] == "0,4\n"
    assert tree[f"{NODE}/node4/distance"] == "21 10\n"
    assert tree[f"{CPU}/cpu9/topology/package_cpus"] == "240\n"


def test_memory_only_nodes_have_memory_and_no_cpu() -> None:
    tree = describe("2s-2n-4c-smt1-mem1").tree
    assert tree[f"{NODE}/online"] == tree[f"{NODE}/has_memory"] == "0-2\n"
    assert tree[f"{NODE}/has_cpu"] == "0-1\n"
    assert tree[f"{NODE}/node2/cpulist"] == "\n"
    assert parse_mask(tree[f"{NODE}/node2/cpumap"]) == 0
    assert "Node 2 MemTotal:" in tree[f"{NODE}/node2/meminfo"]
    assert not [
        path for path in tree if path.startswith(f"{NODE}/node2/cpu") and path[-1].isdigit()
    ]


def test_distances_are_symmetric_and_grow_with_the_way() -> None:
    tree = describe("2s-4n-8c-smt1").tree
    rows = [tree[f"{NODE}/node{node}/distance"].split() for node in range(4)]
    assert rows[0] == ["10", "12", "21", "21"]
    assert [list(column) for column in zip(*rows, strict=True)] == rows


def test_cpuinfo_counts_each_package() -> None:
    text = describe("2s-2n-4c-smt2").tree["proc/cpuinfo"]
    blocks = [dict(re.findall(r"^([\w ]+?)\s*: ?(.*)$", b, re.M)) for b in text.split("\n\n") if b]
    assert [block["processor"] for block in blocks] == [str(cpu) for cpu in range(8)]
    assert {block["siblings"] for block in blocks} == {"4"}
    assert {block["cpu cores"] for block in blocks} == {"2"}
    assert len({block["apicid"] for block in blocks}) == 8
    assert [block["physical id"] for block in blocks[:4]] == ["0", "0", "1", "1"]


def test_the_name_is_the_canonical_spec() -> None:
    machine = describe("2s-2n-8c-smt2-off3-near")
    assert machine.name == machine.shape == "2s-2n-8c-smt2-near-off3"
    assert machine.digest == describe(machine.name).digest


@st.composite
def specs(draw: st.DrawFn) -> str:
    sockets = draw(st.sampled_from([1, 2, 3, 4]))
    factor = draw(st.sampled_from([1, 2, 3]))
    nodes = sockets * factor
    if draw(st.booleans()):
        sockets, nodes = nodes, sockets
    caches = draw(st.sampled_from([1, 2, 3]))
    cores = max(sockets, nodes) * caches * draw(st.integers(1, 2))
    threads = draw(st.sampled_from([1, 2, 4]))
    suffixes = draw(
        st.sets(
            st.sampled_from(["near", "interleaved", "mem2", "cpustep2", "pkgstep3", "nodestep4"])
        )
    )
    tail = "".join(f"-{suffix}" for suffix in sorted(suffixes))
    if cores * threads > 1 and "cpustep2" not in suffixes:
        tail += draw(st.sampled_from(["", f"-off{cores * threads - 1}"]))
    return f"{sockets}s-{nodes}n-{cores}c-smt{threads}-l3x{caches}{tail}"


@given(specs())
@settings(max_examples=60, deadline=None)
def test_every_described_machine_is_tidy_and_counts_right(text: str) -> None:
    machine = describe(text)
    assert topologies.lint(machine.tree) == []
    sockets, nodes, cores, _ = map(int, re.findall(r"\d+", text)[:4])
    found = places(machine.tree)
    if "-off" not in text:
        assert len({place[1] for place in found.values()}) == sockets
        assert len({place[0] for place in found.values()}) == nodes
        assert len({place[2] for place in found.values()}) == cores


@pytest.mark.parametrize("name", GOLDEN)
def test_places_are_those_of_the_golden_machines(name: str) -> None:
    (golden,) = [item for item in json.loads(RECORDED.read_text()) if item["topology"] == name]
    wanted = {int(cpu): tuple(place) for cpu, place in golden["cpus"].items()}
    found = places(describe(GOLDEN[name]).tree)
    assert {cpu: place[:3] for cpu, place in found.items()} == {
        cpu: place[:3] for cpu, place in wanted.items()
    }
    assert partition(found) == partition(wanted) or "l3x" not in name


def partition(cpus: Mapping[int, tuple[int, ...]]) -> set[frozenset[int]]:
    """The uncore caches as sets of CPUs."""
    caches: dict[int, set[int]] = {}
    for cpu, place in cpus.items():
        caches.setdefault(place[3], set()).add(cpu)
    return {frozenset(members) for members in caches.values()}
