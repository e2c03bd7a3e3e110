"""Described machines: the files a real kernel would show.

Each kind of description has an entry in the catalogue. Its digest holds every file to the byte
(``test_machine_finding``), and a real kubelet said what it is (``test_machine_golden``).
"""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from reference import discover
from topologies import Link, describe
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


def test_the_name_is_the_canonical_spec() -> None:
    machine = describe("2s-2n-8c-smt2-off3-near")
    assert machine.name == machine.shape == "2s-2n-8c-smt2-near-off3"
    assert machine.digest == describe(machine.name).digest


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
    cores = max(sockets, nodes) * caches * draw(st.integers(1, 2))
    cores += draw(st.integers(0, 5))
    threads = draw(st.sampled_from([1, 2, 4]))
    every = ["near", "interleaved", "mem2", "cpustep2", "pkgstep3", "nodestep4"]
    suffixes = draw(st.sets(st.sampled_from(every)))
    tail = "".join(f"-{suffix}" for suffix in sorted(suffixes))
    tail += draw(st.sampled_from(["", "-arm64", "-ppc64"] if caches == 1 else ["", "-arm64"]))
    if cores * threads > 1 and "cpustep2" not in suffixes:
        tail += draw(st.sampled_from(["", f"-off{cores * threads - 1}"]))
    return f"{sockets}s-{nodes}n-{cores}c-smt{threads}-l3x{caches}{tail}"


@given(specs())
@settings(max_examples=60, deadline=None)
def test_every_described_machine_is_tidy_and_counts_right(text: str) -> None:
    machine = describe(text)
    assert topologies.lint(machine.tree) == []
    sockets, nodes, cores, threads = map(int, re.findall(r"\d+", text)[:4])
    found = discover(machine.tree).cpu_topology()
    offline = "-off" in text  # the last CPU
    assert found.num_cpus == cores * threads - offline
    assert found.num_cores == cores - (offline and threads == 1)
    if not offline:
        assert found.num_sockets == sockets
        assert len(found.numa_masks) == nodes
        sizes = sorted(mask.bit_count() for mask in found.core_masks.values())
        assert sizes == [found.num_cpus // cores] * cores
        if "-arm64" not in text and "-ppc64" not in text:
            numbers = {text for path, text in machine.tree.items() if path.endswith("/index3/id")}
            assert len(numbers) == parse(machine.name).caches * max(sockets, nodes)


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
