"""What a kubelet says its machine is: read from its log, and equal to what the model finds."""

from __future__ import annotations

import io

import pytest

from conformance.discovered import architecture_of
from conformance.kubelets.klog import Log
from conformance.subject import SubjectLostError
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.clock import with_clock
from differential.detected import detect, heard
from differential.record_golden import record_discovery, with_clock_speed
from reference import discover
from tests.support.machine_golden import in_order, modelled
from topologies import Machine, Tree, machine, names
from topologies.entries import catalogue_entry
from topologies.paths import CPU
from topologies.steady import steady

HEAD = "I1121 12:20:48.296926       2 "
MACHINE = (
    HEAD + "manager.go:218] Machine: {Timestamp:2026-11-21 12:20:48 +0000 UTC m=+0.15 "
    "CPUVendorID:GenuineIntel NumCores:2 NumPhysicalCores:1 NumSockets:1 NumBooks:0 "
    "HugePages:[{PageSize:2048 NumPages:0}] MachineID:3d12 DiskMap:map[254:0:{Name:vda}] "
    "Topology:[{Id:0 Memory:1024 HugePages:[{PageSize:2048 NumPages:0}] Cores:[{Id:0 Threads:[0 1] "
    "Caches:[{Id:0 Size:32768 Type:Data Level:1}] UncoreCaches:[] SocketID:-1 BookID: DrawerID:}] "
    "Caches:[] Distances:[10 21]} "
    "{Id:1 Memory:0 HugePages:[] Cores:[] Caches:[] Distances:[21 10]}] "
    "CloudProvider:Unknown InstanceType:Unknown InstanceID:None}"
)
TOPOLOGY = (
    HEAD + 'cpu_manager.go:191] "Detected CPU topology" topology={"NumCPUs":2,"NumCores":1,'
    '"CPUDetails":{"0":{"NUMANodeID":0,"SocketID":0,"CoreID":0,"UncoreCacheID":0}}}'
)


def test_the_log_is_understood() -> None:
    said = heard(["noise", MACHINE, TOPOLOGY, "noise"])
    assert said.cpu_topology["NumCPUs"] == 2
    assert said.cpu_topology["CPUDetails"]["0"]["CoreID"] == 0
    core = {
        "Id": 0,
        "Threads": [0, 1],
        "Caches": [{"Id": 0, "Size": 32768, "Type": "Data", "Level": 1}],
        "UncoreCaches": [],
        "SocketID": -1,
    }
    assert said.machine_info == {
        "NumCores": 2,
        "NumPhysicalCores": 1,
        "NumSockets": 1,
        "Topology": [
            {"Id": 0, "Memory": 1024, "Cores": [core], "Caches": [], "Distances": [10, 21]},
            {"Id": 1, "Memory": 0, "Cores": [], "Caches": [], "Distances": [21, 10]},
        ],
    }


