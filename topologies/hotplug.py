"""CPUs taken offline: what the kernel shows of the machine afterwards.

As Linux 5.15 does on ``echo 0 > cpuN/online``, and at boot with ``maxcpus=``:

- ``cpu/online`` and ``cpu/offline`` change; ``cpuN/online`` is 0; ``cpuN/topology`` and
  ``cpuN/cache`` are gone (``drivers/base/topology.c``, ``cacheinfo.c``);
- the maps and lists of the other CPUs no longer hold it, nor do the ``cpulist`` and ``cpumap`` of
  its NUMA node; a node left without CPUs leaves ``has_cpu``, but stays online with its memory;
- the links ``nodeN/cpuM`` and ``cpuM/nodeN`` **stay**: ``unregister_cpu_under_node`` is called
  when a CPU is unplugged, not when it goes offline (``drivers/base/cpu.c``);
- ``/proc/cpuinfo`` loses the block; ``siblings`` and ``cpu cores`` of its package shrink.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from topologies.cpulist import (
    MAX_ID,
    bits,
    format_list,
    format_mask,
    ids,
    parse_list,
    parse_mask,
    parsed,
)
from topologies.errors import BrokenMachine, MachineError
from topologies.paths import CPU, NODE
from topologies.tree import Link, Tree

_CPU_FILE: Final = re.compile(rf"{CPU}/cpu([0-9]{{1,7}})/(?:topology|cache)/(?:.*/)?([^/]+)")
_NODE_FILE: Final = re.compile(rf"{NODE}/node[0-9]+/(cpumap|cpulist)")
_FIELD: Final = re.compile(
    r"^(processor|physical id)[ \t]*:[ \t]*([0-9]{1,7})[ \t]*$", re.MULTILINE
)


def without_cpus(tree: Tree, cpus: Iterable[int]) -> Tree:
    """The same machine with ``cpus`` offline; those that are offline already stay so.

    Works on captured trees as on described ones. Raises :class:`MachineError` for a CPU the tree
    does not have, and where none would be left; :class:`BrokenMachine` where ``cpu/online``
    cannot be read.
    """
    gone = _checked(tree, cpus)
    if not gone:
        return tree
    shrinker = _Shrinker(gone)
    entries: dict[str, str] = {}
    for path, text in tree.items():
        kept = shrinker.file(path, text)
        if kept is not None:
            entries[path] = kept
    _switch_off(entries, gone)
    _drop_from_node_lists(entries)
    if isinstance(info := entries.get("proc/cpuinfo"), str):
        entries["proc/cpuinfo"] = _cpuinfo_without(info, gone, _whole_cores(tree, gone))
    return Tree(entries)


def _checked(tree: Tree, cpus: Iterable[int]) -> int:
    """Those of ``cpus`` that are online now."""
    wanted, present = list(cpus), cpu_directories(tree)
    absent = [cpu for cpu in wanted if not 0 <= cpu <= MAX_ID or not present >> cpu & 1]
    if absent:
        shown = ", ".join(map(str, absent[:8]))
        raise MachineError(f"the machine has no CPU {shown} to take offline")
    online = online_cpus(tree)
    if not online & ~bits(wanted):
        raise MachineError("no CPU would be left online")
    return bits(wanted) & online


def online_cpus(tree: Tree) -> int:
    """``cpu/online`` as a set; raises :class:`BrokenMachine` where it cannot be read."""
    try:
        return parse_list(tree[f"{CPU}/online"])
    except (KeyError, ValueError) as error:
        raise BrokenMachine(f"{CPU}/online", "missing, or not a CPU list") from error


def cpu_directories(tree: Mapping[str, str]) -> int:
    """The CPUs that have a folder in the tree, online or not, as a set, up to :data:`MAX_ID`."""
    return bits(number for number in numbered(tree, f"{CPU}/cpu") if number <= MAX_ID)


def numbered(tree: Mapping[str, str], folder: str) -> Iterator[int]:
    """The numbers N of the paths that begin with ``folder`` and N."""
    found = {path[len(folder) :].partition("/")[0] for path in tree if path.startswith(folder)}
    return (int(name) for name in found if name.isascii() and name.isdigit() and len(name) < 8)


class _Shrinker:
    """Takes CPUs out of maps and lists; equal texts are rewritten once."""

    def __init__(self, gone: int) -> None:
        self._gone = gone
        self._texts: dict[tuple[bool, str], str] = {}

    def file(self, path: str, text: str) -> str | None:
        """The new text of one file; ``None`` if the file goes away."""
        if found := _CPU_FILE.fullmatch(path):
            if self._gone >> int(found[1]) & 1:
                return None
            name = found[2]
            if isinstance(text, Link):
                return text
            if name.endswith(("_siblings", "_cpus", "_cpu_map")):
                return self._shrunk_once(text, as_mask=True)
            if name.endswith(("_siblings_list", "_cpus_list", "_cpu_list")):
                return self._shrunk_once(text, as_mask=False)
        elif found := _NODE_FILE.fullmatch(path):
            return self._shrunk_once(text, as_mask=found[1] == "cpumap")
        return text

    def _shrunk_once(self, text: str, *, as_mask: bool) -> str:
        if (as_mask, text) not in self._texts:
            self._texts[as_mask, text] = self._shrunk(text, as_mask)
        return self._texts[as_mask, text]

    def _shrunk(self, text: str, as_mask: bool) -> str:
        """Text that cannot be read, as in some captured trees, stays as it is."""
        before = parsed(parse_mask if as_mask else parse_list, text)
        if before is None or not before & self._gone:
            return text
        after = before & ~self._gone
        if as_mask:
            body = text.strip(" \t\n\0")
            return format_mask(after, 4 * len(body.replace(",", ""))) + "\n"
        return format_list(after) + "\n"


def _switch_off(entries: dict[str, str], gone: int) -> None:
    online = parse_list(entries[f"{CPU}/online"]) & ~gone
    entries[f"{CPU}/online"] = format_list(online) + "\n"
    offline = parsed(parse_list, entries.get(f"{CPU}/offline")) or 0
    entries[f"{CPU}/offline"] = format_list(offline | gone) + "\n"
    for cpu in ids(gone):
        entries[f"{CPU}/cpu{cpu}/online"] = "0\n"


def _drop_from_node_lists(entries: dict[str, str]) -> None:
    """``has_cpu`` keeps the nodes whose ``cpumap`` has a CPU, or is missing."""
    try:
        nodes = parse_list(entries[f"{NODE}/has_cpu"])
        left = bits(
            node for node in ids(nodes) if parse_mask(entries.get(f"{NODE}/node{node}/cpumap", "1"))
        )
    except (KeyError, ValueError):
        return
    entries[f"{NODE}/has_cpu"] = format_list(left) + "\n"


def _whole_cores(tree: Tree, gone: int) -> list[int]:
    """The cores that lose their last online CPU, as sets."""
    cores = set()
    for cpu in ids(gone):
        core = parsed(parse_mask, tree.get(f"{CPU}/cpu{cpu}/topology/thread_siblings"))
        core = 1 << cpu if core is None else core
        if not core & ~gone:
            cores.add(core)
    return sorted(cores)


def _cpuinfo_without(text: str, gone: int, cores: list[int]) -> str:
    """``/proc/cpuinfo`` without the blocks of ``gone``; what has no such block stays as it is."""
    blocks = [(block, dict(_FIELD.findall(block))) for block in re.split(r"(?<=\n\n)", text)]
    package_of = {
        int(fields["processor"]): fields.get("physical id", "")
        for _, fields in blocks
        if "processor" in fields
    }
    lost_cpus = Counter(package_of[cpu] for cpu in ids(gone) if cpu in package_of)
    lost_cores = Counter(package_of.get(next(ids(core)), "") for core in cores)
    kept = []
    for block, fields in blocks:
        if "processor" in fields and gone >> int(fields["processor"]) & 1:
            continue
        package = fields.get("physical id", "")
        shrunk = _reduced(block, "siblings", lost_cpus[package])
        kept.append(_reduced(shrunk, "cpu cores", lost_cores[package]))
    return "".join(kept)


def _reduced(block: str, field: str, by: int) -> str:
    if not by:
        return block
    pattern = re.compile(rf"^({field}[ \t]*:[ \t]*)([0-9]{{1,7}})$", re.MULTILINE)
    return pattern.sub(lambda found: found[1] + str(max(int(found[2]) - by, 0)), block)
