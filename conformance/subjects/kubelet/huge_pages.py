"""The huge pages of a whole machine, which its tree has only by NUMA node.

A kubelet reads both: those of NUMA nodes for its memory manager, and those of the machine
(``/sys/kernel/mm/hugepages``) for what pods may request of the node (cAdvisor, ``machine.Info``).
It subtracts them from the memory for pods, which is the host's.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Final

from topologies import Tree

_OF_NODE: Final = re.compile(
    r"sys/devices/system/node/node[0-9]+/hugepages/hugepages-([0-9]+)kB/nr_hugepages", re.ASCII
)
_WHOLE: Final = "sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages"


def with_huge_pages_of_all(tree: Tree) -> Tree:
    """``tree``, with the sum of the huge pages of its NUMA nodes. If that is more than an eighth of
    the host's memory, of which pods get the rest, the sum is 0, and no pod may request any."""
    pages: Counter[int] = Counter()
    for path in tree:
        if (match := _OF_NODE.fullmatch(path)) and (text := tree[path].strip()).isdigit():
            pages[int(match[1])] += int(text)
    taken = sum(size * 1024 * count for size, count in pages.items())
    if not taken:
        return tree
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fits = taken <= memory // 8
    whole = {_WHOLE.format(size): f"{count if fits else 0}\n" for size, count in pages.items()}
    return Tree({**{path: tree[path] for path in tree}, **whole})
