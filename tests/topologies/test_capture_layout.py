"""Machines as QEMU's arguments, held against how Linux numbers CPUs and NUMA nodes."""

from __future__ import annotations

import re
import struct
from itertools import product

import pytest

import topologies
from topologies.capturing import BadTarget, acpi
from topologies.capturing.layout import Layout, layout
from topologies.cpulist import ids, parse_list
from topologies.paths import CPU, NODE

SPECS = [
    "1s-1n-1c-smt1", "1s-1n-2c-smt2", "1s-1n-2c-smt2-near", "2s-2n-6c-smt2",
    "2s-4n-12c-smt2-interleaved", "2s-4n-8c-smt2-l3s", "1s-2n-8c-smt4-near-l3x2", "4s-2n-8c-smt2",
    "4s-1n-4c-smt1", "2s-2n-4c-smt2-pkgstep3", "2s-2n-4c-smt2-cpustep2",
    "2s-2n-4c-smt2-interleaved-cpustep3-pkgstep2", "2s-2n-4c-smt1-mem2-off0,3",
    "1s-4n-32c-smt2-l3x2",
]  # fmt: skip


def values(made: Layout, option: str) -> list[str]:
    pairs = zip(made.arguments[::2], made.arguments[1::2], strict=True)
    return [value for name, value in pairs if name == option]


def fields(text: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in text.split(","))


def numbers(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in fields(text).items()}


class Qemu:
    """The CPUs that QEMU has by its own rules: every index with its place and its APIC id."""

    def __init__(self, made: Layout) -> None:
        self.smp = smp = numbers(values(made, "-smp")[0])
        sizes = [smp[name] for name in ("sockets", "dies", "cores", "threads")]
        self.places = list(product(*map(range, sizes)))
        assert len(self.places) == smp["maxcpus"]
        widths = [(size - 1).bit_length() for size in sizes[1:]]
        self.apic_ids = []
        for place in self.places:
            apic_id = place[0]
            for width, number in zip(widths, place[1:], strict=True):
                apic_id = apic_id << width | number
            self.apic_ids.append(apic_id)

    def index(self, where: dict[str, int]) -> int:
        names = ("socket-id", "die-id", "core-id", "thread-id")
        return self.places.index(tuple(where[name] for name in names))


def numbered(made: Layout) -> dict[int, tuple[int, ...]]:
    """What Linux makes of it: (socket, die, core, thread) and QEMU's index of each CPU."""
    qemu = Qemu(made)
    present = set(range(qemu.smp["cpus"]))
    for device in values(made, "-device"):
        present.add(qemu.index(numbers(device.partition(",")[2])))
    if made.table:
        order = [uid for uid, _ in made.table]
        assert [qemu.apic_ids[uid] for uid in order] == [apic for _, apic in made.table]
        assert set(order) == present
        assert order[0] == 0
    else:
        order = sorted(present)
    for run in made.plug:
        indexes = [qemu.index(place.properties()) for place in run]
        assert indexes == sorted(indexes)
        order += indexes
    assert len(order) == len(set(order)) == made.cpus
    return {
        cpu: (*qemu.places[index], index)
        for cpu, index in enumerate(order)
        if cpu not in made.unplug
    }


@pytest.mark.parametrize("spec", SPECS)
def test_linux_numbers_the_guest_as_described(spec: str) -> None:
    made = layout(spec)
    tree = topologies.load(re.sub("-off.*", "", spec))
    linked = (re.fullmatch(rf"{NODE}/node([0-9]+)/cpu([0-9]+)", path) for path in tree)
    nodes = {int(found[2]): int(found[1]) for found in linked if found}
    of_index: dict[int, int] = {}
    for node in values(made, "-numa"):
        if node.startswith("node,"):
            number = int(fields(node)["nodeid"])
            for piece in re.findall("cpus=([0-9-]+)", node):
                for index in ids(parse_list(piece)):
                    assert of_index.setdefault(index, number) == number
    cpus = numbered(made)
    assert set(cpus) == set(nodes)
    assert set(of_index) == set(range(Qemu(made).smp["maxcpus"])), "QEMU wants each in a node"
    for cpu, (socket, die, core, thread, index) in cpus.items():
        base = f"{CPU}/cpu{cpu}"
        assert socket == int(tree[f"{base}/topology/physical_package_id"])
        assert of_index[index] == nodes[cpu]
        for name, members in (
            ("topology/thread_siblings_list", (socket, die, core)),
            ("cache/index3/shared_cpu_list", (socket, die)),
        ):
            shared = {other for other, at in cpus.items() if at[: len(members)] == members}
            assert shared == set(ids(parse_list(tree[f"{base}/{name}"])))
        assert thread < Qemu(made).smp["threads"]


@pytest.mark.parametrize("spec", SPECS)
def test_memory_and_distances_are_complete(spec: str) -> None:
    made = layout(spec)
    count = len([one for one in values(made, "-numa") if one.startswith("node,")])
    sizes = [int(fields(one)["size"].removesuffix("M")) for one in values(made, "-object")]
    assert len(sizes) == count
    assert values(made, "-m") == [f"{sum(sizes)}M"]
    distances = [one for one in values(made, "-numa") if one.startswith("dist,")]
    assert len(distances) == count * (count - 1)


