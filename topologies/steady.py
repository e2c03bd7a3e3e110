"""The part of a machine's tree that stays the same while the machine does not change.

A capture also holds numbers that vary: free memory, free huge pages, the frequency of a CPU. Two
captures of one machine differ in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from topologies.machine import Machine
from topologies.paths import CPUINFO, NODE
from topologies.tree import Tree

_MEMORY: Final = re.compile(rf"{NODE}/node\d+/meminfo")
_FREE_PAGES: Final = re.compile(rf"{NODE}/node\d+/hugepages/[^/]+/(?:free|surplus)_hugepages")
#: Lines of ``meminfo`` that say what there is, not what is in use.
_TOTALS: Final = re.compile(r"Node \d+ (?:MemTotal|HugePages_Total):")
#: Lines of ``/proc/cpuinfo`` that are measured: now, or at each boot.
_MEASURED: Final = re.compile(
    r"(?:cpu MHz(?: dynamic| static)?|bogomips(?: per cpu)?|clock)\s*:", re.I
)


def steady(tree: Tree) -> Tree:
    """The tree without what varies: of ``meminfo`` the totals are left, of ``/proc/cpuinfo`` all
    but what is measured, and free huge pages are dropped."""
    return Tree(dict(_entries(tree)))


def _entries(tree: Tree) -> Iterator[tuple[str, str]]:
    for path, text in tree.items():
        if _FREE_PAGES.fullmatch(path):
            continue
        if _MEMORY.fullmatch(path):
            text = _lines(text, lambda line: bool(_TOTALS.match(line)))
        elif path == CPUINFO:
            text = _lines(text, lambda line: not _MEASURED.match(line))
        yield path, text


def _lines(text: str, keep: Callable[[str], bool]) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if keep(line))


def steady_digest(machine: Machine) -> str:
    """``sha256:…`` that is equal for two captures of one machine, also across a reboot. It does not
    cover how much memory there is: that differs by some pages from boot to boot."""
    entries = {
        path: text
        for path, text in steady(machine.tree).items()
        if not _MEMORY.fullmatch(path) and "/hugepages/" not in path
    }
    return Machine(machine.name, Tree(entries)).digest
