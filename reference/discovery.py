"""From a machine's tree to its CPU topology, as the kubelet finds it.

What belongs here: what cAdvisor reads from sysfs and ``/proc/cpuinfo``, and what the kubelet's
CPU manager makes of it. What never does: opening anything; a tree arrives as a mapping.

How it works: every folder ``node/nodeN`` is a NUMA node; every ``cpuM`` in it that is online and
has a core id and a package id joins the core of this node with the same two ids. Without NUMA
folders the packages take their place. The caches of a core are those of its first CPU; a cache
beyond level 2 that does not span exactly its node is an uncore cache. Any fault of an important
file empties the whole topology, which the CPU manager then refuses.
Source: cAdvisor v0.48 and later (``utils/sysinfo``, ``utils/sysfs``, ``machine``), as an amd64
build has it, in kubelet 1.29 and later; ``topology.Discover``, 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from reference.cpuset import MAX_CPU
from reference.errors import DiscoveryError, NotModelled
from reference.releases import NEWEST, AnyRelease, Release
from reference.sysfs import LinkLoop, SysFS
from reference.topology import CPUTopology

__all__ = ["Cache", "Core", "MachineInfo", "NUMANode", "discover"]

_CPUS: Final = "sys/devices/system/cpu"
_NODES: Final = "sys/devices/system/node"
_OLDEST_MODELLED: Final = 32  # caches count from here on; before, other readers of sysfs apply

_NODE_NAME: Final = re.compile(r"node.*[0-9]", re.ASCII | re.DOTALL)
_CPU_NAME: Final = re.compile(r"cpu.*[0-9]", re.ASCII | re.DOTALL)
_NODE_ID: Final = re.compile(r"node([0-9]{1,18})", re.ASCII)
_CPU_ID: Final = re.compile(r"cpu([0-9]{1,18})", re.ASCII)
# Eighteen digits fit the kubelet's 64 bits; longer numbers are faults there and here.
_SIZE: Final = re.compile(r"\s*\+?([0-9]{1,18})K", re.ASCII)
_LEVEL: Final = re.compile(r"\s*([+-]?[0-9]{1,18})", re.ASCII)
_PAGES: Final = re.compile(r"\s*\+?([0-9]+)", re.ASCII)
_MEMORY: Final = re.compile(r"MemTotal:[\t\n\f\r ]*([0-9]{1,18}) kB", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_DECIMAL: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_MASK_WORD: Final = re.compile(r"[0-9a-fA-F]{1,16}", re.ASCII)
_SOCKET_LINE: Final = re.compile(r"physical id[\t\n\f\r ]*:[\t\n\f\r ]*[0-9]+$", re.M | re.ASCII)
_CORE_LINE: Final = re.compile(r"core id[\t\n\f\r ]*:[\t\n\f\r ]*[0-9]+$", re.M | re.ASCII)


@dataclass(frozen=True, slots=True)
class Cache:
    """A CPU cache; ``size`` in bytes, ``type`` as the kernel names it (``Unified``)."""

    id: int
    size: int
    level: int
    type: str


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core of one NUMA node. ``core_id`` is the kernel's, unique in its package only;
    ``thread_ids`` are its CPUs in the order they were found."""

    core_id: int
    socket_id: int
    thread_ids: tuple[int, ...]
    caches: tuple[Cache, ...] = ()
    uncore_caches: tuple[Cache, ...] = ()


@dataclass(frozen=True, slots=True)
class NUMANode:
    """A NUMA node; ``memory`` in bytes, ``distances`` in the order of the kernel's nodes."""

    node_id: int
    memory: int
    cores: tuple[Core, ...]
    caches: tuple[Cache, ...] = ()
    distances: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """What cAdvisor tells the kubelet. ``num_cores`` is its name for the number of CPUs.
    ``fault`` says why the topology is empty, for a person; ``""`` if it is not."""

    num_cores: int
    num_physical_cores: int
    num_sockets: int
    nodes: tuple[NUMANode, ...]
    fault: str = ""

    def cpu_topology(self) -> CPUTopology:
        """What the CPU manager makes of it (``topology.Discover``).

        A core goes by the lowest of its CPUs; the id of its uncore cache is its socket's where it
        has none. A CPU that two NUMA nodes claim lies in the later one. Raises
        :class:`DiscoveryError`.
        """
        if not self.num_cores:
            raise DiscoveryError("could not detect number of cpus")
        cpus: dict[int, tuple[int, int, int, int]] = {}
        for node in self.nodes:
            for core in node.cores:
                if len(set(core.thread_ids)) != len(core.thread_ids):
                    raise DiscoveryError("cpus provided are not unique")
                uncore = core.uncore_caches[0].id if core.uncore_caches else core.socket_id
                for cpu in core.thread_ids:
                    cpus[cpu] = (node.node_id, core.socket_id, min(core.thread_ids), uncore)
        return CPUTopology.of(
            cpus,
            num_cpus=self.num_cores,
            num_cores=sum(len(node.cores) for node in self.nodes),
            num_sockets=self.num_sockets,
        )


