"""Discovery, and how it differs by release and architecture, on trees written here: what captured
machines do not show (``test_model_discovery_golden``).

Facts: cAdvisor (``utils/sysinfo``, ``utils/sysfs``, ``machine``) and kubelet
(``cm/cpumanager/topology``) at the tags that the releases carry; issues where one is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

import pytest

from reference import Architecture, Cache, DiscoveryError, MachineInfo, NotModelled, discover
from reference.behaviours import Area, Behaviour
from reference.machine.topology import Place
from reference.releases import ANNOUNCED, NEWEST, has

CPU, NODE = "sys/devices/system/cpu", "sys/devices/system/node"
PAGES = "hugepages/hugepages-2048kB/nr_hugepages"

# The last release of each reader of sysfs, and of each rule for what is online.
BY_SYSFS = ["1.19.8", "1.19.9", "1.20", "1.21", "1.22", "1.23", "1.28", "1.29", "1.32", "1.37"]
BY_CPUINFO = ["1.8", "1.13", "1.14", "1.15", "1.16", "1.17", "1.18"]

Files = dict[str, str]


def machine(
    cpus: Mapping[int, tuple[int, int]],
    nodes: Mapping[int, Iterable[int]] | None = None,
    *,
    cpuinfo: str | None = None,
) -> Files:
    """An x86 tree of {cpu: (core id, package)} in NUMA nodes {node: cpus}, all of it online."""
    files = {f"{CPU}/online": ",".join(map(str, cpus)) + "\n"}
    lines = []
    for cpu, (core, package) in cpus.items():
        files[f"{CPU}/cpu{cpu}/online"] = "1\n"
        files[f"{CPU}/cpu{cpu}/topology/core_id"] = f"{core}\n"
        files[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = f"{package}\n"
        lines.append(f"processor\t: {cpu}\nphysical id\t: {package}\ncore id\t\t: {core}\n\n")
    nodes = {0: list(cpus)} if nodes is None else nodes
    for node, members in nodes.items():
        files[f"{NODE}/node{node}/meminfo"] = f"Node {node} MemTotal:       1024 kB\n"
        files[f"{NODE}/node{node}/distance"] = "10\n"
        files[f"{NODE}/node{node}/cpulist"] = ",".join(map(str, members)) + "\n"
        for cpu in members:
            files[f"{NODE}/node{node}/cpu{cpu}"] = f"../../cpu/cpu{cpu}"
    if nodes:
        for name in ("online", "possible"):
            files[f"{NODE}/{name}"] = ",".join(map(str, nodes)) + "\n"
    return files | {"proc/cpuinfo": "".join(lines) if cpuinfo is None else cpuinfo}


def without(files: Files, *paths: str) -> Files:
    return {path: text for path, text in files.items() if path not in paths}


def details(info: MachineInfo) -> dict[int, Place]:
    return dict(info.cpu_topology().details)


def cores(info: MachineInfo) -> list[tuple[int, ...]]:
    return [core.thread_ids for node in info.nodes for core in node.cores]


def nodes(info: MachineInfo) -> list[tuple[int, int]]:
    """Each NUMA node, and how many cores it has."""
    return [(node.node_id, len(node.cores)) for node in info.nodes]


def places(info: MachineInfo) -> tuple[list[int], list[int], int]:
    """The NUMA nodes and the sockets of CPUs 0 to 3, and how many sockets there are."""
    found = [details(info)[cpu] for cpu in range(4)]
    numa, sockets = [place.numa for place in found], [place.socket for place in found]
    return numa, sockets, info.cpu_topology().num_sockets


def cpus(info: MachineInfo) -> tuple[list[int], int]:
    """Those that have a place, and how many were counted."""
    return sorted(details(info)), info.num_cores


def caches(info: MachineInfo) -> tuple[tuple[Cache, ...], tuple[Cache, ...]]:
    """The first core's own, and its uncore caches."""
    core = info.nodes[0].cores[0]
    return core.caches, core.uncore_caches


def refusal(info: MachineInfo) -> str:
    """Why there is no CPU topology."""
    with pytest.raises(DiscoveryError) as caught:
        info.cpu_topology()
    return str(caught.value)


def uncores(info: MachineInfo) -> list[int]:
    """The uncore cache of each CPU."""
    return [place.uncore for _, place in sorted(details(info).items())]


