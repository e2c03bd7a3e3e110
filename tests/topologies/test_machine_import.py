"""Machines that others captured: what follows from a tree is added, and said."""

from __future__ import annotations

import gzip
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reference import discover
from tests.support import lacking
from tests.topologies.conftest import members_of, tar
from topologies import BrokenMachine, Link, NoteKind, Tree, complete, describe, lint, load, names
from topologies.paths import CPU, NODE
from topologies.reading import read_tree

CAPTURES = Path(__file__).parents[1] / "golden" / "captures"
WHOLE = describe("2s-4n-8c-smt2-mem1-off3,11").tree


def without(tree: Mapping[str, str], drop: Callable[[str], bool]) -> Tree:
    return Tree({path: text for path, text in tree.items() if not drop(path)})


def said(tree: Mapping[str, str]) -> str:
    return "\n".join(map(str, complete(tree).notes))


@pytest.mark.parametrize("name", names())
def test_a_whole_tree_comes_back_as_it_was(name: str) -> None:
    """With nothing completed; a kernel in a virtual machine may have no caches to show."""
    tree = load(name)
    done = complete(tree)
    assert dict(done.tree) == dict(tree)
    assert {note.kind for note in done.notes} <= {NoteKind.LACKING}


@pytest.mark.parametrize(
    "name",
    [
        "cpu/online", "cpu/present", "cpu/offline", "node/online", "node/has_cpu", "/cpulist",
        "/cpumap", "/shared_cpu_list", "/shared_cpu_map", "/thread_siblings", "/core_siblings",
        "/thread_siblings_list", "/core_siblings_list", "/core_cpus", "/package_cpus_list",
        "/die_cpus", "/core_id", "/physical_package_id",
    ],
)  # fmt: skip
def test_a_file_that_follows_from_others_is_made_again_to_the_byte(name: str) -> None:
    done = complete(without(WHOLE, lambda path: path.endswith(name)))
    assert dict(done.tree) == dict(WHOLE)
    assert [note.kind for note in done.notes] == [NoteKind.COMPLETED]
    assert name.rpartition("/")[2] in done.notes[0].what
    assert done.notes[0].why


@pytest.mark.parametrize("also", ["nothing else", "/cpulist", "/cpumap"])
def test_links_between_nodes_and_cpus_are_made_of_lists(also: str) -> None:
    """Offline CPUs are in no list: their links are lost with the links."""
    bare = without(
        WHOLE,
        lambda path: path.startswith(NODE) and (isinstance(WHOLE[path], Link) or also in path),
    )
    done = complete(bare)
    lost = WHOLE.keys() - done.tree.keys()
    assert {path.rpartition("/")[2] for path in lost} == {"cpu3", "cpu11"}
    assert all(WHOLE[path] == text for path, text in done.tree.items())
    assert "node/node0/cpu{0-1,8-9}, links" in said(bare)
    assert discover(done.tree).cpu_topology() == discover(WHOLE).cpu_topology()


def test_nodes_are_made_of_the_links_of_their_cpus() -> None:
    lacking = without(WHOLE, lambda path: path.startswith(NODE))
    done = complete(lacking)
    assert done.tree[f"{NODE}/online"] == "0-3\n", "nobody tells of the one without CPUs"
    assert done.tree[f"{NODE}/node1/cpulist"] == "2,10\n"
    one, other = (discover(tree).cpu_topology() for tree in (done.tree, WHOLE))
    assert one.details == other.details
    assert "node/node{0-3}/cpulist" in said(lacking)


def test_a_tree_without_nodes_keeps_none() -> None:
    """Its kernel knew of none, and the kubelet takes packages for nodes."""
    bare = without(WHOLE, lambda path: path.startswith(NODE) or "/node" in path)
    done = complete(bare)
    assert not any(path.startswith(NODE) for path in done.tree)
    assert "lacking: node: no NUMA node" in said(bare)


def test_links_that_lead_nowhere_are_mended() -> None:
    odd = {**WHOLE, f"{NODE}/node0/cpu0": Link("."), f"{NODE}/node0/cpu1": Link("../cpu1")}
    done = complete(odd)
    assert dict(done.tree) == dict(WHOLE)
    assert [str(note) for note in done.notes] == [
        "repaired: node/node0/cpu{0-1}: the links did not lead to the CPUs they are named by"
    ]


