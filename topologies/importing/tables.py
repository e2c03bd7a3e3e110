"""The smallest tree of a table of CPUs: ids of sysfs, caches, NUMA nodes and their memory.

What belongs here: rows into files; :func:`topologies.complete` adds what follows from those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from topologies.cpulist import bits, format_list, grouped
from topologies.paths import CPU, NODE
from topologies.spec import MAX_CPUS, MAX_NODES
from topologies.tree import Link, Tree

#: No kernel numbers cores, packages or caches higher.
_MOST: Final = 1 << 31
#: The size in kB for a cache of unknown size. No decision of a kubelet depends on it.
_SIZE: Final = 16384


@dataclass(frozen=True, slots=True)
class Row:
    """One CPU. ``core`` is unique in its socket, ``cache`` (the L3 cache) on the machine; an
    offline CPU has none of them. ``None``: not stated."""

    cpu: int
    core: int | None = None
    socket: int | None = None
    node: int | None = None
    cache: int | None = None
    online: bool = True


def tree_of(
    rows: Sequence[Row],
    *,
    memory: Mapping[int, int] | None = None,
    sizes: Mapping[int, int] | None = None,
) -> Tree:
    """The tree of these CPUs; ``memory`` is that of each NUMA node and ``sizes`` of each L3 cache,
    in kB. A cache of unknown size gets one, because a kubelet ignores a cache without a size.

    Raises :class:`ValueError` for no CPU, one that is named twice, an online CPU without core or
    socket, and numbers that no Linux has.
    """
    _check(rows)
    online = [row for row in rows if row.online]
    every, on = bits(row.cpu for row in rows), bits(row.cpu for row in online)
    entries: dict[str, str] = {f"{CPU}/{name}": _list(every) for name in ("possible", "present")}
    entries |= {f"{CPU}/online": _list(on), f"{CPU}/offline": _list(every & ~on)}
    cores = grouped(((row.socket, row.core), row.cpu) for row in online)
    caches = grouped((row.cache, row.cpu) for row in online if row.cache is not None)
    for row in online:
        base = f"{CPU}/cpu{row.cpu}"
        entries[f"{base}/topology/physical_package_id"] = f"{row.socket}\n"
        entries[f"{base}/topology/core_id"] = f"{row.core}\n"
        entries[f"{base}/topology/thread_siblings_list"] = _list(cores[row.socket, row.core])
        if row.cache is not None:
            size = (sizes or {}).get(row.cache) or _SIZE
            files = {"level": "3", "type": "Unified", "id": row.cache, "size": f"{size}K"}
            entries |= {f"{base}/cache/index3/{k}": f"{v}\n" for k, v in files.items()}
            entries[f"{base}/cache/index3/shared_cpu_list"] = _list(caches[row.cache])
        if row.node is not None:
            entries[f"{base}/node{row.node}"] = Link(f"../../node/node{row.node}")
    return Tree(entries | _nodes(online, memory or {}))


def _nodes(online: Iterable[Row], memory: Mapping[int, int]) -> dict[str, str]:
    sets = grouped((row.node, row.cpu) for row in online if row.node is not None)
    for node in memory:
        sets.setdefault(node, 0)
    files: dict[str, str] = {}
    for node, cpus in sets.items():
        files[f"{NODE}/node{node}/cpulist"] = _list(cpus)
        if node in memory:
            files[f"{NODE}/node{node}/meminfo"] = f"Node {node} MemTotal: {memory[node]} kB\n"
    return files


def _list(cpus: int) -> str:
    return f"{format_list(cpus)}\n"


def _check(rows: Sequence[Row]) -> None:
    if not any(row.online for row in rows):
        raise ValueError("not a machine: no CPU is online")
    seen = set[int]()
    for row in rows:
        if not 0 <= row.cpu < MAX_CPUS:
            raise ValueError(f"not a machine: no Linux has CPU {row.cpu}")
        if row.cpu in seen:
            raise ValueError(f"CPU {row.cpu} occurs twice")
        seen.add(row.cpu)
        if row.online and (row.core is None or row.socket is None):
            raise ValueError(f"nothing says which core and socket CPU {row.cpu} has")
        if row.node is not None and not 0 <= row.node < MAX_NODES:
            raise ValueError(f"not a machine: no Linux has NUMA node {row.node}")
        if any(
            one is not None and not -1 <= one < _MOST for one in (row.core, row.socket, row.cache)
        ):
            raise ValueError(f"CPU {row.cpu} has an id that no Linux gives")