def with_cache(files: Files, cpu: int, **changed: str | None) -> Files:
    """The files with an L3 of two CPUs beside ``cpu``."""
    values = {"id": "3\n", "size": "1024K\n", "level": "3\n", "type": "Unified\n",
              "shared_cpu_map": "00000000,00000005\n"} | changed  # fmt: skip
    folder = f"{CPU}/cpu{cpu}/cache/index3"
    return files | {f"{folder}/{name}": text for name, text in values.items() if text is not None}


def with_caches(files: Files, **changed: str | None) -> Files:
    for cpu in SMT:
        files = with_cache(files, cpu, **changed)
    return files


SMT = {0: (0, 0), 1: (1, 0), 2: (0, 0), 3: (1, 0)}
TWO_PACKAGES = {0: (0, 0), 1: (0, 1), 2: (1, 0), 3: (1, 1)}
TWO_NODES = machine(TWO_PACKAGES, {0: [0, 1], 1: [2, 3]})

S390 = "vendor_id       : IBM/S390\n# processors    : 4\nprocessor 0: version = 00\n"
SAME_DRAWER = dict.fromkeys(range(4), ("0", "0"))


def drawers(ids: Mapping[int, tuple[str, str]] = SAME_DRAWER) -> Files:
    files = machine(dict.fromkeys(range(4), (0, 0)), cpuinfo=S390)
    for cpu, (book, drawer) in ids.items():
        files |= {f"{CPU}/cpu{cpu}/topology/book_id": f"{book}\n"}
        files |= {f"{CPU}/cpu{cpu}/topology/drawer_id": f"{drawer}\n"}
    return files


# -- what some releases find of a machine ----------------------------------------------------------

HALF = machine(SMT) | {f"{CPU}/online": "0-1\n"}
ALL = ([0, 1, 2, 3], 4)
PACKAGE = "topology/physical_package_id"
DISTANCE = f"{NODE}/node0/distance"
NO_CPUS = "could not detect number of cpus"
NO_PAGES = f'failed to add node 0: could not parse file /{NODE}/node0/{PAGES} contents "x\\n"'
PANIC = "runtime error: index out of range [1] with length 1"

