"""From a machine's tree to what cAdvisor reports of the machine.

How it works: up to 1.18 ``/proc/cpuinfo`` is parsed (``cpuinfo``), from 1.19 on sysfs is read
(``sysinfo``). Beside that, sockets are counted (``counting``) and, from 1.16 to 1.19.8, the kubelet
reads NUMA nodes itself (``numa_node_info``).
Source: cAdvisor v0.28.3, v0.31.0 to v0.56.2 and ``lib`` v0.60.5, ``machine.Info``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from reference.behaviours import Behaviour
from reference.cpuset import MAX_CPU, CPUSet
from reference.errors import NotModelled
from reference.machine.architecture import Architecture
from reference.machine.counting import count_physical_cores, count_sockets
from reference.machine.cpuinfo import BadLine, nodes_of_cpuinfo
from reference.machine.machineinfo import MachineInfo, NUMANode
from reference.machine.node_files import Fault, Panic
from reference.machine.numa_node_info import NoNUMANodes, own_numa_nodes
from reference.machine.online import SYSTEM_CPUS, listed
from reference.machine.sysfs import SysFS
from reference.machine.sysinfo import SysNodes
from reference.releases import NEWEST, AnyRelease, Release, behaviours, has

_CPU_FOLDER: Final = re.compile(r"cpu[0-9]+", re.ASCII)
_CPUINFO: Final = "proc/cpuinfo"


def discover(
    tree: Mapping[str, str],
    *,
    release: AnyRelease = NEWEST,
    architecture: Architecture | str | None = None,
    usable_cpus: int | None = None,
) -> MachineInfo:
    """The machine that ``tree`` shows. ``tree`` maps relative paths to text; a symbolic link is
    an entry whose text is its target. A faulty tree gives an empty topology and a ``fault``.

    ``architecture``: what the kubelet was built for. By default it is the machine's own,
    by ``/proc/cpuinfo``. A build for another one reads the same tree by its own rules, as where an
    amd64 kubelet is shown a captured tree.

    ``usable_cpus``: on s390x up to 1.31 the kubelet counts the CPUs that its process may use, which
    no tree shows; by default those online.

    Raises :class:`NotModelled` for a release that is not modelled and for CPU numbers that no
    machine has, ``ValueError`` where a text names no release or architecture.
    """
    asked = Release.parse(release) if isinstance(release, str) else release
    behaviours(asked)
    sysfs = SysFS(tree)
    cpuinfo = sysfs.text(_CPUINFO) or ""
    if architecture is None:
        architecture = Architecture.of_cpuinfo(cpuinfo)
    elif isinstance(architecture, str):
        architecture = Architecture.named(architecture)
    found = _topology(sysfs, cpuinfo, asked, architecture, usable_cpus)
    own = _own_nodes(sysfs, asked)
    counted = has(asked, Behaviour.SYSFS_TOPOLOGY)
    return MachineInfo(
        found.cpus,
        count_physical_cores(cpuinfo, sysfs, asked) if counted else None,
        count_sockets(cpuinfo, sysfs, asked) if counted else None,
        found.nodes,
        found.fault,
        asked,
        own.nodes,
        found.panic or own.refusal,
        found.by_chance + own.by_chance,
    )


class _Topology(NamedTuple):
    """What cAdvisor made of the nodes, or how it failed."""

    nodes: tuple[NUMANode, ...] = ()
    cpus: int = 0
    fault: str = ""
    panic: str = ""
    by_chance: tuple[str, ...] = ()


class _OwnNodes(NamedTuple):
    """What the kubelet read of NUMA nodes itself, or why it ends."""

    nodes: tuple[tuple[int, CPUSet], ...] | None = None
    refusal: str = ""
    by_chance: tuple[str, ...] = ()


def _topology(
    sysfs: SysFS, cpuinfo: str, release: Release, built_for: Architecture, usable: int | None
) -> _Topology:
    s390x = built_for is Architecture.S390X
    if s390x and not has(release, Behaviour.S390X_TOPOLOGY):
        return _Topology(cpus=_usable(sysfs) if usable is None else usable)
    try:
        if has(release, Behaviour.SYSFS_TOPOLOGY):
            nodes, cpus, packages = SysNodes(sysfs, release, books=s390x).read()
            random_order = packages and len(nodes) > 1
            chance = ("the order of the nodes",) if random_order else ()
            return _Topology(nodes, cpus, by_chance=chance)
        ids = built_for is Architecture.AARCH64 and has(release, Behaviour.AARCH64_IDS_FROM_SYSFS)
        return _Topology(*nodes_of_cpuinfo(cpuinfo, sysfs, release, ids_from_sysfs=ids))
    except Fault as error:
        return _Topology(fault=str(error))
    except BadLine as error:
        return _Topology(cpus=-1, fault=str(error))
    except Panic as error:
        return _Topology(panic=str(error))


def _own_nodes(sysfs: SysFS, release: Release) -> _OwnNodes:
    from_cadvisor = has(release, Behaviour.NUMA_NODES_FROM_CADVISOR)
    if from_cadvisor or not has(release, Behaviour.NUMA_NODES):
        return _OwnNodes()
    try:
        nodes = own_numa_nodes(sysfs, release)
    except NoNUMANodes as error:
        return _OwnNodes(refusal=str(error))
    chance = ("the NUMA nodes of CPUs that several claim",) if _overlap(nodes or ()) else ()
    return _OwnNodes(nodes, by_chance=chance)


def _overlap(nodes: tuple[tuple[int, CPUSet], ...]) -> bool:
    seen = CPUSet()
    for _, cpus in nodes:
        if not seen.isdisjoint(cpus):
            return True
        seen |= cpus
    return False


def _usable(sysfs: SysFS) -> int:
    """How many CPUs are online (``runtime.NumCPU`` of a process bound to none)."""
    mask = listed(sysfs, f"{SYSTEM_CPUS}/online")
    numbers = [int(name[3:]) for name in sysfs.glob(SYSTEM_CPUS, _CPU_FOLDER) if len(name) < 12]
    if any(number > MAX_CPU for number in numbers):
        raise NotModelled(f"CPU {max(numbers)}: no supported machine has this many CPUs")
    return sum(mask is None or bool(mask >> number & 1) for number in numbers)