def test_what_disagrees_stays_as_it_is() -> None:
    """A CPU in two nodes, a list that is not its mask: facts of a machine, for the lint."""
    twice = {f"{NODE}/node1/cpu0": Link("../../cpu/cpu0")}
    odd = Tree({**WHOLE, **twice, f"{NODE}/node0/cpulist": "\n"})
    done = complete(odd)
    assert dict(done.tree) == dict(odd)
    assert lint(done.tree) == lint(odd) != []


def test_nul_bytes_and_carriage_returns_are_taken_out() -> None:
    odd = {
        path: text if isinstance(text, Link) else text.replace("\n", "\r\n")
        for path, text in WHOLE.items()
    }
    odd[f"{NODE}/online"] = "0-4\n\0\0"
    done = complete(odd)
    assert dict(done.tree) == dict(WHOLE)
    nuls, returns = map(str, done.notes)
    assert nuls == "repaired: node/online: NUL bytes taken out"
    assert returns.startswith("repaired: cpu/")
    assert returns.endswith(" more: carriage returns of CRLF taken out")


@pytest.mark.parametrize("name", ["online", "present"])
def test_an_unreadable_list_of_cpus_is_made_again(name: str) -> None:
    done = complete({**WHOLE, f"{CPU}/{name}": "?\n"})
    assert dict(done.tree) == dict(WHOLE)
    assert [note.kind for note in done.notes] == [NoteKind.REPAIRED]


def test_what_a_kernel_writes_of_offline_cpus_stays() -> None:
    """With more CPUs than it allows for, Linux begins the list with a comma."""
    tree = load("qemu-2s-2n-4c-smt1-pkgstep2")
    assert tree[f"{CPU}/offline"] == ",4-5\n"
    assert complete(tree).tree[f"{CPU}/offline"] == ",4-5\n"


def test_ids_come_from_cpuinfo_before_they_are_counted() -> None:
    def ids(path: str) -> bool:
        return path.endswith(("/core_id", "/physical_package_id", "/die_id"))

    sparse = describe("2s-2n-4c-smt2-pkgstep2").tree
    completed = complete(without(sparse, ids))
    assert completed.tree[f"{CPU}/cpu2/topology/physical_package_id"] == "2\n"
    assert '"physical id" of proc/cpuinfo' in "\n".join(map(str, completed.notes))
    counted = complete(without(sparse, lambda path: ids(path) or path == "proc/cpuinfo"))
    assert counted.tree[f"{CPU}/cpu2/topology/physical_package_id"] == "1\n"
    assert [counted.tree[f"{CPU}/cpu{cpu}/topology/core_id"] for cpu in range(8)] == (
        ["0\n", "1\n"] * 4
    )
    notes = "\n".join(map(str, counted.notes))
    assert "counted from the sets of siblings; a new number" in notes
    assert "lacking: proc/cpuinfo: the kubelet counts sockets by sysfs alone" in notes


def test_ids_that_nothing_tells_are_said_to_lack() -> None:
    alone = without(WHOLE, lambda path: "/topology/" in path or path == "proc/cpuinfo")
    assert "lacking: cpu/cpu{0-2,4-10,12-15}/topology/core_id: no file says it" in said(alone)


def test_a_board_keeps_its_serial_number() -> None:
    info = WHOLE["proc/cpuinfo"] + "Hardware\t: board\nSerial\t\t: 00000000deadbeef\n"
    done = complete({**WHOLE, "proc/cpuinfo": info})
    assert "deadbeef" not in "".join(done.tree.values())
    assert [note.kind for note in done.notes] == [NoteKind.LEFT_OUT]
    assert "deadbeef" not in str(done.notes[0])


