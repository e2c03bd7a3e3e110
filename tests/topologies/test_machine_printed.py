"""What lscpu and lstopo print is imported as the machine that they printed it of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from conformance.discovered import topology_of
from conformance.lockstep import machine_record
from reference import NEWEST
from tests.topologies.conftest import printed_by
from topologies import BrokenMachine, Machine, Tree, complete, describe, machine, write
from topologies.exporting import readable
from topologies.importing import Note, NoteKind
from topologies.importing.printed import read_printed

COMMANDS: Final = {
    "lscpu -p": ("lscpu", "--sysroot", "{}", "-p"),
    "lscpu -p, all": ("lscpu", "--sysroot", "{}", "-a", "-p=cpu,core,socket,node,cache,online"),
    "lscpu -e": ("lscpu", "--sysroot", "{}", "-a", "-e"),
    "lscpu -J -e": ("lscpu", "--sysroot", "{}", "-a", "-J", "-e"),
    "lstopo": ("lstopo-no-graphics", "-i", "{}", "--no-io", "--of", "xml"),
}
MACHINES: Final = (
    "1s-1n-4c-smt1",
    "2s-4n-64c-smt2",
    "2s-2n-32c-smt2-l3x4",
    "8s-8n-8c-smt4-near",
    "3s-6n-18c-smt2-interleaved-off35",
    "qemu-2s-8n-32c-smt2-near",
)


def found(tree: Tree) -> list[list[int]]:
    """What a kubelet finds: each CPU, with its NUMA node, socket, core and uncore cache, each by
    the order in which they first appear."""
    one = Machine("one", tree)
    cpus = machine_record(one, topology_of(one, release=NEWEST)).cpus
    orders: list[dict[int, int]] = [{} for _ in range(4)]
    return [
        [cpu, *(order.setdefault(own, len(order)) for order, own in zip(orders, ids, strict=True))]
        for cpu, ids in sorted(cpus.items())
    ]


def read(text: str, folder: Path) -> tuple[Tree, tuple[Note, ...]]:
    path = folder / "printed"
    path.write_text(text)
    found = read_printed(path)
    assert found is not None
    return found


def imported(text: str, folder: Path) -> Tree:
    return complete(read(text, folder)[0]).tree


@pytest.fixture(scope="module", params=MACHINES)
def laid_out(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[list[int]]]:
    """Where a machine lies for all commands, and what a kubelet finds on it."""
    tree, root = machine(request.param).tree, tmp_path_factory.mktemp("laid") / "root"
    write(readable(tree), root)
    return root, found(tree)


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_kubelet_finds_the_same_machine(
    kind: str, laid_out: tuple[Path, list[list[int]]], tmp_path: Path
) -> None:
    root, right = laid_out
    text = printed_by(*(word.format(root) for word in COMMANDS[kind]))
    assert found(imported(text, tmp_path)) == right


TABLE: Final = "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,0,0\n1,1,0,0,,1,1,1,0\n"
CPUS: Final = [
    {"cpu": 0, "node": 0, "socket": 0, "core": 0, "l1d:l1i:l2:l3": "0:0:0:0", "online": True},
    {"cpu": 1, "node": 1, "socket": 0, "core": 1, "l1d:l1i:l2:l3": "1:1:1:1", "online": "yes"},
    {"cpu": 2, "node": None, "socket": None, "core": None, "l1d:l1i:l2:l3": "-", "online": False},
]
XML: Final = (
    '<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc.dtd"><topology>'
    '<object type="Machine" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000007">'
    '<object type="NUMANode" os_index="0" cpuset="0x00000003" local_memory="1048576"/>'
    '<object type="Socket" os_index="1" cpuset="0x00000003">'
    '<object type="Cache" depth="3" cpuset="0x00000003" cache_size="2097152"/>'
    '<object type="Core" os_index="4" cpuset="0x00000003">'
    '<object type="PU" os_index="0" cpuset="0x00000001"/>'
    '<object type="PU" os_index="1" cpuset="0x00000002"/></object></object></object></topology>'
)


def test_older_dialects_are_read(tmp_path: Path) -> None:
    """Hwloc 1, as it called sockets and caches; lscpu, which says yes or true."""
    tree = imported(XML, tmp_path)
    cpu = "sys/devices/system/cpu"
    assert tree[f"{cpu}/offline"] == "2\n"
    assert tree[f"{cpu}/cpu1/topology/physical_package_id"] == "1\n"
    assert tree[f"{cpu}/cpu1/cache/index3/size"] == "2048K\n"
    assert tree["sys/devices/system/node/node0/meminfo"] == "Node 0 MemTotal: 1024 kB\n"
    assert found(tree) == [[0, 0, 0, 0, 0], [1, 0, 0, 0, 0]]
    tree = imported(json.dumps({"cpus": CPUS}), tmp_path)
    assert tree[f"{cpu}/offline"] == "2\n"
    assert [row[:4] for row in found(tree)] == [[0, 0, 0, 0], [1, 1, 0, 1]]


def test_what_the_output_lacks_is_said(tmp_path: Path) -> None:
    _, notes = read(TABLE, tmp_path)
    assert {note.kind for note in notes} == {NoteKind.COMPLETED, NoteKind.LACKING}
    assert "lscpu prints no memory and no distances" in " ".join(map(str, notes))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TABLE.partition("\n")[2], "no line “# CPU,…” names the columns"),
        (f"{TABLE}2,2,0", "cut off: '2,2,0' has 3 columns, not 9"),
        (f"{TABLE}1,1,0,0,,1,1,1,0", "CPU 1 occurs twice"),
        (f"{TABLE}2,x,0,0,,1,1,1,0", "core is 'x', which is not a number"),
        (f"{TABLE}9000,2,0,0,,1,1,1,0", "no Linux has CPU 9000"),
        (f"{TABLE}2,2,0,5000,,1,1,1,0", "no Linux has NUMA node 5000"),
        (f"{TABLE}2,,,,,,,,", "nothing says which core and socket CPU 2 has"),
        ("# CPU,Core\n", "no CPU is online"),
        ("CPU NODE SOCKET CORE\n  0    0", "cut off: '0 0' has 2 columns, not 4"),
        ("CPU NODE\n  0 0\n", "nothing says which core and socket CPU 0 has"),
        ("Architecture: x86_64\nCPU(s): 8\n", "`lscpu` does not list single CPUs"),
        ('{"lscpu": [{"field": "CPU(s):", "data": "8"}]}', "give it what `lscpu -J -e` prints"),
        ('{"cpus": 7}', "give it what `lscpu -J -e` prints"),
        (json.dumps({"cpus": CPUS})[:-30], "cut off: "),
        ('{"cpus": [{"core": 1}]}', "a row names no CPU"),
        (XML[:-40], "unclosed token"),
        (XML.replace("0x00000003", "0xno"), "which is not a set as hwloc"),
        (XML.replace("<topology>", "<topology><other/>").replace("topology>", "svg>"), "lstopo"),
        ('<?xml version="1.0"?><topology/>', "it holds no machine object"),
        ('<?xml version="1.0"?><!DOCTYPE t [<!ENTITY a "b">]><topology/>', "declares entities"),
    ],
)
def test_torn_and_hostile_output_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BrokenMachine) as caught:
        read(text, tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_anything_else_is_left_to_others(tmp_path: Path) -> None:
    write(describe("1s-1n-4c-smt1").tree, tmp_path / "tree")
    assert read_printed(tmp_path / "tree") is None
    assert read_printed(tmp_path / "not there") is None
    for number, content in enumerate((b"\xff\xfe\x00", b"", b"hello\n")):
        path = tmp_path / str(number)
        path.write_bytes(content)
        assert read_printed(path) is None