#: For each rule a machine, what is looked at, and what that is by release.
RULES: dict[str, tuple[Files, Callable[[MachineInfo], object], Mapping[str, object]]] = {
    # /proc/cpuinfo, up to 1.18
    "a package is a node":
        (TWO_NODES,
         lambda info: (nodes(info), info.num_sockets, info.num_physical_cores, info.by_chance),
         dict.fromkeys(BY_CPUINFO, ([(0, 2), (1, 2)], None, None, ()))),
    "NUMA nodes are known since 1.16 and were taken for sockets by early 1.19":
        (TWO_NODES, places,
         dict.fromkeys(["1.8", "1.13", "1.14", "1.15"], ([0, 0, 0, 0], [0, 1, 0, 1], 2))
         | dict.fromkeys(["1.16", "1.17", "1.18"], ([0, 0, 1, 1], [0, 1, 0, 1], 2))
         | dict.fromkeys(["1.19.0", "1.19.8"], ([0, 0, 1, 1], [0, 0, 1, 1], 2))
         | dict.fromkeys(["1.19.9", "1.19"], ([0, 0, 1, 1], [0, 1, 0, 1], 2))),
    "aarch64 takes the last node link, and the CPU where there is no core":
        (machine({}, cpuinfo="processor\t: 4\nCPU architecture: 8\n")
         | {f"{CPU}/cpu4/node{node}": "x" for node in (1, 10, 2)},
         lambda info: [(node.node_id, node.cores[0].core_id) for node in info.nodes],
         {"1.18": [(2, 4)]}),
    "a CPU may not be listed twice":
        (machine({}, cpuinfo="processor\t: 0\ncore id\t\t: 0\n" * 2),
         lambda info: (info.num_cores, refusal(info)),
         {"1.18": (2, "cpus provided are not unique")}),
    "a node with bad memory is no node":
        (machine(SMT) | {f"{NODE}/node0/meminfo": "x\n"},
         attrgetter("num_cores", "fault"),
         {"1.18": (-1, 'failed to add node 0: failed to match regexp in output: "x\\n"')}),
    "nor is one with bad huge pages since 1.17":
        (machine(SMT) | {f"{NODE}/node0/{PAGES}": "x\n"}, attrgetter("num_cores", "fault"),
         {"1.16": (4, "")} | dict.fromkeys(["1.17", "1.18"], (-1, NO_PAGES))),
    # NUMA nodes
    "CPUs that two nodes claim lie in one by chance":
        (machine(SMT, {0: [0, 1, 2], 1: [2, 3]}), lambda info: (info.by_chance, places(info)[0]),
         {"1.17.17": (("the NUMA nodes of CPUs that several claim",), [0, 0, 1, 1]),
          "1.20": ((), [0, 0, 1, 1])}),
    "possible nodes counted up to 1.16.1 (pull request 83196)":
        (machine(SMT) | {f"{NODE}/possible": "0-1\n"}, lambda info: bool(info.refusal),
         {"1.16.1": True, "1.16.2": False, "1.17": False}),
    "the Topology Manager knows the nodes of its release":
        (machine(SMT, {0: [0, 1, 2, 3], 1: [], 3: []}) | {f"{NODE}/online": "0,3\n"},
         attrgetter("numa_node_ids"),
         {"1.15": (), "1.18": (0, 3), "1.19.8": (0, 3), "1.36": (0, 1, 3)}),
    "nodes come in the order of their names":
        (machine({cpu: (cpu, 0) for cpu in range(3)}, {2: [1], 10: [2], 0: [0]}), nodes,
         {NEWEST: [(0, 1), (10, 1), (2, 1)]}),
    "without NUMA nodes packages take their place":
        (machine({0: (0, 7), 1: (0, 3), 2: (1, 7)}, {}),
         lambda info: (nodes(info), info.by_chance),
         dict.fromkeys(BY_SYSFS, ([(3, 1), (7, 2)], ("the order of the nodes",)))),
    "distances are read since 1.26":
        (machine(SMT) | {DISTANCE: "10 21\n"}, lambda info: info.nodes[0].distances,
         {"1.26": (10, 21)}),
    "earlier, whatever the file says":
        (machine(SMT) | {DISTANCE: "10 x\n"}, lambda info: info.nodes[0].distances, {"1.25": ()}),
    "distances may be missing":
        (without(machine(SMT), DISTANCE), lambda info: info.nodes[0].distances, {"1.26": ()}),
    **{f"distances {text!r} are no numbers":
        (machine(SMT) | {DISTANCE: text}, attrgetter("fault", "num_cores"),
         dict.fromkeys(["1.26", "1.37"], (f"cannot convert {value} to int", 0)))
       for text, value in (("10  21\n", ""), ("", ""), ("10 -1", "-1"))},
    "memory and huge pages may be missing":
        (without(machine(SMT), f"{NODE}/node0/meminfo"),
         lambda info: (info.num_cores, info.nodes[0].memory), dict.fromkeys(BY_SYSFS, (4, 0))),
    # Patch releases of 1.19 and 1.20
    "sockets were counted as nodes (pull request 99464; issue 99457)":
        (machine(TWO_PACKAGES),
         lambda info: (info.cpu_topology().num_sockets, info.num_sockets),
         dict.fromkeys(["1.19.8", "1.20.0", "1.20.4"], (1, 2))
         | dict.fromkeys(["1.19.9", "1.20.5", "1.21"], (2, 2))),
    # A merged core lies in the package of its last CPU.
    "two packages in a node were merged (issue 98870, google/cadvisor 2798)":
        (machine(TWO_PACKAGES),
         lambda info: (cores(info), info.cpu_topology().cpus_per_core,
                       [core.socket_id for core in info.nodes[0].cores]),
         dict.fromkeys(["1.19.8", "1.20.4"], ([(0, 1), (2, 3)], 2, [1, 1]))
         | dict.fromkeys(["1.19.9", "1.20.5", "1.20", "1.37"],
                         ([(0,), (1,), (2,), (3,)], 1, [0, 1, 0, 1]))),
    "a CPU without a package was kept":
        (without(machine({**SMT, 3: (9, 0)}), f"{CPU}/cpu3/{PACKAGE}"),
         lambda info: (info.num_cores, {core.socket_id for core in info.nodes[0].cores}),
         {"1.19.8": (4, {0}), "1.20.4": (4, {0}), "1.20.5": (3, {0}), "1.37": (3, {0})}),
    # What counts as online
    "cpuinfo says nothing of offline CPUs that it lists":
        (machine(SMT) | {f"{CPU}/cpu3/online": "0\n", f"{CPU}/online": "0-2\n"}, cpus,
         {"1.18": ALL, "1.20": ([0, 1, 2], 3)}),
    **{f"up to 1.20 the online file must say 1, not {text!r}":
        (machine(SMT) | {f"{CPU}/cpu0/online": text}, cpus, {"1.20": ([1, 2, 3], 3), "1.21": ALL})
       for text in ("0\n", "", "11\n", "1\0", "yes")},
    "from 1.21 to 1.28 no list said who is offline":
        (HALF, cpus, {"1.21": ALL, "1.28": ALL, "1.29": ([0, 1], 2), "1.37": ([0, 1], 2)}),
    "a kernel takes the ids of an offline CPU away, which then leaves it out":
        (without(HALF, *(f"{CPU}/cpu{cpu}/topology/core_id" for cpu in (2, 3))), cpus,
         dict.fromkeys(["1.21", "1.28", "1.29", "1.37"], ([0, 1], 2))),
    "a list beside the CPUs of a node counted where there was one":
        (machine(SMT) | {f"{NODE}/node0/online": "2\n"}, cpus,
         {"1.20": ALL, "1.21": ([2], 1), "1.28": ([2], 1), "1.29": ALL}),
    "ids in the list are 16 bits wide":
        (machine({0: (0, 0), 65537: (1, 0)}) | {f"{CPU}/online": "0-1\n"}, cpus,
         {"1.36": ([0, 65537], 2)}),
    # Even CPU 0 needed its online file: the first ``cpu`` of the path is the folder's.
    "without NUMA nodes every folder is counted, without an online file, too":
        (without(machine(SMT, {}), f"{CPU}/cpu0/online"), cpus, {"1.20": ([1, 2, 3], 4)}),
    "without NUMA nodes every folder is counted, offline or not":
        (machine(SMT, {}) | {f"{CPU}/online": "0,2\n"}, cpus,
         dict.fromkeys(["1.21", "1.28", "1.29", "1.37"], ([0, 2], 4))),
    "without NUMA nodes and packages CPUs are counted and not placed":
        (without(machine(SMT, {}), *(f"{CPU}/cpu{cpu}/{PACKAGE}" for cpu in SMT)),
         lambda info: (info.num_cores, info.nodes, info.fault,
                       *attrgetter("num_cpus", "num_cores", "cpus_per_core")(info.cpu_topology())),
         dict.fromkeys(BY_SYSFS, (4, (), "", 4, 0, 0))),
    "a machine without CPUs is a fault":
        ({"proc/cpuinfo": ""}, attrgetter("fault"),
         dict.fromkeys(["1.19", "1.35"], f"Any CPU is not available, cpusPath: /{CPU}")
         | {"1.36": f"no CPU is available, cpusPath: /{CPU}"}),
    # The reader of sysfs
    **{f"a link that leads to {target} is no CPU":
        (machine({0: (0, 0)}) | {f"{NODE}/node0/cpu0": target},
         lambda info: (info.num_cores, refusal(info)), {NEWEST: (0, NO_CPUS)})
       for target in (".", "../../../../../../../cpu/cpu0", "nowhere")},
    "a loop of links ends discovery":
        (machine({0: (0, 0)}) | {f"{NODE}/node0/cpu0": "cpu0"},
         lambda info: (info.num_cores, info.nodes, "symbolic links" in info.fault),
         {NEWEST: (0, (), True)}),
    "a huge page size without a dash makes the kubelet panic":
        (machine(SMT) | {f"{NODE}/node0/hugepages/odd/x": ""},
         lambda info: (info.refusal, refusal(info)),
         dict.fromkeys(["1.17", *BY_SYSFS], (PANIC, PANIC))),
    # How many sockets are counted
    "lines of cpuinfo are counted first":
        (machine(SMT, cpuinfo="physical id\t: 0\nphysical id : 0\nphysical id\t: 9\n"),
         attrgetter("num_sockets"), dict.fromkeys(BY_SYSFS, 3)),
    "an offline CPU counted as package 0":
        (without(machine({0: (0, 1), 1: (0, 2), 2: (0, 1)}, cpuinfo=""), f"{CPU}/cpu2/{PACKAGE}")
         | {f"{CPU}/online": "0-1\n", f"{CPU}/cpu2/online": "0\n"},
         attrgetter("num_sockets"), {"1.20": 2, "1.21": 3, "1.28": 3, "1.29": 2, "1.37": 2}),
    "a package missing made it 0 sockets":
        (without(machine(TWO_PACKAGES, cpuinfo=""), f"{CPU}/cpu3/{PACKAGE}"),
         attrgetter("num_sockets"), {"1.20": 0, "1.21": 2}),
    "packages were counted by their untrimmed text":
        (machine(SMT, cpuinfo="") | {f"{CPU}/cpu3/{PACKAGE}": "0"},
         attrgetter("num_sockets"), {"1.20": 2, "1.21": 1}),
    "without online files 0 sockets were counted (google/cadvisor 2743: Raspberry Pi)":
        (without(machine(SMT, cpuinfo=""), *(f"{CPU}/cpu{cpu}/online" for cpu in SMT)),
         lambda info: (info.num_sockets,
                       *attrgetter("num_cpus", "cpus_per_socket")(info.cpu_topology())),
         {"1.20": (0, 1, 0)}),
    # Ids
    "siblings, dies and clusters are not read, and negative ids are ids":
        (machine({0: (-1, -1), 1: (1, -1), 2: (-1, -1), 3: (1, -1)})
         | {f"{CPU}/cpu0/topology/{name}": "nonsense"
            for name in ("thread_siblings_list", "core_cpus_list", "die_id", "cluster_id")},
         lambda info: {(one.core_id, one.socket_id): one.thread_ids for one in info.nodes[0].cores},
         {release: {(-1, -1): (0, 2), (1, -1): (1, 3)} for release in BY_SYSFS}),
    "sparse ids are ids":
        (machine({0: (0, 4), 8: (0, 4), 64: (9, 12)}, {2: [0, 8], 40: [64]}),
         lambda info: (details(info),
                       *attrgetter("num_sockets", "num_numa_nodes")(info.cpu_topology())),
         {NEWEST: ({0: (2, 4, 0, 4), 8: (2, 4, 0, 4), 64: (40, 12, 64, 12)}, 2, 2)}),
    "averages are wrong for uneven cores: 7 CPUs in 4 cores":
        (machine({cpu: (cpu % 4, 0) for cpu in range(7)}),
         lambda info: info.cpu_topology().cpus_per_core, {NEWEST: 1}),
    # Caches
    "an L3 of one core is its own up to 1.22, an uncore cache since 1.23, and used since 1.32":
        (with_caches(machine(SMT)),
         lambda info: (*map(len, caches(info)), set(uncores(info))),
         dict.fromkeys(["1.18", "1.22"], (1, 0, {0}))
         | dict.fromkeys(["1.23", "1.31"], (0, 1, {0})) | {"1.32": (0, 1, {3})}),
    "without ids caches are lost since 1.23":
        (with_caches(machine(SMT), id=None), lambda info: sum(map(len, caches(info))),
         {"1.22": 1, "1.23": 0, "1.37": 0}),
    # One core of two threads and two of one: no product of the two is 4.
    "a hybrid processor makes its one L3 an uncore cache of every core":
        (with_caches(machine({0: (0, 0), 1: (0, 0), 2: (1, 0), 3: (2, 0)}),
                     shared_cpu_map="f\n", id="0\n"),
         lambda info: [len(core.uncore_caches) for core in info.nodes[0].cores],
         {NEWEST: [1, 1, 1]}),
    "an L3 of two NUMA nodes, as with sub-NUMA clusters, is one uncore cache":
        (with_caches(machine(SMT, {0: [0, 2], 1: [1, 3]}), shared_cpu_map="f\n", id="6\n"),
         uncores, {NEWEST: [6, 6, 6, 6]}),
    "cache ids are not read on s390x":
        (with_caches(drawers(), id=None, shared_cpu_map="3\n"),
         lambda info: [[one.id for one in core.uncore_caches] for core in info.nodes[0].cores],
         {NEWEST: [[0]]}),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_what_a_release_finds_of_a_machine(rule: str) -> None:
    files, look, by_release = RULES[rule]
    for release, found in by_release.items():
        assert look(discover(files, release=release)) == found, release


# -- /proc/cpuinfo, up to 1.18 ---------------------------------------------------------------------


@pytest.mark.parametrize("release", BY_CPUINFO)
def test_without_core_ids_every_thread_is_a_core(release: str) -> None:
    """So on ppc, riscv and 32-bit arm."""
    files = machine(SMT, cpuinfo="processor\t: 0\n\nprocessor\t: 1\n")
    info = discover(files, release=release, architecture="ppc64le")
    assert cores(info) == [(0,), (1,)]
    assert [node.node_id for node in info.nodes] == [0]


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ("processor\t: 1\ncore id\t\t: 5\n", (0, 1)),
        ("core id\t\t: 1\n\nprocessor\t: 1\n\n", (0, 1)),  # without a core id it is its number
        # Lines of another form are passed over.
        ("processor\t: 1\r\n", (0,)),
        ("Processor\t: 1\n", (0,)),
        ("processor\t: one\n", (0,)),
        (" processor: 1\n", (0,)),
    ],
)
def test_equal_core_ids_are_one_core(second: str, found: tuple[int, ...]) -> None:
    cpuinfo = f"processor\t: 0\ncore id\t\t: 5\n{second}"
    assert cores(discover(machine({}, cpuinfo=cpuinfo), release="1.18")) == [found]