def test_cpus_lose_their_serial_numbers() -> None:
    """The kernel shows them to root since 5.18 (``topology_init``); other programs pack them."""
    serials = {f"{CPU}/cpu{cpu}/topology/ppin": f"0x{cpu}deadbeef\n" for cpu in (0, 1)}
    done = complete({**WHOLE, **serials})
    assert dict(done.tree) == dict(WHOLE)
    (note,) = done.notes
    assert str(note) == ("left out: cpu/cpu0/topology/ppin and 1 more: the serial number of a CPU")


def test_what_hwloc_gathers_here_is_this_host(tmp_path: Path) -> None:
    program = lacking.program("hwloc-gather-topology")
    subprocess.run([program, tmp_path / "host"], capture_output=True, check=True, cwd=tmp_path)
    done = complete(read_tree(tmp_path / "host.tar.bz2"))
    here, found = discover(load("/")), discover(done.tree)
    assert found.cpu_topology() == here.cpu_topology()
    assert found.nodes == here.nodes


@pytest.mark.parametrize("tree", [{}, {"proc/cpuinfo": "\n"}, {f"{NODE}/online": "0\n"}])
def test_what_tells_of_no_cpu_is_no_machine(tree: dict[str, str]) -> None:
    with pytest.raises(BrokenMachine, match=r"here\.tar: not a machine: neither .* names a CPU"):
        complete(tree, where="here.tar")


def archive(path: Path, folder: str, tree: Mapping[str, str]) -> Path:
    """As hwloc and util-linux pack: other files beside."""
    beside = ("NAME.output", "Machine (8GB)\n", tarfile.REGTYPE)
    path.write_bytes(gzip.compress(tar(*members_of(tree, f"{folder}/"), beside)))
    return path


def test_an_archive_of_hwloc_of_old(tmp_path: Path) -> None:
    """Masks and links only, links that were cut when packing, no list of nodes."""
    tops = ("present", "possible", "offline", "kernel_max", "has_cpu", "has_memory")
    whole = describe("2s-2n-4c-smt2").tree
    old = {
        path: Link(".") if isinstance(text, Link) else text
        for path, text in whole.items()
        if not path.endswith(("_list", "/cpulist", "/id", *tops))
        and "_cpus" not in path
        and path != f"{NODE}/online"
    }
    path = archive(tmp_path / "8em64t.tar.gz", "8em64t/deeper", old)
    done = complete(read_tree(path))
    found = discover(done.tree).cpu_topology()
    assert found.details == discover(whole).cpu_topology().details
    kinds = [note.kind for note in done.notes]
    assert NoteKind.REPAIRED in kinds
    assert any("caches" in note.what for note in done.notes if note.kind is NoteKind.LACKING)


def test_a_dump_for_lscpu_of_old(tmp_path: Path) -> None:
    """``mk-input.sh`` of 2008: topology and caches of CPU 0 alone, and the masks of nodes."""
    whole = describe("2s-2n-4c-smt2").tree
    paths = (
        "proc/cpuinfo",
        f"{CPU}/cpu0/topology/thread_siblings",
        f"{CPU}/cpu0/topology/core_siblings",
        f"{NODE}/node0/cpumap",
        f"{NODE}/node1/cpumap",
    )
    kept = {"proc/bus/pci/devices": "", **{path: whole[path] for path in paths}}
    done = complete(read_tree(archive(tmp_path / "dump.tar.gz", "x86_64-old", kept)))
    assert done.tree[f"{CPU}/online"] == "0-7\n"
    found, wanted = (discover(tree).cpu_topology() for tree in (done.tree, whole))
    places = [{cpu: place[:3] for cpu, place in one.details.items()} for one in (found, wanted)]
    assert places[0] == places[1]
    assert (found.num_cpus, found.num_cores, found.num_sockets) == (8, 4, 2)


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.tar.xz")), ids=lambda path: path.name)
def test_archives_of_real_machines_import(path: Path) -> None:
    """Each becomes a machine that says no less than it did."""
    before = load(path, check=False)
    done = complete(before)
    assert {path for path in before if not path.endswith("/ppin")} <= done.tree.keys()
    again = complete(done.tree)
    assert dict(again.tree) == dict(done.tree)
    assert {note.kind for note in again.notes} <= {NoteKind.LACKING}
    assert discover(done.tree).cpu_topology().num_cpus > 0
