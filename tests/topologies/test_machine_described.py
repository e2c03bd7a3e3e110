"""Described machines: the files a real kernel would show."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from reference import discover
from topologies import Link, describe
from topologies.cpulist import parse_mask
from topologies.paths import CPU, NODE
from topologies.spec import parse


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
    names = ("level", "type", "size", "id", "shared_cpu_list", "shared_cpu_map")
    caches = [
        tuple(shown[f"{base}/cache/index{index}/{name}"].strip() for name in names)
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


def test_an_l3_of_a_socket_spans_its_numa_nodes() -> None:
    tree = describe("2s-4n-8c-smt1-l3s").tree
    assert tree[f"{CPU}/cpu0/cache/index3/shared_cpu_list"] == "0-3\n"
    assert tree[f"{NODE}/node0/cpulist"] == "0-1\n"


def test_sparse_ids() -> None:
    tree = describe("2s-2n-4c-smt1-cpustep3-pkgstep2-nodestep4").tree
    assert tree[f"{CPU}/present"] == "0,3,6,9\n"
    assert tree[f"{CPU}/possible"] == "0-9\n"
    assert tree[f"{CPU}/offline"] == "1-2,4-5,7-8\n"
    assert {place[:2] for place in discover(tree).cpu_topology().details.values()} == {
        (0, 0),
        (4, 2),
    }
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
    assert not [path for path in tree if re.fullmatch(rf"{NODE}/node2/cpu\d+", path)]


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


def topology_files(name: str, cpu: int = 0) -> set[str]:
    """The files of a CPU's ``topology/``, of a machine of the catalogue or a described one."""
    base = f"{CPU}/cpu{cpu}/topology/"
    return {path.removeprefix(base) for path in topologies.load(name) if path.startswith(base)}


#: A description, a real machine of that architecture, and what later kernels show beyond its.
REAL = [
    ("1s-1n-4c-smt2-near-e2", "1s-1n-14c-smt2-near-e8-i7-1370p", set()),
    ("1s-1n-4c-smt4-ppc64", "8s-8n-64c-smt4-ppc64-power7", {"core_cpus", "package_cpus"}),
    ("1s-1n-4c-smt1-s390x", "6s-1n-20c-smt1-s390x-z196", {"core_cpus", "package_cpus"}),
]


@pytest.mark.parametrize(("spec", "real", "later"), REAL)
def test_an_architecture_shows_the_files_that_a_real_machine_shows(
    spec: str, real: str, later: set[str]
) -> None:
    later = later | {f"{name}_list" for name in later}
    assert topology_files(spec) == topology_files(real) | later


def test_arm64_shows_no_dies_and_no_ids_of_caches() -> None:
    """Kunpeng 920's kernel of 2021 shows a die, of -1, which later ones leave out."""
    real = topology_files("2s-4n-128c-smt1-arm64-kunpeng920")
    assert topology_files("1s-1n-4c-smt1-arm64") == {name for name in real if "die" not in name}
    tree = describe("1s-1n-4c-smt1-arm64").tree
    assert not [path for path in tree if re.search("cache/index[0-9]/id$", path)]
    assert tree[f"{CPU}/cpu0/online"] == "1\n"


def test_a_core_of_power_goes_by_its_lowest_cpu() -> None:
    tree = describe("2s-4n-30c-smt8-ppc64").tree
    ids_of = [int(tree[f"{CPU}/cpu{cpu}/topology/core_id"]) for cpu in range(0, 240, 8)]
    assert ids_of == list(range(0, 240, 8))
    assert [tree[f"{NODE}/node{node}/cpulist"] for node in range(4)] == [
        "0-63\n", "64-119\n", "120-183\n", "184-239\n",
    ]  # fmt: skip
    assert tree[f"{CPU}/cpu9/cache/index3/shared_cpu_list"] == "8-15\n"


def test_s390x_shows_books_and_drawers_and_no_numa_nodes() -> None:
    tree = describe("4s-4n-8c-smt2-s390x-books2-drawers2").tree
    assert not [path for path in tree if path.startswith(NODE) or "/cache/" in path]
    assert tree[f"{CPU}/cpu4/topology/core_siblings_list"] == "4-7\n"
    assert tree[f"{CPU}/cpu4/topology/book_siblings_list"] == "0-7\n"
    assert tree[f"{CPU}/cpu8/topology/drawer_id"] == "1\n"
    assert tree[f"{CPU}/cpu15/address"] == "15\n"


def test_a_hybrid_processor_is_numbered_as_the_real_one() -> None:
    """The i7-1370P: all that a kubelet reads of topology, and the clusters."""
    real = topologies.load("1s-1n-14c-smt2-near-e8-i7-1370p")
    tree = describe("1s-1n-14c-smt2-near-e8").tree
    names = ("core_id", "cluster_id", "thread_siblings_list", "cluster_cpus_list", "package_cpus")
    files = [f"topology/{name}" for name in names]
    files += ["cache/index2/id", "cache/index2/shared_cpu_list"]
    for cpu, file in product(range(20), files):
        path = f"{CPU}/cpu{cpu}/{file}"
        assert tree[path] == real[path], path