@pytest.mark.parametrize("cpuinfo", ["", "vendor_id : IBM/S390\nprocessor 0: version = 00\n"])
@pytest.mark.parametrize("release", BY_CPUINFO)
def test_a_text_without_processors_has_no_cores(release: str, cpuinfo: str) -> None:
    """An amd64 build before the cpuinfo of s390 says the same."""
    info = discover(machine(SMT, cpuinfo=cpuinfo), release=release, architecture="amd64")
    assert (info.num_cores, info.fault) == (0, "could not detect any cores")
    assert refusal(info) == NO_CPUS


@pytest.mark.parametrize(
    ("field", "kind"), [("processor", "cpu"), ("core id", "core"), ("physical id", "node")]
)
def test_a_number_too_large_leaves_minus_one_cpus(field: str, kind: str) -> None:
    """``GetTopology`` returns -1 beside its error, and ``Discover`` refuses only 0."""
    cpuinfo = f"processor\t: 0\n{field}\t: 3000000000\n"
    info = discover(machine({}, cpuinfo=cpuinfo), release="1.18")
    assert (info.num_cores, info.nodes) == (-1, ())
    assert info.fault == (
        f'could not parse {kind} info from "{field}\\t: 3000000000": '
        'strconv.ParseInt: parsing "3000000000": value out of range'
    )
    topology = info.cpu_topology()
    assert (topology.num_cpus, topology.num_sockets, dict(topology.details)) == (-1, 0, {})


