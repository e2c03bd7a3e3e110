"""A described machine, compared with the tree that a kernel showed of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from topologies.cpulist import format_list, ids, parse_list, parsed
from topologies.described import describe
from topologies.paths import CPU, NODE
from topologies.tree import Link, Tree


def differences(tree: Tree, spec: str) -> str:
    """The first difference of ``tree`` from the machine of ``spec`` in one line, ``""`` without
    one. Compared are the CPUs online, and for each its package, NUMA node, the CPUs of its core, of
    its package and of its L3. The kernel chooses core and cache ids: they are not compared."""
    wanted = describe(spec).tree
    online, meant = _set(tree, f"{CPU}/online"), _set(wanted, f"{CPU}/online")
    if online != meant:
        said = f"CPUs {format_list(online)} are online, described {format_list(meant)}"
        return f"the kernel shows another machine than {spec}: {said}"
    found = [
        f"{what} of CPU {cpu} is {seen or 'missing'}, described {described}"
        for cpu in ids(online)
        for (what, seen), (_, described) in zip(_facts(tree, cpu), _facts(wanted, cpu), strict=True)
        if seen != described
    ]
    nodes, meant = _set(tree, f"{NODE}/online"), _set(wanted, f"{NODE}/online")
    if nodes != meant:
        said = f"NUMA nodes are {format_list(nodes)}, described {format_list(meant)}"
        found.insert(0, said)
    if not found:
        return ""
    more = f" (and {len(found) - 1} more differences)" if len(found) > 1 else ""
    return f"the kernel shows another machine than {spec}: {found[0]}{more}"


_SETS: Final = {
    "the core": "topology/thread_siblings_list",
    "the package": "topology/core_siblings_list",
}


def _facts(tree: Tree, cpu: int) -> Iterator[tuple[str, str]]:
    base = f"{CPU}/cpu{cpu}"
    yield "the package id", tree.get(f"{base}/topology/physical_package_id", "").strip()
    yield "the NUMA node", _node(tree, cpu)
    for what, name in _SETS.items():
        yield what, format_list(_set(tree, f"{base}/{name}"))
    yield "the L3", format_list(_uncore(tree, base))


def _uncore(tree: Tree, base: str) -> int:
    for index in range(8):
        if tree.get(f"{base}/cache/index{index}/level", "").strip() == "3":
            return _set(tree, f"{base}/cache/index{index}/shared_cpu_list")
    return 0


def _node(tree: Tree, cpu: int) -> str:
    for node in ids(_set(tree, f"{NODE}/online")):
        if isinstance(tree.get(f"{NODE}/node{node}/cpu{cpu}"), Link):
            return str(node)
    return ""


def _set(tree: Tree, path: str) -> int:
    return parsed(parse_list, tree.get(path)) or 0