def test_of_several_starts_the_last_counts() -> None:
    older = TOPOLOGY.replace('"NumCPUs":2', '"NumCPUs":4')
    assert heard([MACHINE, older, MACHINE, TOPOLOGY]).cpu_topology["NumCPUs"] == 2


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "has no CPU topology"),
        ([MACHINE], "has no CPU topology"),
        ([TOPOLOGY], "has no machine"),
        ([MACHINE.replace(" Topology:[", " Topology:"), TOPOLOGY], "its machine cannot be read"),
        ([MACHINE.replace("NumSockets:1 ", ""), TOPOLOGY], "its machine cannot be read"),
        ([MACHINE[:-120], TOPOLOGY], "its machine cannot be read"),
        ([MACHINE.replace("Threads:[0 1]", "Threads:[x]"), TOPOLOGY], "invalid literal"),
        (
            [MACHINE.partition("Topology:")[0] + "Topology:" + "[" * 9999, TOPOLOGY],
            "cannot be read",
        ),
        ([MACHINE, TOPOLOGY[:-1]], "Expecting"),
    ],
)
def test_what_is_no_machine_is_refused(lines: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        heard(lines)


def test_long_lines_are_read_whole() -> None:
    """The log reads them in pieces: a machine of 512 CPUs takes 100,000 characters."""
    text = "first\n" + "x" * 40_000 + "y\n" + "z" * 16_384 + "\nlast\n"
    log = Log(io.BytesIO(text.encode()), lambda: None)
    log.finish()
    assert log.lines() == text.splitlines()


@pytest.mark.parametrize("name", names())
def test_a_kubelet_finds_what_the_model_finds(subject: KubeletSubject, name: str) -> None:
    """It boots on every machine of the catalogue: also on those that show no clock speed, and where
    the lowest CPU that is online is in no NUMA node, so that another one is reserved."""
    one = machine(name)
    said = detect(subject, one)
    built_for = architecture_of(subject.info)
    info = discover(one.tree, release=subject.info.release, architecture=built_for)
    found = modelled(info)
    assert said.cpu_topology == found.cpu_topology
    if "the order of the nodes" in info.by_chance:
        assert in_order(said.machine_info) == found.machine_info
    else:
        assert said.machine_info == found.machine_info


def test_a_kubelet_finds_what_is_recorded(subject: KubeletSubject) -> None:
    """Recording again changes nothing."""
    outcome = record_discovery(subject, write=False)
    assert outcome.differences == []
    assert outcome.equal == 10


def test_a_clock_speed_is_added_where_there_is_none() -> None:
    bare = with_clock_speed(Tree({"proc/cpuinfo": "processor\t: 0\n"}))
    assert "cpu MHz" in bare["proc/cpuinfo"]
    assert with_clock_speed(bare) is bare


def test_a_machine_that_is_none_is_told_in_the_kubelets_words(subject: KubeletSubject) -> None:
    """No CPU of it has a core id."""
    tree = machine("1s-1n-2c-smt1").tree
    bare = Tree({path: text for path, text in tree.items() if not path.endswith("/core_id")})
    with pytest.raises(
        SubjectLostError, match=r"bare: it gave up: .*could not detect number of cpus"
    ):
        detect(subject, Machine("bare", bare))


# -- machines that show no clock speed, under a kubelet built for amd64 ----------------------------

PATH = f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq"
CLOCKLESS = ("2s-4n-128c-smt1-arm64-kunpeng920", "6s-1n-20c-smt1-s390x-z196")


@pytest.mark.parametrize("name", CLOCKLESS)
def test_a_clock_is_added_and_nothing_else(name: str) -> None:
    tree = machine(name).tree
    assert catalogue_entry(name).architecture in ("aarch64", "s390x")
    assert dict(with_clock(tree)) == {**tree, PATH: "2000000\n"}
    assert dict(with_clock(with_clock(tree))) == dict(with_clock(tree))


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("2s-2n-16c-smt2", ""),
        ("8s-8n-64c-smt4-ppc64-power7", ""),
        ("1s-1n-2c-smt1", "proc/cpuinfo"),
    ],
)
def test_a_machine_stays_as_it_is(name: str, without: str) -> None:
    """One that shows a clock; and one without cpuinfo, of which the kubelet says what it lacks."""
    tree = Tree({path: text for path, text in machine(name).tree.items() if path != without})
    assert with_clock(tree) is tree


def test_a_collected_node_without_cpufreq_has_a_clock(subject: KubeletSubject) -> None:
    """What a node measures is left out of its machine, its clock speed too."""
    whole = machine("2s-2n-16c-smt2")
    shown = {path: text for path, text in whole.tree.items() if "/cpufreq" not in path}
    collected = Machine("node", steady(Tree(shown)))
    assert "MHz" not in collected.tree["proc/cpuinfo"]
    assert detect(subject, collected).cpu_topology["NumCPUs"] == 32