@st.composite
def specs(draw: st.DrawFn) -> str:
    sockets = draw(st.sampled_from([1, 2, 3, 4]))
    factor = draw(st.sampled_from([1, 2, 3]))
    nodes = sockets * factor
    if draw(st.booleans()):
        sockets, nodes = nodes, sockets
    caches = draw(st.sampled_from([1, 2, 3]))
    l3 = draw(st.sampled_from([f"l3x{caches}", f"l3x{caches}", "l3s"]))
    cores = max(sockets, nodes) * caches * draw(st.integers(1, 2))
    cores += draw(st.integers(0, 5))
    threads = draw(st.sampled_from([1, 2, 4]))
    every = ["near", "interleaved", "mem2", "cpustep2", "pkgstep3", "nodestep4"]
    suffixes = draw(st.sets(st.sampled_from(every)))
    tail = "".join(f"-{suffix}" for suffix in sorted(suffixes))
    tail += draw(st.sampled_from(["", "-arm64", "-ppc64"] if l3 == "l3x1" else ["", "-arm64"]))
    if cores * threads > 1 and "cpustep2" not in suffixes:
        tail += draw(st.sampled_from(["", f"-off{cores * threads - 1}"]))
    return f"{sockets}s-{nodes}n-{cores}c-smt{threads}-{l3}{tail}"


@given(specs())
@settings(max_examples=60, deadline=None)
def test_every_described_machine_is_tidy_and_counts_right(text: str) -> None:
    machine, spec = describe(text), parse(text)
    assert topologies.lint(machine.tree) == []
    assert machine.name == machine.shape == str(spec)
    sockets, nodes, cores, threads = map(int, re.findall(r"\d+", text)[:4])
    info = discover(machine.tree)
    assert len(info.nodes) == nodes + spec.memory_nodes
    found = info.cpu_topology()
    offline = "-off" in text  # the last CPU
    assert found.num_cpus == cores * threads - offline
    assert found.num_cores == cores - (offline and threads == 1)
    if not offline:
        assert found.num_sockets == sockets
        assert len(found.numa_masks) == nodes
        sizes = sorted(mask.bit_count() for mask in found.core_masks.values())
        assert sizes == [found.num_cpus // cores] * cores
        numbers = {text for path, text in machine.tree.items() if path.endswith("/index3/id")}
        # Only x86 gives caches an id.
        caches = spec.caches * max(sockets, nodes) or sockets
        assert len(numbers) == (0 if spec.architecture else caches)


def test_cores_spread_over_the_caches_of_a_node() -> None:
    """As on a Standard_HB176rs_v4, which has 16 of its 192 cores left out."""
    found = discover(describe("2s-4n-176c-smt1-l3x6").tree).cpu_topology()
    sizes = [mask.bit_count() for _, mask in sorted(found.uncore_masks.items())]
    assert sizes == [8, 8, 7, 7, 7, 7] * 4


@st.composite
def mainframes(draw: st.DrawFn) -> str:
    sockets = draw(st.integers(1, 6))
    books = draw(st.integers(1, sockets))
    drawers = draw(st.integers(1, books))
    cores = sockets + draw(st.integers(0, 9))
    totals = f"{sockets}s-{sockets}n-{cores}c-smt{draw(st.sampled_from([1, 2]))}"
    return f"{totals}-s390x-books{books}-drawers{drawers}"


@given(mainframes())
@settings(max_examples=20, deadline=None)
def test_every_described_mainframe_is_tidy_and_counts_right(text: str) -> None:
    """Of its packages the kubelet makes sockets and NUMA nodes; the model for s390x and a kubelet
    for amd64 count alike."""
    machine = describe(text)
    assert topologies.lint(machine.tree) == []
    spec = parse(text)
    for architecture in ("s390x", "amd64"):
        found = discover(machine.tree, architecture=architecture).cpu_topology()
        assert found.num_sockets == len(found.numa_masks) == spec.sockets
        assert (found.num_cores, found.num_cpus) == (spec.cores, spec.cpus)
    for level, count in (("book", spec.books), ("drawer", spec.drawers)):
        files = (f"{CPU}/cpu{cpu}/topology/{level}_siblings_list" for cpu in range(spec.cpus))
        assert len({machine.tree[file] for file in files}) == count


@given(st.integers(1, 6), st.integers(0, 9), st.sampled_from([1, 2]), st.booleans())
@settings(max_examples=20, deadline=None)
def test_every_hybrid_machine_is_tidy_and_counts_right(
    large: int, small: int, threads: int, near: bool
) -> None:
    text = f"1s-1n-{large + small}c-smt{threads}{'-near' if near else ''}-e{small}"
    machine = describe(text)
    assert topologies.lint(machine.tree) == []
    found = discover(machine.tree).cpu_topology()
    assert (found.num_cores, found.num_cpus) == (large + small, large * threads + small)
    sizes = [mask.bit_count() for _, mask in sorted(found.core_masks.items())]
    assert sizes == [threads] * large + [1] * small
