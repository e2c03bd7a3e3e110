"""Described machines: the tree that a real x86 kernel would show of a machine that a spec names.

The files are those that the kubelet, cAdvisor, hwloc and lscpu read, with the conventions of
Linux 5.15: ``drivers/base/topology.c`` (``topology/``), ``drivers/base/cacheinfo.c`` (``cache/``),
``drivers/base/node.c`` (``node/``), ``arch/x86/kernel/cpu/proc.c`` (``/proc/cpuinfo``). The
``cluster_*`` files of 5.16 and later are left out, which readers take as one core a cluster.
Sizes of caches and memory are those of a server of today; nothing depends on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from topologies.cpulist import bits, format_list, format_mask, ids
from topologies.hotplug import without_cpus
from topologies.machine import Machine
from topologies.spec import MAX_CPUS, Spec, parse
from topologies.tree import Link, Tree

_CPU: Final = "sys/devices/system/cpu"
_NODE: Final = "sys/devices/system/node"
_KB_PER_NODE: Final = 16384000
_KB_L3: Final = 32768
_L3_WAYS: Final = 16
_SOURCE: Final = "described by its spec"

#: index: (level, type, KiB, ways of associativity) of the caches a core has for itself.
_CORE_CACHES: Final = (
    (1, "Data", 48, 12),
    (1, "Instruction", 32, 8),
    (2, "Unified", 2048, 16),
)
_FLAGS: Final = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse "
    "sse2 ss{ht} syscall nx pdpe1gb rdtscp lm constant_tsc rep_good nopl xtopology nonstop_tsc "
    "cpuid tsc_known_freq pni pclmulqdq ssse3 fma cx16 sse4_1 sse4_2 x2apic movbe popcnt aes "
    "xsave avx f16c rdrand lahf_lm abm fsgsbase bmi1 avx2 smep bmi2 erms invpcid rdseed adx smap "
    "clflushopt clwb sha_ni xsaveopt xsavec xgetbv1 arat"
)
#: NUMA distances: same node, same socket, other socket; memory without CPUs is a little farther.
_LOCAL, _NEAR, _FAR, _BEYOND = 10, 12, 21, 4


@dataclass(frozen=True, slots=True)
class _Core:
    """One physical core: the ids of its places, and its CPUs as a set and in thread order."""

    package: int
    node: int
    core_id: int
    number: int  # among all cores of the machine
    cache: int  # the uncore cache, counted over the machine
    cpus: tuple[int, ...]
    mask: int


@lru_cache(maxsize=32)
def describe(spec: str) -> Machine:
    """The machine that ``spec`` describes (grammar: :mod:`topologies.spec`), under its canonical
    name. Raises :class:`topologies.errors.BadSpec`."""
    meant = parse(spec)
    tree = _whole(meant)
    if meant.offline:
        tree = without_cpus(tree, ids(meant.offline))
    name = str(meant)
    return Machine(name=name, tree=tree, shape=name, source=_SOURCE)


def _whole(spec: Spec) -> Tree:
    """The machine with all its CPUs online."""
    cores = [_core(spec, number) for number in range(spec.cores)]
    width = spec.present.bit_length()
    entries: dict[str, str] = {}
    _add_cpu_files(entries, spec, width)
    _add_cores(entries, cores, width)
    _add_nodes(entries, spec, cores, width)
    entries["proc/cpuinfo"] = "".join(_cpuinfo(spec, cores))
    return Tree(entries)


def _core(spec: Spec, number: int) -> _Core:
    """Where core ``number`` lies, in the order in which CPU ids are given out."""
    per_socket, per_unit = spec.cores // spec.sockets, spec.cores // spec.units
    if spec.interleaved:
        position, socket = divmod(number, spec.sockets)
    else:
        socket, position = divmod(number, per_socket)
    unit = (socket * per_socket + position) // per_unit
    caches = spec.caches
    within = position % per_unit // (per_unit // caches) if caches else 0
    first = number * spec.threads if spec.near else number
    stride = 1 if spec.near else spec.cores
    cpus = tuple((first + thread * stride) * spec.cpu_step for thread in range(spec.threads))
    return _Core(
        package=socket * spec.package_step,
        node=unit // (spec.units // spec.nodes) * spec.node_step,
        core_id=position,
        number=socket * per_socket + position,
        cache=unit * caches + within if caches else socket,
        cpus=cpus,
        mask=bits(cpus),
    )


def _add_cpu_files(entries: dict[str, str], spec: Spec, width: int) -> None:
    """``cpu/online`` and its like. Ids between sparse ones are possible, but not present."""
    present, possible = spec.present, (1 << width) - 1
    entries[f"{_CPU}/kernel_max"] = f"{MAX_CPUS - 1}\n"
    entries[f"{_CPU}/offline"] = format_list(possible & ~present) + "\n"
    entries[f"{_CPU}/online"] = format_list(present) + "\n"
    entries[f"{_CPU}/possible"] = format_list(possible) + "\n"
    entries[f"{_CPU}/present"] = format_list(present) + "\n"


def _add_cores(entries: dict[str, str], cores: list[_Core], width: int) -> None:
    """``cpuN/``: topology, caches, the ``online`` switch and the link to the NUMA node."""
    packages: dict[int, int] = {}
    caches: dict[int, int] = {}
    for core in cores:
        packages[core.package] = packages.get(core.package, 0) | core.mask
        caches[core.cache] = caches.get(core.cache, 0) | core.mask
    package_texts = {package: _both(mask, width) for package, mask in packages.items()}
    cache_texts = {cache: _both(mask, width) for cache, mask in caches.items()}
    for core in cores:
        own = _both(core.mask, width)
        files = _topology(core, own, package_texts[core.package])
        files += _caches(core, own, cache_texts[core.cache])
        for cpu in core.cpus:
            base = f"{_CPU}/cpu{cpu}/"
            for name, text in files:
                entries[base + name] = text
            if cpu:
                entries[base + "online"] = "1\n"
            entries[f"{base}node{core.node}"] = Link(f"../../node/node{core.node}")


def _both(mask: int, width: int) -> tuple[str, str]:
    """A set as the kernel shows it twice: mask and list."""
    return format_mask(mask, width) + "\n", format_list(mask) + "\n"


def _topology(core: _Core, own: tuple[str, str], package: tuple[str, str]) -> list[tuple[str, str]]:
    """One die a package. ``core_siblings`` and ``thread_siblings`` are the names of old."""
    files = [
        ("topology/core_id", f"{core.core_id}\n"),
        ("topology/die_id", "0\n"),
        ("topology/physical_package_id", f"{core.package}\n"),
    ]
    for name, (mask, cpus) in (
        ("thread_siblings", own),
        ("core_cpus", own),
        ("core_siblings", package),
        ("package_cpus", package),
        ("die_cpus", package),
    ):
        files += [(f"topology/{name}", mask), (f"topology/{name}_list", cpus)]
    return files


def _caches(core: _Core, own: tuple[str, str], shared: tuple[str, str]) -> list[tuple[str, str]]:
    """``index0`` to ``index2`` are the core's own, ``index3`` is the uncore cache. Ids are unique
    for each level and type over the machine."""
    files = []
    for index, (level, kind, size, ways) in enumerate(_CORE_CACHES):
        files += _cache(index, level, kind, size, ways, core.number, own)
    return files + _cache(3, 3, "Unified", _KB_L3, _L3_WAYS, core.cache, shared)


def _cache(
    index: int, level: int, kind: str, size: int, ways: int, number: int, shared: tuple[str, str]
) -> list[tuple[str, str]]:
    return [
        (f"cache/index{index}/{name}", f"{value}\n")
        for name, value in (
            ("coherency_line_size", 64),
            ("id", number),
            ("level", level),
            ("number_of_sets", size * 1024 // (64 * ways)),
            ("physical_line_partition", 1),
            ("shared_cpu_list", shared[1][:-1]),
            ("shared_cpu_map", shared[0][:-1]),
            ("size", f"{size}K"),
            ("type", kind),
            ("ways_of_associativity", ways),
        )
    ]


def _add_nodes(entries: dict[str, str], spec: Spec, cores: list[_Core], width: int) -> None:
    """``node/``: the nodes with CPUs, then those that only have memory."""
    step, count = spec.node_step, spec.nodes
    masks = {number * step: 0 for number in range(count + spec.memory_nodes)}
    for core in cores:
        masks[core.node] |= core.mask
    every, with_cpus = bits(masks), bits(node for node, mask in masks.items() if mask)
    for name in ("online", "possible", "has_memory", "has_normal_memory"):
        entries[f"{_NODE}/{name}"] = format_list(every) + "\n"
    entries[f"{_NODE}/has_cpu"] = format_list(with_cpus) + "\n"
    entries[f"{_NODE}/possible"] = f"0-{max(masks)}\n" if max(masks) else "0\n"
    for node, mask in masks.items():
        base = f"{_NODE}/node{node}"
        entries[f"{base}/cpumap"], entries[f"{base}/cpulist"] = _both(mask, width)
        distances = (_distance(spec, node // step, other) for other in range(len(masks)))
        entries[f"{base}/distance"] = " ".join(map(str, distances)) + "\n"
        entries[f"{base}/meminfo"] = _meminfo(node)
        for size in (2048, 1048576):
            for name in ("free_hugepages", "nr_hugepages", "surplus_hugepages"):
                entries[f"{base}/hugepages/hugepages-{size}kB/{name}"] = "0\n"
        for cpu in ids(mask):
            entries[f"{base}/cpu{cpu}"] = Link(f"../../cpu/cpu{cpu}")


def _distance(spec: Spec, one: int, other: int) -> int:
    if one == other:
        return _LOCAL
    beyond = _BEYOND * ((one >= spec.nodes) + (other >= spec.nodes))
    return (_NEAR if _home(spec, one) == _home(spec, other) else _FAR) + beyond


def _home(spec: Spec, node: int) -> int:
    """The socket of a NUMA node, or the node itself where it holds several sockets. Nodes without
    CPUs hang off the sockets in turn."""
    homes = min(spec.sockets, spec.nodes)
    return node // (spec.nodes // homes) if node < spec.nodes else (node - spec.nodes) % homes


def _meminfo(node: int) -> str:
    free = _KB_PER_NODE // 8 * 7
    return "".join(
        f"Node {node} {name + ':':<16}{value:>8} kB\n"
        for name, value in (
            ("MemTotal", _KB_PER_NODE),
            ("MemFree", free),
            ("MemUsed", _KB_PER_NODE - free),
        )
    ) + "".join(
        f"Node {node} {'HugePages_' + name + ':':<17}{0:>5}\n" for name in ("Total", "Free", "Surp")
    )


def _cpuinfo(spec: Spec, cores: list[_Core]) -> Iterator[str]:
    """A block for each CPU, by ascending id; APIC ids give each package and core a power of 2."""
    per_socket = spec.cores // spec.sockets
    thread_bits = (spec.threads - 1).bit_length()
    package_bits = (per_socket - 1).bit_length() + thread_bits
    siblings = per_socket * spec.threads
    flags = _FLAGS.format(ht=" ht" if siblings > 1 else "")
    places = {cpu: (core, thread) for core in cores for thread, cpu in enumerate(core.cpus)}
    for cpu in sorted(places):
        core, thread = places[cpu]
        apicid = core.package << package_bits | core.core_id << thread_bits | thread
        yield (
            f"processor\t: {cpu}\n"
            "vendor_id\t: GenuineIntel\n"
            "cpu family\t: 6\n"
            "model\t\t: 143\n"
            "model name\t: Described x86-64 processor\n"
            "stepping\t: 8\n"
            "microcode\t: 0x1\n"
            "cpu MHz\t\t: 2000.000\n"
            f"cache size\t: {_KB_L3} KB\n"
            f"physical id\t: {core.package}\n"
            f"siblings\t: {siblings}\n"
            f"core id\t\t: {core.core_id}\n"
            f"cpu cores\t: {per_socket}\n"
            f"apicid\t\t: {apicid}\n"
            f"initial apicid\t: {apicid}\n"
            "fpu\t\t: yes\n"
            "fpu_exception\t: yes\n"
            "cpuid level\t: 32\n"
            "wp\t\t: yes\n"
            f"flags\t\t: {flags}\n"
            "bugs\t\t:\n"
            "bogomips\t: 4000.00\n"
            "clflush size\t: 64\n"
            "cache_alignment\t: 64\n"
            "address sizes\t: 46 bits physical, 57 bits virtual\n"
            "power management:\n"
            "\n"
        )
