"""Machines for readers that need more than a kubelet does.

lstopo and lscpu refuse a tree without ``/proc/cpuinfo``, which some captures lack. What belongs
here: the least that they need. What never does: changing a machine that is loaded, or a file that
is there.
"""

from __future__ import annotations

from topologies.cpulist import ids
from topologies.errors import BrokenMachine
from topologies.hotplug import online_cpus
from topologies.paths import CPU, CPUINFO
from topologies.tree import Tree


def readable(tree: Tree) -> Tree:
    """``tree`` with a ``/proc/cpuinfo``: its own, or one with the numbers of the online CPUs alone,
    in the form of the architecture. A tree whose online CPUs cannot be read is returned
    unchanged."""
    if CPUINFO in tree:
        return tree
    try:
        online = list(ids(online_cpus(tree)))
    except BrokenMachine:
        return tree
    write = _s390 if _is_s390(tree) else _numbered
    return Tree({**tree, CPUINFO: write(online)})


def _is_s390(tree: Tree) -> bool:
    """Whether CPUs lie in books or have a polarization (Linux: ``arch/s390/kernel/topology.c``)."""
    signs = ("/topology/book_id", "/polarization")
    return any(path.startswith(f"{CPU}/cpu") and path.endswith(signs) for path in tree)


def _numbered(online: list[int]) -> str:
    """As x86 (``arch/x86/kernel/cpu/proc.c``), and near enough to arm64 and POWER for both readers.
    lscpu ignores a block that has only the number."""
    return "".join(f"processor\t: {cpu}\nmodel name\t: unknown\n\n" for cpu in online)


def _s390(online: list[int]) -> str:
    """As ``arch/s390/kernel/processor.c``."""
    blank = "version = 00,  identification = 000000,  machine = 0000"
    lines = [f"processor {cpu}: {blank}\n" for cpu in online]
    return "".join(["vendor_id       : IBM/S390\n", f"# processors    : {len(online)}\n", *lines])