class _Fault(Exception):
    """Discovery as a whole fails; the kubelet logs why and goes on with an empty topology."""


class _CacheFault(Exception):
    """The caches of a node end here; the kubelet keeps those found so far."""


def discover(tree: Mapping[str, str], *, release: AnyRelease = NEWEST) -> MachineInfo:
    """The machine that ``tree`` shows. ``tree`` maps relative paths to text; a symbolic link is
    an entry whose text is its target. A faulty tree gives an empty topology and a ``fault``.

    Raises :class:`NotModelled` for releases before 1.32 and after 1.37.
    """
    asked = Release.parse(release) if isinstance(release, str) else release
    if not _OLDEST_MODELLED <= asked.minor <= 37:
        raise NotModelled(f"discovery of release {asked}: the model knows 1.32 to 1.37")
    sysfs = SysFS(tree)
    online = _Online(sysfs)
    cpuinfo = sysfs.read("proc/cpuinfo") or ""
    fault = ""
    try:
        nodes, cpus = _nodes(sysfs, online)
    except _Fault as error:
        nodes, cpus, fault = (), 0, str(error)
    except LinkLoop as error:
        nodes, cpus, fault = (), 0, f"too many levels of symbolic links: {error}"
    return MachineInfo(
        cpus,
        _distinct_lines(cpuinfo, _CORE_LINE) or _distinct_pairs(sysfs, online, "core_id"),
        _distinct_lines(cpuinfo, _SOCKET_LINE)
        or _distinct_pairs(sysfs, online, "physical_package_id"),
        nodes,
        fault,
    )


class _Online:
    """``/sys/devices/system/cpu/online``, up to its first bad piece. Without the file every CPU
    is online. Ids are 16 bits wide."""

    __slots__ = ("mask", "present")

    def __init__(self, sysfs: SysFS) -> None:
        text = sysfs.read(f"{_CPUS}/online")
        self.present = text is not None
        self.mask = 0
        for piece in (text or "").strip().split(","):
            ends = piece.split("-")
            numbers = [_uint16(end) for end in ends]
            low, high = numbers[0], numbers[-1]
            if len(ends) > 2 or low is None or high is None or low > high:
                return
            self.mask |= (1 << high + 1) - (1 << low)

    def has(self, cpu: int) -> bool:
        return not self.present or bool(self.mask >> (cpu & 0xFFFF) & 1)


def _uint16(text: str) -> int | None:
    if not _DECIMAL.fullmatch(text):
        return None
    value = int(text)
    return value if value < 1 << 16 else None


def _nodes(sysfs: SysFS, online: _Online) -> tuple[tuple[NUMANode, ...], int]:
    names = sysfs.glob(_NODES, _NODE_NAME)
    if not names:
        return _packages_as_nodes(sysfs, online)
    nodes = tuple(_node(sysfs, online, name) for name in names)
    return nodes, sum(len(core.thread_ids) for node in nodes for core in node.cores)


def _node(sysfs: SysFS, online: _Online, name: str) -> NUMANode:
    folder = f"{_NODES}/{name}"
    found = _NODE_ID.match(name)
    if not found:
        raise _Fault(f"no number in the name of {folder}")
    cores = _cores(sysfs, online, folder, sysfs.glob(folder, _CPU_NAME))
    cores, caches = _with_caches(sysfs, cores)
    memory = _memory(sysfs, folder)
    _check_huge_pages(sysfs, f"{folder}/hugepages")
    return NUMANode(int(found[1]), memory, cores, caches, _distances(sysfs, folder))


def _packages_as_nodes(sysfs: SysFS, online: _Online) -> tuple[tuple[NUMANode, ...], int]:
    names = sysfs.glob(_CPUS, _CPU_NAME)
    if not names:
        raise _Fault("no CPU is available, cpusPath: /sys/devices/system/cpu")
    packages: dict[int, list[str]] = {}
    for name in names:
        text = sysfs.read(f"{_CPUS}/{name}/topology/physical_package_id")
        if text is not None:
            packages.setdefault(_atoi(text), []).append(name)
    nodes = []
    # The kubelet's own order of these is random; it shows in nothing but lists of nodes.
    for package in sorted(packages):
        cores = _cores(sysfs, online, _CPUS, packages[package])
        cores, caches = _with_caches(sysfs, cores)
        nodes.append(NUMANode(package, 0, cores, caches))
    return tuple(nodes), len(names)


def _cores(sysfs: SysFS, online: _Online, folder: str, names: list[str]) -> tuple[Core, ...]:
    threads: dict[tuple[int, int], list[int]] = {}
    for name in names:
        found = _CPU_ID.match(name)
        if not found:
            raise _Fault(f"unexpected format of CPU directory, cpuDir: {folder}/{name}")
        cpu = int(found[1])
        if cpu > MAX_CPU:
            raise NotModelled(f"CPU {cpu}: no machine has so many")
        if not online.has(cpu):
            continue
        real = sysfs.folder(f"{folder}/{name}")
        core = sysfs.read(f"{real}/topology/core_id")
        if core is None:
            continue
        core_id = _atoi(core)
        package = sysfs.read(f"{real}/topology/physical_package_id")
        if package is not None:
            threads.setdefault((core_id, _atoi(package)), []).append(cpu)
    return tuple(Core(core, package, tuple(cpus)) for (core, package), cpus in threads.items())