@pytest.mark.parametrize(("release", "nodes"), [("1.13", [0]), ("1.14", [0, 1]), ("1.18", [0, 1])])
def test_aarch64_has_its_ids_from_sysfs_since_1_14(release: str, nodes: list[int]) -> None:
    files = machine(
        {0: (7, 0), 1: (7, 0), 2: (-1, 0), 3: (0, 0)},
        cpuinfo="".join(f"processor\t: {cpu}\n\n" for cpu in range(4)) + "CPU architecture: 8\n",
    )
    files |= {f"{CPU}/cpu{cpu}/node1": "../../node/node1" for cpu in (2, 3)}
    info = discover(files, release=release)
    assert [node.node_id for node in info.nodes] == nodes
    if nodes == [0, 1]:
        # A negative core id gives way to the CPU's number.
        found = [[(core.core_id, core.thread_ids) for core in node.cores] for node in info.nodes]
        assert found == [[(7, (0, 1))], [(2, (2,)), (0, (3,))]]
    assert discover(files, release=release, architecture="x86_64").nodes[0].node_id == 0


# -- NUMA nodes by the kubelet's own reading, 1.16 to 1.19.8 ---------------------------------------


@pytest.mark.parametrize("release", ["1.16", "1.18", "1.19.0", "1.19.8"])
@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({f"{NODE}/online": "0\n\0"}, 'strconv.Atoi: parsing "0\\n\\x00": invalid syntax'),
        ({f"{NODE}/online": "0,2\n"}, f"open /{NODE}/node2/cpulist: no such file or directory"),
        ({f"{NODE}/online": "x"}, 'strconv.Atoi: parsing "x": invalid syntax'),
        ({f"{NODE}/node0/cpulist": "0-x"}, 'strconv.Atoi: parsing "x": invalid syntax'),
    ],
)
def test_numa_nodes_that_make_no_sense_stop_the_kubelet(
    release: str, changed: Files, text: str
) -> None:
    info = discover(machine(SMT) | changed, release=release)
    assert info.refusal == refusal(info) == text
    for other in ("1.15", "1.19.9", "1.20"):
        assert not discover(machine(SMT) | changed, release=other).refusal


