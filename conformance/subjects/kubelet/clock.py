"""A clock speed for machines whose architecture shows none.

A kubelet ends where it finds no clock speed: neither the file below nor a line of ``/proc/cpuinfo``
(cAdvisor, ``machine.GetClockSpeed``). Built for the machine's own architecture it does without;
one for amd64 does not, and would judge no machine of ARM or s390. It does nothing with the value
but report it.
"""

from __future__ import annotations

from typing import Final

from reference import Architecture
from topologies import Tree

_FOLDER: Final = "sys/devices/system/cpu/cpu0/cpufreq"
_MAX_FREQUENCY: Final = f"{_FOLDER}/cpuinfo_max_freq"
_KHZ: Final = "2000000\n"
_CLOCKLESS: Final = frozenset(
    {Architecture.AARCH64, Architecture.ARM, Architecture.RISCV64, Architecture.S390X}
)


def with_clock(tree: Tree) -> Tree:
    """``tree``, with a made-up clock speed where its architecture shows none."""
    built_as = Architecture.of_cpuinfo(tree.get("proc/cpuinfo", ""))
    if built_as not in _CLOCKLESS or _MAX_FREQUENCY in tree:
        return tree
    return Tree({**{path: tree[path] for path in tree if path != _FOLDER}, _MAX_FREQUENCY: _KHZ})
