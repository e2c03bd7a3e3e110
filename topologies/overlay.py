"""Machines for dra-driver-cpu, as the file that its setting ``sysfsOverlay`` names.

The file is a YAML map from the path of each file of sysfs to its text, which the driver reads once,
when it starts. A file that the map lacks is the host's own. The entries of a host's folder stay
beside those of the map. What belongs here: what the driver reads of CPUs and NUMA nodes, and where
that makes it refuse a machine. What never does: PCI, which the driver reads for
``--expose-pcie-roots`` alone, and ``devices/cpu_atom`` of hybrid processors, which no tree keeps.

Source: dra-driver-cpu, ``pkg/cpuinfo/cpuinfo.go`` (009e907a), and its pull request 225.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

from topologies.cpulist import bits, format_list, ids, parse_list, parsed
from topologies.hotplug import online_cpus
from topologies.paths import CPU, NODE
from topologies.tree import Link, Tree

#: What the driver reads unchanged.
_READ: Final = re.compile(
    rf"{CPU}/(?:online|smt/control|cpu\d+/(?:"
    r"topology/(?:physical_package_id|core_id|cluster_id|thread_siblings_list)"
    rf"|cache/index\d+/(?:level|id|shared_cpu_list)))|{NODE}/node\d+/cpulist",
    re.ASCII,
)
_CPU_LIST: Final = re.compile(rf"{NODE}/(node\d+)/cpulist", re.ASCII)
_LINKED: Final = re.compile(rf"{CPU}/cpu(\d+)/(node\d+)(?:/|$)", re.ASCII)
_CACHE: Final = re.compile(rf"{CPU}/cpu(\d+)/cache/", re.ASCII)
_SIBLINGS: Final = re.compile(rf"{CPU}/cpu(\d+)/topology/thread_siblings_list", re.ASCII)
_CONTROL: Final = f"{CPU}/smt/control"
#: The driver refuses to start where a core has more CPUs (docs/user/device-attributes.md).
_MOST_THREADS: Final = 2
#: What Linux writes for a cluster that it does not know.
_NO_CLUSTER: Final = 65535


def sysfs_overlay(tree: Tree) -> dict[str, str]:
    """Absolute paths and texts, sorted by path.

    The driver takes a CPU's NUMA node from the name ``nodeM`` in the CPU's folder, which is an
    empty file here. ``smt/control`` is always there, because the driver would else read the host's:
    a tree without it gets ``on`` where a core has several CPUs, else ``notsupported``. Raises
    :class:`topologies.BrokenMachine` where the online CPUs cannot be read.
    """
    smt = _has_smt(tree)
    found = {
        path: text
        for path, text in tree.items()
        if _READ.fullmatch(path) and not isinstance(text, Link)
    }
    found |= {f"{CPU}/cpu{cpu}/{node}": "" for cpu, node in _numa_nodes(tree).items()}
    found.setdefault(_CONTROL, "on\n" if smt else "notsupported\n")
    return {f"/{path}": found[path] for path in sorted(found)}


def passed_over(tree: Tree) -> list[int]:
    """The online CPUs that the driver leaves out: they have no socket, no core, no NUMA node, or no
    folder of caches."""
    nodes = _numa_nodes(tree)
    cached = {int(one[1]) for path in tree if (one := _CACHE.match(path))}
    return [
        cpu
        for cpu in ids(online_cpus(tree))
        if min(_socket(tree, cpu), _core(tree, cpu)) < 0 or cpu not in nodes or cpu not in cached
    ]


def refusal(tree: Tree) -> str:
    """Why the driver does not start on ``tree``; empty where it does. CPUs with the same socket,
    cluster and core id count as one core, whatever their dies."""
    cores: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    left_out = set(passed_over(tree))
    for cpu in ids(online_cpus(tree)):
        if cpu not in left_out:
            cluster = _number(tree, cpu, "cluster_id")
            place = _socket(tree, cpu), -1 if cluster == _NO_CLUSTER else cluster, _core(tree, cpu)
            cores[place].append(cpu)
    for cpus in cores.values():
        if len(cpus) > _MOST_THREADS:
            taken = f"it takes CPUs {format_list(bits(cpus))} for one core"
            return f"{taken}, and a core has {_MOST_THREADS} CPUs at most"
    return ""


def _socket(tree: Tree, cpu: int) -> int:
    return _number(tree, cpu, "physical_package_id")


def _core(tree: Tree, cpu: int) -> int:
    return _number(tree, cpu, "core_id")


def _number(tree: Tree, cpu: int, name: str) -> int:
    """-1 where Linux does not say."""
    try:
        return int(tree[f"{CPU}/cpu{cpu}/topology/{name}"])
    except (KeyError, ValueError):
        return -1


def _numa_nodes(tree: Tree) -> dict[int, str]:
    """The NUMA node of each CPU: by the links in its folder, else by the lists of the nodes, since
    old kernels made no such links."""
    linked = {int(one[1]): one[2] for path in tree if (one := _LINKED.match(path))}
    listed = {
        cpu: one[1]
        for path, text in tree.items()
        if (one := _CPU_LIST.fullmatch(path)) and not isinstance(text, Link)
        for cpu in ids(_cpus(text))
    }
    return {**listed, **linked}


def _has_smt(tree: Tree) -> bool:
    """Whether an online CPU has another on its core."""
    online = online_cpus(tree)
    return any(
        (_cpus(text) & online).bit_count() > 1
        for path, text in tree.items()
        if (one := _SIBLINGS.fullmatch(path)) and online >> int(one[1]) & 1
    )


def _cpus(text: str) -> int:
    """A list as a set; the empty set for a text that is not a list."""
    return parsed(parse_list, text) or 0