@pytest.mark.parametrize("listing", [None, "", "\n", "1-0\n", "0-1-2\n"])
def test_without_a_list_of_numa_nodes_all_cpus_lie_in_node_0(listing: str | None) -> None:
    """Ranges that run backwards or have two dashes counted for nothing before 1.22."""
    files = without(machine(SMT, {5: [0, 1, 2, 3]}), f"{NODE}/online")
    files |= {} if listing is None else {f"{NODE}/online": listing}
    info = discover(files, release="1.18")
    assert {place.numa for place in details(info).values()} == {0}
    assert info.numa_node_ids == ()


# -- what counts as online -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("online", "cpus"),
    [("0,2-3\n", [0, 2, 3]), ("0-1,x,3", [0, 1]), ("0-1-2,3", []), ("3-0", []), ("+0", []),
     ("65536,1", []), ("", []), ("\n", []), (None, [0, 1, 2, 3])],
)  # fmt: skip
def test_the_list_counts_up_to_its_first_fault(online: str | None, cpus: list[int]) -> None:
    """And every CPU does without a list."""
    files = without(machine(SMT), f"{CPU}/online")
    files |= {} if online is None else {f"{CPU}/online": online}
    for release in ("1.29", "1.36"):
        info = discover(files, release=release)
        assert sorted(cpu for core in cores(info) for cpu in core) == cpus
        assert info.num_cores == len(cpus)


