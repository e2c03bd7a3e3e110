"""The NUMA nodes as the kubelet itself read them, from 1.16 to 1.19.8.

What belongs here: ``topology.GetNUMANodeInfo``, 1.16.0 to 1.19.8. What never does: cAdvisor's
nodes, which were packages at the time.
"""

from __future__ import annotations

from typing import Final

from reference.behaviours import Behaviour
from reference.cpuset import MAX_CPU, CPUSet
from reference.errors import NotModelled
from reference.golang.strconv import NotANumber, atoi, trim
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
        return tuple((node, _cpus_of(sysfs, node)) for node in _parse(trim(text)))
    except (NotANumber, Unreadable) as error:
        raise NoNUMANodes(str(error)) from None


def _cpus_of(sysfs: SysFS, node: int) -> CPUSet:
    path = f"{_NODES}/node{node}/cpulist"
    text = sysfs.read(path)
    if text is None:
        raise NoNUMANodes(f"open /{path}: no such file or directory")
    return _parse(trim(text))


def _parse(text: str) -> CPUSet:
    """``cpuset.Parse`` before 1.22: a range that runs backwards, or has more than one dash, counts
    for nothing."""
    mask = 0
    for piece in text.split(",") if text else ():
        ends = piece.split("-")
        if len(ends) > 2:
            continue
        low, high = atoi(ends[0]), atoi(ends[-1])
        if low < 0 or (high > MAX_CPU and low <= high):
            raise NotModelled(f"a list of CPUs or NUMA nodes with {piece[:40]!r}: none has so many")
        if low <= high:
            mask |= (1 << high + 1) - (1 << low)
    return CPUSet.of_mask(mask)
