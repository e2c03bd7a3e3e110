"""The NUMA nodes as the kubelet itself read them, from 1.16 to 1.19.8.

What belongs here: ``topology.GetNUMANodeInfo``, 1.16.0 to 1.19.8. What never does: cAdvisor's
nodes, which were packages at the time.
"""

from __future__ import annotations

from typing import Final

from reference.behaviours import Behaviour
from reference.cpuset import CPUSet, CPUSetParseError, CPUSetTooWide
from reference.errors import NotModelled
from reference.golang.strconv import trim
from reference.machine.sysfs import SysFS, Unreadable
from reference.releases import Release, has

_NODES: Final = "sys/devices/system/node"


class NoNUMANodes(Exception):
    """The kubelet cannot make out its NUMA nodes; ``str()`` is the text with which it ends."""


def own_numa_nodes(sysfs: SysFS, release: Release) -> tuple[tuple[int, CPUSet], ...] | None:
    """The CPUs of each node, ascending by node; ``None`` where no list of nodes can be read.

    Raises :class:`NoNUMANodes` where the list is bad, or that of a node is bad or missing.
    """
    listing = "online" if has(release, Behaviour.ONLINE_NUMA_NODES) else "possible"
    text = sysfs.text(f"{_NODES}/{listing}")
    if text is None:
        return None
    try:
        nodes = CPUSet.parse(trim(text), release=release)
        return tuple((node, _cpus_of(sysfs, node, release)) for node in nodes)
    except CPUSetTooWide as error:
        raise NotModelled(f"a list of CPUs or NUMA nodes: {error}") from None
    except (CPUSetParseError, Unreadable) as error:
        raise NoNUMANodes(str(error)) from None


def _cpus_of(sysfs: SysFS, node: int, release: Release) -> CPUSet:
    path = f"{_NODES}/node{node}/cpulist"
    text = sysfs.read(path)
    if text is None:
        raise NoNUMANodes(f"open /{path}: no such file or directory")
    return CPUSet.parse(trim(text), release=release)