# -- the reader of sysfs ---------------------------------------------------------------------------


def test_a_tree_without_links_is_the_same_machine() -> None:
    linked = machine(SMT)
    spelled = {path: text for path, text in linked.items() if "node0/cpu" not in path}
    for path, text in linked.items():
        if path.startswith(f"{CPU}/cpu"):
            spelled[path.replace(f"{CPU}/", f"{NODE}/node0/")] = text
    assert discover(spelled) == discover(linked)


@pytest.mark.parametrize("release", BY_SYSFS)
def test_lists_of_cpus_and_of_nodes_are_not_read(release: str) -> None:
    """A node without CPUs is one to cAdvisor, and counts for nothing in the CPU topology."""
    files = machine(SMT, {0: [0, 1, 2, 3], 1: []})
    files |= {f"{NODE}/{name}": "7\n" for name in ("has_cpu", "possible")}
    if release != "1.19.8":
        files |= {f"{NODE}/online": "7\n", f"{NODE}/node0/cpulist": "7\n"}
    info = discover(files, release=release)
    assert (info.num_cores, [node.node_id for node in info.nodes]) == (4, [0, 1])
    assert info.cpu_topology().num_numa_nodes == 1


def test_an_absurd_cpu_number_costs_no_memory() -> None:
    files = without(machine({0: (0, 0)}), f"{CPU}/online")
    with pytest.raises(NotModelled):
        discover(files | {f"{NODE}/node0/cpu{10**12}": "../../cpu/cpu0"})


@pytest.mark.parametrize("release", BY_SYSFS)
@pytest.mark.parametrize(
    ("path", "text", "fault"),
    [
        (f"{CPU}/cpu1/topology/core_id", "x\n", 'strconv.Atoi: parsing "x": invalid syntax'),
        (f"{CPU}/cpu1/topology/core_id", "0\n\0",
         'strconv.Atoi: parsing "0\\n\\x00": invalid syntax'),
        (f"{CPU}/cpu1/topology/physical_package_id", "",
         'strconv.Atoi: parsing "": invalid syntax'),
        (f"{NODE}/node0/meminfo", "MemTotal: kB \n",
         'failed to match regexp in output: "MemTotal: kB"'),
        (f"{NODE}/node0/hugepages/hugepages-2MB/nr_hugepages", "0",
         'strconv.ParseUint: parsing "2MB": invalid syntax'),
        (f"{NODE}/node0/hugepages/hugepages-2048kB/free_hugepages", "0",
         f"open /{NODE}/node0/{PAGES}: no such file or directory"),
        (f"{NODE}/node0/{PAGES}", " x ",
         'could not parse file nr_hugepage for hugepages-2048kB, contents "x"'),
        (f"{NODE}/nodeX1/cpu0", "../../cpu/cpu0", 'strconv.Atoi: parsing "": invalid syntax'),
        (f"{NODE}/node0/cpufreq0", "x", "unexpected format of CPU directory, cpuDirRegExp "
         f"/cpu(\\d+), cpuDir: /{NODE}/node0/cpufreq0"),
    ],
)  # fmt: skip
def test_a_faulty_file_empties_the_topology(release: str, path: str, text: str, fault: str) -> None:
    info = discover(machine(SMT) | {path: text}, release=release)
    assert (info.num_cores, info.nodes, info.fault) == (0, (), fault)
    assert refusal(info) == NO_CPUS


# -- caches ----------------------------------------------------------------------------------------


def test_cores_before_the_first_unreadable_cache_keep_theirs() -> None:
    files = machine({cpu: (cpu % 3, 0) for cpu in range(6)})
    for cpu in range(6):
        files = with_cache(files, cpu, id=f"{7 + cpu % 3}", size="36M" if cpu == 2 else "8K")
    assert uncores(discover(files)) == [7, 8, 0, 7, 8, 0]