def test_an_ordinary_machine_needs_nothing_special() -> None:
    made = layout("2s-2n-8c-smt2-near")
    assert (made.table, made.plug, made.kernel, values(made, "-device")) == ((), (), (), [])
    assert values(made, "-smp") == ["cpus=16,maxcpus=16,sockets=2,dies=1,cores=4,threads=2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2s-3n-8c-smt2", "3 NUMA nodes do not spread evenly over 2 sockets"),
        ("nonsense", "a spec starts like 2s-4n-64c-smt2"),
        ("", "a spec starts like 2s-4n-64c-smt2"),
        ("1s-1n-4c-smt1-arm64", "QEMU boots only descriptions of x86"),
        ("1s-1n-4c-smt2-e2", "QEMU boots only descriptions of x86 with cores of one kind"),
        ("1s-3n-4c-smt2", "QEMU's sockets and dies have equally many cores"),
        ("arm64", "a spec starts like 2s-4n-64c-smt2"),
        ("riscv64 -smp 4", "a spec starts like 2s-4n-64c-smt2"),
        ("arm64 -smp 4 -machine hmat=on", "-device and -machine are only for x86"),
        ("2s-2n-8c-smt2-nodestep2", "Linux on x86 numbers NUMA nodes without gaps"),
        ("-smp", "-smp needs a value"),
        ("-numa node", "it needs -smp"),
        ("-smp sockets=2", "-smp sockets=2 does not say how many CPUs there are: cpus=N"),
        ("-smp '4", "No closing quotation"),
        ("-smp 4 -drive file=/etc/passwd", "'-drive' is not one of -smp, -m, "),
        ("-smp 4 -object memory-backend-file,mem-path=/x", "-object does not take "),
        ("-smp 4 -device e1000", "-device does not take 'e1000'"),
        ("-smp 4 -machine dumpdtb=/tmp/x", "-machine does not take 'dumpdtb=/tmp/x'"),
        ("-smp 4 -cpu host,$(id)", "-cpu does not take 'host,$(id)'"),
        ("-smp 4 -m 1G,\nx", "'x' is not one of"),
        ("-smp 4 -offline 2-", "not a CPU list: '2-'"),
    ],
)
def test_what_cannot_be_is_one_line(text: str, said: str) -> None:
    with pytest.raises(BadTarget) as caught:
        layout(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_qemus_own_words_are_passed_on() -> None:
    made = layout("-smp 4,sockets=2 -numa node,cpus=0-1 -numa node,cpus=2-3 -offline 0,3 -nosmt")
    assert made.arguments == (
        "-cpu", "Skylake-Server", "-m", "1024M",
        "-smp", "4,sockets=2", "-numa", "node,cpus=0-1", "-numa", "node,cpus=2-3",
    )  # fmt: skip
    assert (made.cpus, made.offline, made.kernel) == (4, (0, 3), ("nosmt", "cpu0_hotplug"))
    sized = layout(
        "-smp cpus=1,maxcpus=2 -device Skylake-Server-x86_64-cpu,socket-id=1,core-id=0,thread-id=0 "
        "-object memory-backend-ram,id=a,size=1G -object memory-backend-ram,id=b,size=512M"
    )
    assert (sized.cpus, sized.arguments[:4]) == (2, ("-cpu", "Skylake-Server", "-m", "1536M"))


@pytest.mark.parametrize(
    ("architecture", "program", "cpu"),
    [
        ("arm64", "qemu-system-aarch64", "max"),
        ("ppc64", "qemu-system-ppc64", "power10"),
        ("s390x", "qemu-system-s390x", "max"),
    ],
)
def test_another_architecture_is_named_before_the_options(
    architecture: str, program: str, cpu: str
) -> None:
    made = layout(f"{architecture} -smp 4,sockets=2 -offline 3")
    assert (made.board.program, made.board.shares_line) == (program, True)
    assert made.arguments == ("-cpu", cpu, "-m", "1024M", "-smp", "4,sockets=2")
    assert (made.text, made.cpus) == (f"{architecture} -smp 4,sockets=2 -offline 3", 4)


# --- the firmware's table --------------------------------------------------------------------


def test_the_table_sums_to_nothing_and_names_cpus_in_order() -> None:
    table = acpi.madt([(0, 0), (2, 2), (1, 1)])
    assert sum(table) & 0xFF == 0
    assert table[:4] == b"APIC"
    assert struct.unpack_from("<I", table, 4) == (len(table),)
    entries, at = [], 44
    while at < len(table):
        entries.append(table[at : at + table[at + 1]])
        at += table[at + 1]
    assert at == len(table)
    assert [tuple(entry[2:4]) for entry in entries if entry[0] == 0] == [(0, 0), (2, 2), (1, 1)]
    assert [entry[0] for entry in entries] == [0, 0, 0, 1, 2, 2, 2, 2, 2, 4]


def test_apic_ids_of_more_than_a_byte_have_entries_of_their_own() -> None:
    table = acpi.madt([(0, 0), (300, 511)])
    assert struct.pack("<BBHIII", 9, 16, 0, 511, 1, 300) in table
    assert struct.pack("<BBHIB3x", 10, 12, 0, 0xFFFFFFFF, 1) in table
    assert sum(table) & 0xFF == 0
