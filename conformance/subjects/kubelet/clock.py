"""A clock speed for machines that show none.

A kubelet ends where it finds no clock speed: neither the file below nor a line of ``/proc/cpuinfo``
(cAdvisor, ``machine.GetClockSpeed``). Built for the machine's own architecture it does without;
one for amd64 does not, and would judge no machine of ARM or s390. The tree of a collected node has
no clock speed where the node shows none but the one that it measures, as many virtual machines do.
A kubelet does nothing with the value but report it.
"""

from __future__ import annotations

import re
from typing import Final

from reference import Architecture
from topologies import Tree

_FOLDER: Final = "sys/devices/system/cpu/cpu0/cpufreq"
_MAX_FREQUENCY: Final = f"{_FOLDER}/cpuinfo_max_freq"
_KHZ: Final = "2000000\n"
#: As cAdvisor searches for it (``machine.go``, ``cpuClockSpeedMHz``).
_CLOCK: Final = re.compile(r"(?:cpu MHz|CPU MHz|clock)\s*:\s*[0-9]+\.[0-9]+")
_CLOCKLESS: Final = frozenset(
    {Architecture.AARCH64, Architecture.ARM, Architecture.RISCV64, Architecture.S390X}
)


def with_clock(tree: Tree) -> Tree:
    """``tree``, with a made-up clock speed where it shows none, or none that a kubelet built for
    amd64 finds. Without a ``/proc/cpuinfo`` it stays as it is."""
    text = tree.get("proc/cpuinfo", "")
    if not text:
        return tree
    shown = _CLOCK.search(text) and Architecture.of_cpuinfo(text) not in _CLOCKLESS
    if shown or _MAX_FREQUENCY in tree:
        return tree
    return Tree({**{path: tree[path] for path in tree if path != _FOLDER}, _MAX_FREQUENCY: _KHZ})