def _with_caches(
    sysfs: SysFS, cores: tuple[Core, ...]
) -> tuple[tuple[Core, ...], tuple[Cache, ...]]:
    """The cores with their caches, and the caches of the node. The first file that cannot be
    read ends it for the rest of the node."""
    done: list[Core] = []
    of_node: dict[Cache, None] = {}
    try:
        for core in cores:
            own: list[Cache] = []
            uncore: dict[Cache, None] = {}
            for cache, cpus in list(_caches(sysfs, core.thread_ids[0])):
                if cache.level <= 2:
                    if cpus == len(core.thread_ids):
                        own.append(cache)
                elif cpus == len(cores) * len(core.thread_ids):
                    of_node[cache] = None
                else:
                    uncore[cache] = None
            done.append(
                Core(core.core_id, core.socket_id, core.thread_ids, tuple(own), tuple(uncore))
            )
    except (_CacheFault, LinkLoop):
        pass
    return (*done, *cores[len(done) :]), tuple(of_node)


def _caches(sysfs: SysFS, cpu: int) -> Iterator[tuple[Cache, int]]:
    """The caches of a CPU, each with the number of CPUs that share it."""
    folder = sysfs.folder(f"{_CPUS}/cpu{cpu}/cache")
    names = sysfs.names(folder)
    if names is None:
        raise _CacheFault
    for name in names:
        if name.startswith("index"):
            yield _cache(sysfs, f"{folder}/{name}")


def _cache(sysfs: SysFS, folder: str) -> tuple[Cache, int]:
    texts = [sysfs.read(f"{folder}/{name}") for name in ("id", "size", "level", "type")]
    shared = sysfs.read(f"{folder}/shared_cpu_map")
    if shared is None or None in texts:
        raise _CacheFault
    number, size_text, level_text, kind = (text or "" for text in texts)
    size, level = _SIZE.match(size_text), _LEVEL.match(level_text)
    if not size or not level or not _INTEGER.fullmatch(number.strip()):
        raise _CacheFault
    cache = Cache(int(number.strip()), int(size[1]) * 1024, int(level[1]), kind.strip())
    return cache, _count_bits(shared)


def _count_bits(cpu_map: str) -> int:
    words = [word.strip() for word in cpu_map.split(",")]
    if not all(map(_MASK_WORD.fullmatch, words)):
        raise _CacheFault
    return sum(int(word, 16).bit_count() for word in words)


def _memory(sysfs: SysFS, folder: str) -> int:
    text = sysfs.read(f"{folder}/meminfo")
    if text is None:
        return 0
    found = _MEMORY.search(text)
    if not found:
        raise _Fault(f"no MemTotal in {folder}/meminfo")
    return int(found[1]) * 1024


def _check_huge_pages(sysfs: SysFS, folder: str) -> None:
    for name in sysfs.names(folder) or ():
        size = name.partition("-")[2].partition("-")[0].partition("kB")[0]
        pages = sysfs.read(f"{folder}/{name}/nr_hugepages")
        if not _DECIMAL.fullmatch(size) or not _PAGES.match(pages or ""):
            raise _Fault(f"cannot make out {folder}/{name}")


def _distances(sysfs: SysFS, folder: str) -> tuple[int, ...]:
    text = sysfs.read(f"{folder}/distance")
    if text is None:
        return ()
    distances = []
    for piece in text.strip().split(" "):
        if not _DECIMAL.fullmatch(piece):
            raise _Fault(f"cannot convert {piece} to int")
        distances.append(int(piece))
    return tuple(distances)


def _atoi(text: str) -> int:
    number = text.strip()
    if not _INTEGER.fullmatch(number):
        raise _Fault(f'strconv.Atoi: parsing "{number}": invalid syntax')
    return int(number)


def _distinct_lines(cpuinfo: str, line: re.Pattern[str]) -> int:
    # A pattern that began with "start of line" could not skip to its first literal letters.
    return len(
        {
            found[0]
            for found in line.finditer(cpuinfo)
            if found.start() == 0 or cpuinfo[found.start() - 1] == "\n"
        }
    )


def _distinct_pairs(sysfs: SysFS, online: _Online, name: str) -> int:
    """How many pairs of this id and the package id the online CPUs have; a missing file is 0."""
    pairs = set()
    for cpu in sysfs.glob(_CPUS, _CPU_NAME):
        found = _CPU_ID.match(cpu)
        if not found:
            return 0
        if online.has(int(found[1])):
            folder = f"{_CPUS}/{cpu}/topology"
            own = sysfs.read(f"{folder}/{name}") or "0"
            package = sysfs.read(f"{folder}/physical_package_id") or "0"
            pairs.add((own.strip(), package.strip()))
    return len(pairs)
