"""A clock speed for machines whose tree has none.

A kubelet ends if it finds no clock speed: neither the file below nor a line of ``/proc/cpuinfo``
(cAdvisor, ``machine.GetClockSpeed``). A kubelet for ARM or s390 needs none; one for amd64 does, and
could not start on such machines. The tree of a collected node has no clock speed if the node shows
only a measured one, as many virtual machines do. A kubelet only reports the value.
"""

from __future__ import annotations

import re
from typing import Final

from reference import Architecture
from topologies import Tree

_FOLDER: Final = "sys/devices/system/cpu/cpu0/cpufreq"
_MAX_FREQUENCY: Final = f"{_FOLDER}/cpuinfo_max_freq"
_KHZ: Final = "2000000\n"
#: cAdvisor's pattern (``machine.go``, ``cpuClockSpeedMHz``).
_CLOCK: Final = re.compile(r"(?:cpu MHz|CPU MHz|clock)\s*:\s*[0-9]+\.[0-9]+")
_CLOCKLESS: Final = frozenset(
    {Architecture.AARCH64, Architecture.ARM, Architecture.RISCV64, Architecture.S390X}
)


def with_clock(tree: Tree) -> Tree:
    """``tree``, with a made-up clock speed if a kubelet built for amd64 finds none in it. Without
    ``/proc/cpuinfo`` the tree is unchanged."""
    text = tree.get("proc/cpuinfo", "")
    if not text:
        return tree
    shown = _CLOCK.search(text) and Architecture.of_cpuinfo(text) not in _CLOCKLESS
    if shown or _MAX_FREQUENCY in tree:
        return tree
    return Tree({**{path: tree[path] for path in tree if path != _FOLDER}, _MAX_FREQUENCY: _KHZ})