@pytest.mark.parametrize(
    ("changed", "read"),
    [
        ({"size": "1M\n"}, False),
        ({"size": "+8K"}, False),
        ({"size": " 8K\n"}, True),
        ({"size": "\n8K\n"}, False),
        ({"size": "8 K"}, False),
        ({"id": "3x\n"}, True),
        ({"id": "x"}, False),
        ({"level": "+3\n"}, True),
        ({"level": ""}, False),
        ({"type": None}, False),
        ({"shared_cpu_map": "5,\n"}, False),
        ({"shared_cpu_map": " 0 , 5 \n"}, True),
        ({"shared_cpu_map": "11111111111111111\n"}, False),
        ({"shared_cpu_map": None}, False),
    ],
)
def test_numbers_of_a_cache_are_scanned_as_go_scans(
    changed: dict[str, str | None], read: bool
) -> None:
    core = discover(with_caches(machine(SMT), **changed)).nodes[0].cores[0]
    assert bool(core.uncore_caches) == read


# -- s390x -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["1.8", "1.18", "1.19", "1.28", "1.31"])
def test_s390x_had_cpus_and_no_topology_up_to_1_31(release: str) -> None:
    info = discover(drawers({}) | {f"{CPU}/online": "0-2\n"}, release=release)
    assert (info.num_cores, info.nodes) == (3, ())
    assert not info.cpu_topology().details
    assert discover(drawers({}), release=release, usable_cpus=2).num_cores == 2


def test_books_and_drawers_tell_cores_of_s390x_apart() -> None:
    """And a CPU without either is left out."""
    files = drawers({0: ("0", "0"), 1: ("0", "0"), 2: ("1", "0"), 3: ("1", "1")})
    assert cores(discover(files, release="1.32")) == [(0, 1), (2,), (3,)]
    assert cores(discover(files, release="1.32", architecture="amd64")) == [(0, 1, 2, 3)]
    for missing in ("book_id", "drawer_id"):
        files = without(drawers(), f"{CPU}/cpu2/topology/{missing}")
        assert cores(discover(files, release="1.37")) == [(0, 1, 3)]


# -- which architecture ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpuinfo", "architecture"),
    [
        ("processor\t: 0\nvendor_id\t: GenuineIntel\n", Architecture.X86_64),
        ("processor\t: 0\nvendor_id\t: AuthenticAMD\n", Architecture.X86_64),
        (S390, Architecture.S390X),
        ("processor\t: 0\ncpu\t\t: POWER9\nclock\t\t: 3800MHz\nrevision\t: 2.2 (pvr 004e 1202)\n",
         Architecture.PPC64LE),
        ("processor\t: 0\nhart\t\t: 0\nisa\t\t: rv64imafdc\nmmu\t\t: sv39\n", Architecture.RISCV64),
        ("processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\n", Architecture.AARCH64),
        ("Processor\t: AArch64 Processor rev 1\nprocessor\t: 0\nCPU architecture: AArch64\n",
         Architecture.AARCH64),
        ("processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 7\n", Architecture.ARM),
        ("", Architecture.X86_64),
    ],
)  # fmt: skip
def test_a_machine_says_what_it_is_in_cpuinfo(cpuinfo: str, architecture: Architecture) -> None:
    assert Architecture.of_cpuinfo(cpuinfo) is architecture


def test_an_architecture_goes_by_the_names_of_uname_and_of_go() -> None:
    assert Architecture.named("arm64") is Architecture.named("aarch64") is Architecture.AARCH64
    with pytest.raises(ValueError, match="vax"):
        discover(machine(SMT), architecture="vax")


@pytest.mark.parametrize("release", ["1.7", f"1.{ANNOUNCED + 1}"])
def test_other_releases_are_not_modelled(release: str) -> None:
    with pytest.raises(NotModelled):
        discover(machine(SMT), release=release)


# -- the table of behaviours -----------------------------------------------------------------------


def outcome(release: str, files: Files) -> object:
    info = discover(files, release=release)
    facts = (info.num_cores, info.num_sockets, info.nodes, info.fault, info.own_nodes)
    try:
        topology = info.cpu_topology()
    except DiscoveryError as error:
        return facts, str(error)
    return facts, topology.num_sockets, dict(topology.details)


@pytest.mark.parametrize("known", [one for one in Behaviour if one.value.area is Area.DISCOVERY])
def test_every_behaviour_of_discovery_shows_on_some_machine(known: Behaviour) -> None:
    assert any(
        outcome(release, files) != outcome(f"{release}+{known.title}=off", files)
        for files, _, by_release in RULES.values()
        for release in by_release
        if has(release, known)
    )
