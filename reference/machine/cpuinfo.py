"""The topology by ``/proc/cpuinfo``, as kubelets up to 1.18 find it.

What belongs here: ``machine.GetTopology`` of cAdvisor up to v0.36. What never does: sysfs beyond
what it reads there, which is caches, memory, huge pages and, on aarch64, the ids of a CPU.

A ``processor`` line opens a CPU, ``core id`` and ``physical id`` follow. A package is a node; a CPU
without a package lies in node 0, one without a core id is a core of its own. Nothing tells whether
a CPU is online: kernels list online ones only.
"""

from __future__ import annotations

import re
from typing import Final

from reference.behaviours import Behaviour
from reference.cpuset import MAX_CPU
from reference.errors import NotModelled
from reference.golang.strconv import NotANumber, go_quote, parse_int, trim
from reference.machine.caches import CacheReader
from reference.machine.machineinfo import Core, NUMANode
from reference.machine.node_files import Fault, huge_pages, memory
from reference.machine.online import SYSTEM_CPUS
from reference.machine.sysfs import SysFS
from reference.releases import Release, has

_NODES: Final = "sys/devices/system/node"
_GAP: Final = r"[\t\n\f\r ]*"
_CPU: Final = re.compile(rf"processor{_GAP}:{_GAP}([0-9]+)", re.ASCII)
_CORE: Final = re.compile(rf"core id{_GAP}:{_GAP}([0-9]+)", re.ASCII)
_PACKAGE: Final = re.compile(rf"physical id{_GAP}:{_GAP}([0-9]+)", re.ASCII)
_NODE_LINK: Final = re.compile(r"node([0-9]+)", re.ASCII)
_BITS: Final = 32


class BadLine(Exception):
    """A line or a node spoils the topology: it is empty, and counts -1 CPUs."""


class _Found:
    """Nodes, their cores and the cores' CPUs, each in the order they are met."""

    def __init__(self, sysfs: SysFS, release: Release) -> None:
        self._sysfs, self._release = sysfs, release
        self._memory: dict[int, int] = {}
        self._cores: dict[int, dict[int, list[int]]] = {}

    def add(self, node: int | None, core: int | None, cpu: int) -> None:
        """``None`` where the id is missing; CPU -1 stands for no CPU at all."""
        # Some virtual machines show no packages; they count as one.
        self._open(-1 if node is None else node, known=0 if node is None else node)
        own = cpu if core is None else core
        self._cores[node or 0].setdefault(own, []).append(cpu)

    def _open(self, named: int, *, known: int) -> None:
        if known in self._cores:
            return
        folder = f"{_NODES}/node{known}"
        try:
            self._memory[known] = memory(self._sysfs, folder, trimmed=False)
            if has(self._release, Behaviour.HUGE_PAGES_OF_NODES):
                huge_pages(self._sysfs, f"{folder}/hugepages", trimmed=False)
        except Fault as error:
            raise BadLine(f"failed to add node {named}: {error}") from None
        self._cores[known] = {}

    def nodes(self) -> tuple[NUMANode, ...]:
        caches = CacheReader(self._sysfs, self._release, with_ids=False)
        nodes = []
        for node, threads in self._cores.items():
            cores = tuple(Core(core, node, tuple(cpus)) for core, cpus in threads.items())
            cores, shared = caches.of_first_core(cores)
            nodes.append(NUMANode(node, self._memory[node], cores, shared))
        return tuple(nodes)


def nodes_of_cpuinfo(
    cpuinfo: str, sysfs: SysFS, release: Release, *, ids_from_sysfs: bool
) -> tuple[tuple[NUMANode, ...], int]:
    """The nodes, in the order they are met, and the number of CPUs. ``ids_from_sysfs``: on aarch64,
    where the text has none.

    Raises :class:`BadLine`, :class:`Fault` where no CPU is listed, and :class:`NotModelled` for a
    CPU number that no machine has.
    """
    found = _Found(sysfs, release)
    cpu, core, package, count = -1, None, None, 0
    for line in cpuinfo.split("\n"):
        # Few lines matter; this is quicker than three patterns for each.
        if not line.startswith(("processor", "core id", "physical id")):
            continue
        number = _value(_CPU, line, "cpu")
        if number is not None:
            if number > MAX_CPU:
                raise NotModelled(f"CPU {number}: no supported machine has this many CPUs")
            if count:
                found.add(package, core, cpu)
            cpu, core, package = number, None, None
            count += 1
            if ids_from_sysfs:
                core, package = _core_in_sysfs(sysfs, cpu), _node_in_sysfs(sysfs, cpu)
        elif not ids_from_sysfs:
            number = _value(_CORE, line, "core")
            if number is not None:
                core = number
                continue
            number = _value(_PACKAGE, line, "node")
            if number is not None:
                package = number
    found.add(package, core, cpu)
    if not count:
        raise Fault("could not detect any cores")
    return found.nodes(), count


def _value(pattern: re.Pattern[str], line: str, what: str) -> int | None:
    found = pattern.fullmatch(line)
    if not found:
        return None
    try:
        return parse_int(found[1], bits=_BITS)
    except NotANumber as error:
        raise BadLine(f"could not parse {what} info from {go_quote(line)}: {error}") from None


def _core_in_sysfs(sysfs: SysFS, cpu: int) -> int:
    """``getCoreIdFromCpuBus``: the CPU's own number where there is none, or a negative one."""
    text = sysfs.text(f"{SYSTEM_CPUS}/cpu{cpu}/topology/core_id")
    try:
        core = parse_int(trim(text or ""), bits=_BITS)
    except NotANumber:
        return cpu
    return cpu if core < 0 else core


def _node_in_sysfs(sysfs: SysFS, cpu: int) -> int:
    """``getNodeIdFromCpuBus``: by the last ``nodeN`` in the CPU's folder; 0 where there is none."""
    node = 0
    for name in sysfs.listing(f"{SYSTEM_CPUS}/cpu{cpu}"):
        found = _NODE_LINK.fullmatch(name)
        if found:
            try:
                node = parse_int(found[1], bits=_BITS)
            except NotANumber:
                continue
    return node
