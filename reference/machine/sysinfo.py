"""The topology by sysfs, as kubelets from 1.19 on find it.

What belongs here: ``sysinfo.GetNodesInfo`` of cAdvisor v0.37 and later, with its differences by
release and architecture. What never does: what the CPU manager makes of it.

Every folder ``node/nodeN`` is a NUMA node; every ``cpuM`` in it that counts as online and has a
core id joins the core of this node with the same ids. Without NUMA folders the packages take their
place. Any fault of an important file empties the whole topology. What a folder *lists* as its CPUs
(``cpulist``), which nodes are online, and siblings, dies and clusters are never looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from reference.behaviours import Behaviour
from reference.cpuset import MAX_CPU
from reference.errors import NotModelled
from reference.golang.strconv import NotANumber, atoi, trim
from reference.machine.caches import CacheReader
from reference.machine.machineinfo import Core, NUMANode
from reference.machine.node_files import Fault, distances, huge_pages, memory
from reference.machine.online import SYSTEM_CPUS, OnlineCPUs
from reference.machine.sysfs import SysFS, Unreadable
from reference.releases import Release, has

_NODES: Final = "sys/devices/system/node"
_NODE_NAME: Final = re.compile(r"node.*[0-9]", re.ASCII | re.DOTALL)
_CPU_NAME: Final = re.compile(r"cpu.*[0-9]", re.ASCII | re.DOTALL)
_NODE_ID: Final = re.compile(r"node([0-9]*)", re.ASCII)
_CPU_ID: Final = re.compile(r"cpu([0-9]+)", re.ASCII)


class _CoreKey(NamedTuple):
    """What tells the cores of a node apart; a part that a release ignores is empty."""

    core: int
    package: int
    book: str
    drawer: str


class SysNodes:
    """Reads the nodes of one tree as ``release`` does. ``books``: whether cores have books and
    drawers, as on s390x."""

    def __init__(self, sysfs: SysFS, release: Release, *, books: bool) -> None:
        self._sysfs, self._release, self._books = sysfs, release, books
        self._online = OnlineCPUs(sysfs, release)
        self._caches = CacheReader(sysfs, release, with_ids=not books)
        self._by_package = has(release, Behaviour.CORES_BY_PACKAGE)
        self._distances = has(release, Behaviour.NUMA_DISTANCES)
        self._new_words = has(release, Behaviour.NO_CPU_IS_AVAILABLE)
        self._numbers: dict[str, int] = {}

    def read(self) -> tuple[tuple[NUMANode, ...], int, bool]:
        """The nodes in byte order of their names, the number of CPUs, and whether packages stand
        in for nodes. Raises :class:`Fault`."""
        try:
            names = self._sysfs.glob(_NODES, _NODE_NAME)
            if names:
                nodes = tuple(self._node(name) for name in names)
                cpus = sum(len(core.thread_ids) for node in nodes for core in node.cores)
                return nodes, cpus, False
            return *self._packages(), True
        except (NotANumber, Unreadable) as error:
            raise Fault(str(error)) from None

    def _node(self, name: str) -> NUMANode:
        folder = f"{_NODES}/{name}"
        found = _NODE_ID.match(name)
        number = atoi(found[1] if found else "")
        cores = self._cores(folder, self._sysfs.glob(folder, _CPU_NAME))
        cores, caches = self._caches.of_node(cores)
        size = memory(self._sysfs, folder, trimmed=True)
        pages = huge_pages(self._sysfs, f"{folder}/hugepages", trimmed=True)
        far = distances(self._sysfs, folder) if self._distances else ()
        return NUMANode(number, size, cores, caches, far, pages)

    def _packages(self) -> tuple[tuple[NUMANode, ...], int]:
        """Packages as nodes, ascending; the kubelet's own order of them is random. Every folder of
        a CPU counts, offline or not."""
        names = self._sysfs.glob(SYSTEM_CPUS, _CPU_NAME)
        if not names:
            none = "no CPU is" if self._new_words else "Any CPU is not"
            raise Fault(f"{none} available, cpusPath: /{SYSTEM_CPUS}")
        packages: dict[int, list[str]] = {}
        for name in names:
            text = self._sysfs.read(f"{SYSTEM_CPUS}/{name}/topology/physical_package_id")
            if text is not None:
                packages.setdefault(atoi(trim(text)), []).append(name)
        nodes = []
        for package in sorted(packages):
            cores, caches = self._caches.of_node(self._cores(SYSTEM_CPUS, packages[package]))
            nodes.append(NUMANode(package, 0, cores, caches))
        return tuple(nodes), len(names)

    def _cores(self, folder: str, names: list[str]) -> tuple[Core, ...]:
        if not self._by_package:
            return self._cores_by_id(folder, names)
        threads: dict[_CoreKey, list[int]] = {}
        for cpu, real, core_id in self._of_cores(folder, names):
            package = self._sysfs.read(f"{real}/topology/physical_package_id")
            if package is None:
                continue
            package_id = self._number(package)
            book = drawer = ""
            if self._books:
                shelf = self._sysfs.read(f"{real}/topology/book_id")
                chest = None if shelf is None else self._sysfs.read(f"{real}/topology/drawer_id")
                if shelf is None or chest is None:
                    continue
                book, drawer = trim(shelf), trim(chest)
            threads.setdefault(_CoreKey(core_id, package_id, book, drawer), []).append(cpu)
        return tuple(
            Core(key.core, key.package, tuple(cpus), book=key.book, drawer=key.drawer)
            for key, cpus in threads.items()
        )

    def _cores_by_id(self, folder: str, names: list[str]) -> tuple[Core, ...]:
        """Packages do not tell cores apart, and the last CPU with a package says which it is
        (cAdvisor v0.37.0 to v0.37.4 and v0.38.0 to v0.38.7)."""
        threads: dict[int, list[int]] = {}
        packages: dict[int, int] = {}
        for cpu, real, core_id in self._of_cores(folder, names):
            threads.setdefault(core_id, []).append(cpu)
            package = self._sysfs.read(f"{real}/topology/physical_package_id")
            if package is not None:
                packages[core_id] = self._number(package)
        return tuple(
            Core(core, packages.get(core, 0), tuple(cpus)) for core, cpus in threads.items()
        )

    def _of_cores(self, folder: str, names: list[str]) -> Iterator[tuple[int, str, int]]:
        """Each online CPU that says its core: its number, its folder and its core id. Read one by
        one, so that of several malformed files the error names the first."""
        for name in names:
            cpu = self._cpu(folder, name)
            if cpu is None:
                continue
            real = self._sysfs.folder(f"{folder}/{name}")
            core = self._sysfs.read(f"{real}/topology/core_id")
            if core is not None:
                yield cpu, real, self._number(core)

    def _number(self, text: str) -> int:
        """The number of an id's file. Many CPUs show the same few texts."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = atoi(trim(text))
        return number

    def _cpu(self, folder: str, name: str) -> int | None:
        """The number of the CPU with this folder; ``None`` if it counts as offline."""
        found = _CPU_ID.match(name)
        try:
            cpu = atoi(found[1] if found else "")
        except NotANumber:
            raise Fault(
                f"unexpected format of CPU directory, cpuDirRegExp /cpu(\\d+), "
                f"cpuDir: /{folder}/{name}"
            ) from None
        if cpu > MAX_CPU:
            raise NotModelled(f"CPU {cpu}: no supported machine has this many CPUs")
        return cpu if self._online.has(folder, name, cpu) else None
