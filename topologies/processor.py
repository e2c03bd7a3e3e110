"""Which processor a machine has, as ``/proc/cpuinfo`` says."""

from __future__ import annotations

import re
from typing import Final

from topologies.paths import CPUINFO, NODE
from topologies.tree import Tree

#: Names of the model, by architecture: x86 and LoongArch, ppc64, some ARM boards, RISC-V.
_MODEL: Final = ("model name", "Model Name", "cpu", "Hardware", "uarch")

_MEMORY: Final = re.compile(rf"{NODE}/node(\d{{1,9}})/meminfo", re.ASCII)


def processor(tree: Tree) -> str:
    """The processor's model as its kernel names it; ``""`` if the kernel does not say."""
    found = _first(tree)
    for name in _MODEL:
        if found.get(name):
            return found[name]
    if "CPU implementer" in found:
        return f"ARM implementer {found['CPU implementer']}, part {found.get('CPU part', '?')}"
    machine = re.search(r"^processor 0:.*machine = (\w+)", tree.get(CPUINFO, ""), re.MULTILINE)
    return " ".join(filter(None, [found.get("vendor_id", ""), machine[1] if machine else ""]))


def microcode(tree: Tree) -> str:
    """The revision of its microcode (x86), else ``""``."""
    return _first(tree).get("microcode", "")


def memory_by_node(tree: Tree) -> dict[int, int]:
    """The memory of each NUMA node in bytes, as far as the tree says."""
    found = {}
    for path, text in tree.items():
        if node := _MEMORY.fullmatch(path):
            total = re.search(r"MemTotal:\s*(\d{1,15}) kB", text, re.ASCII)
            if total:
                found[int(node[1])] = int(total[1]) << 10
    return dict(sorted(found.items()))


def _first(tree: Tree) -> dict[str, str]:
    """The fields of ``/proc/cpuinfo``, each with its first value."""
    found: dict[str, str] = {}
    for line in tree.get(CPUINFO, "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip(), value.strip())
    return found
