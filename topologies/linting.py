"""Contradictions between the files of a tree.

Real machines have some, and a kubelet has to run on them, so a finding is not a verdict. A
described or edited tree should have none; those of a captured tree say what to expect. A missing
file contradicts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final

from topologies.cpulist import bits, format_list, grouped, ids
from topologies.hotplug import cpu_directories, numbered
from topologies.paths import CPU, CPUINFO, NODE
from topologies.sets import PROCESSOR, Texts, beyond_linux, unreadable
from topologies.tree import Link, Tree

_CACHE_LIST: Final = re.compile(rf"({CPU}/cpu([0-9]{{1,7}})/cache/index[0-9]+)/shared_cpu_list")
_CPU_LINK: Final = re.compile(rf"{NODE}/node([0-9]{{1,7}})/cpu([0-9]{{1,7}})")
#: Runs of CPUs that a finding shows of a longer list.
_MOST_RUNS: Final = 60
#: Sets of siblings, and what their members have in common.
_TOPOLOGY: Final = {
    "thread_siblings": ("physical_package_id", "core_id"),
    "core_cpus": ("physical_package_id", "core_id"),
    "core_siblings": ("physical_package_id",),
    "package_cpus": ("physical_package_id",),
    "die_cpus": ("physical_package_id", "die_id"),
}
_NESTED: Final = (
    ("thread_siblings", "core_siblings"),
    ("core_cpus", "die_cpus"),
    ("die_cpus", "package_cpus"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One contradiction: the file that shows it, and what it is in a sentence. ``impossible``: no
    kernel shows this at one moment; others are seen on real machines."""

    path: str
    message: str
    impossible: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def lint(tree: Tree) -> list[Finding]:
    """The contradictions in ``tree``, in the order of the rules; ``[]`` without any. If there are
    numbers that no kernel gives, only those."""
    beyond = [Finding(path, wrong, True) for path, wrong in beyond_linux(tree)]
    if beyond:
        return beyond
    facts = _Facts(tree)
    garbled = [Finding(path, wrong, True) for path, wrong in unreadable(tree)]
    return [*garbled, *(finding for rule in _RULES for finding in rule(facts))]


class _Facts(Texts):
    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self.tree = tree
        self.online = self.cpus(f"{CPU}/online") or 0


def _online_rules(facts: _Facts) -> Iterator[Finding]:
    """Online CPUs are present and possible, not offline, and have their files."""
    path = f"{CPU}/online"
    if not facts.online:
        yield Finding(path, "missing, empty, or not a CPU list", True)
    for name in ("present", "possible"):
        known = facts.cpus(f"{CPU}/{name}")
        if known is not None and facts.online & ~known:
            yield Finding(path, f"{_listed(facts.online & ~known)} not {name}", True)
    both = facts.online & (facts.cpus(f"{CPU}/offline") or 0)
    if both:
        yield Finding(path, f"{_listed(both)} also offline", True)
    present, possible = facts.cpus(f"{CPU}/present"), facts.cpus(f"{CPU}/possible")
    if present is not None and possible is not None and present & ~possible:
        yield Finding(f"{CPU}/present", f"{_listed(present & ~possible)} not possible", True)
    for cpu in ids(cpu_directories(facts.tree)):
        switch = facts.text(f"{CPU}/cpu{cpu}/online")
        if switch in ("0", "1") and int(switch) != facts.online >> cpu & 1:
            yield Finding(f"{CPU}/cpu{cpu}/online", f"is {switch}, cpu/online says otherwise", True)
    for cpu in ids(facts.online):
        for name in ("core_id", "physical_package_id"):
            if facts.text(f"{CPU}/cpu{cpu}/topology/{name}") is None:
                yield Finding(f"{CPU}/cpu{cpu}/topology/{name}", "missing for an online CPU")


def _sibling_rules(facts: _Facts) -> Iterator[Finding]:
    """Siblings are mutual, online, and of one package and core; mask and list agree; a core lies
    in one die, cluster and package."""
    by_name: dict[str, dict[int, int]] = {}
    for name in _TOPOLOGY:
        sets: dict[int, int] = {}
        for cpu in ids(facts.online):
            path = f"{CPU}/cpu{cpu}/topology/{name}"
            mask, listed = facts.mask(path), facts.cpus(f"{path}_list")
            if mask is not None and listed is not None and mask != listed:
                yield Finding(path, f"{_listed(mask)}, but its list says {_listed(listed)}", True)
            if (found := listed if mask is None else mask) is not None:
                sets[cpu] = found
        by_name[name] = sets
        yield from _mutual(name, sets, facts.online)
        for what in _TOPOLOGY[name]:
            yield from _same(facts, name, sets, what)
    for inner, outer in _NESTED:
        yield from _within(inner, by_name[inner], outer, by_name[outer])


def _within(
    inner: str, small: dict[int, int], outer: str, large: dict[int, int]
) -> Iterator[Finding]:
    for cpu, members in small.items():
        beyond = members & ~large.get(cpu, members)
        if beyond:
            path = f"{CPU}/cpu{cpu}/topology/{inner}"
            yield Finding(path, f"holds {_listed(beyond)}, which {outer} lacks")


def _mutual(name: str, sets: dict[int, int], online: int) -> Iterator[Finding]:
    having = grouped((members, cpu) for cpu, members in sets.items())
    known = bits(sets)
    for cpu, members in sets.items():
        path = f"{CPU}/cpu{cpu}/topology/{name}"
        if not members >> cpu & 1:
            yield Finding(path, f"lacks CPU {cpu} itself", True)
        if members & ~online:
            yield Finding(path, f"holds {_listed(members & ~online)}, not online", True)
        others = members & online & known & ~having[members]
        if others:
            yield Finding(path, f"holds CPU {next(ids(others))}, whose own set is another", True)


def _same(facts: _Facts, name: str, sets: dict[int, int], what: str) -> Iterator[Finding]:
    texts = {
        cpu: text
        for cpu in ids(reduce(or_, sets.values(), 0))
        if (text := facts.text(f"{CPU}/cpu{cpu}/topology/{what}")) is not None
    }
    having = grouped((text, cpu) for cpu, text in texts.items())
    known = bits(texts)
    for members in sorted(set(sets.values())):
        with_text = members & known
        if with_text and with_text & ~having[texts[next(ids(with_text))]]:
            path = f"{CPU}/cpu{next(ids(members))}/topology/{name}"
            # Threads of one core have two core_ids on AMD's family 15h.
            impossible = what == "physical_package_id"
            yield Finding(path, f"{_listed(members)} differ in {what}", impossible)


def _cache_rules(facts: _Facts) -> Iterator[Finding]:
    """A cache holds its CPU; equal level, type and id mean the same CPUs."""
    shared: dict[tuple[str | None, ...], int] = {}
    for path in facts.tree:
        found = _CACHE_LIST.fullmatch(path)
        members = facts.cpus(path) if found else None
        if found is None or members is None:
            continue
        if not members >> int(found[2]) & 1:
            yield Finding(path, f"lacks CPU {found[2]} itself")
        if members & ~facts.online:
            yield Finding(path, f"holds {_listed(members & ~facts.online)}, not online")
        mask = facts.mask(f"{found[1]}/shared_cpu_map")
        if mask is not None and mask != members:
            yield Finding(path, f"its map says {_listed(mask)}")
        key = tuple(facts.text(f"{found[1]}/{name}") for name in ("level", "type", "id"))
        if key[2] is not None and shared.setdefault(key, members) != members:
            yield Finding(path, f"level {key[0]} {key[1]} id {key[2]} is also another cache's")


def _node_rules(facts: _Facts) -> Iterator[Finding]:
    """Every online CPU is in one NUMA node; links, list and map of a node agree."""
    found = [one for one in map(_CPU_LINK.fullmatch, facts.tree) if one]
    for one in found:
        target = facts.tree[one[0]]
        if isinstance(target, Link) and not target.endswith(f"/cpu/cpu{one[2]}"):
            yield Finding(one[0], f"leads to {target}, not to its CPU")
    links = grouped((int(one[1]), int(one[2])) for one in found)
    nodes = set(numbered(facts.tree, f"{NODE}/node"))
    seen = 0
    for node in sorted(nodes):
        base = f"{NODE}/node{node}"
        linked = links.get(node, 0) & facts.online
        for name, listed in (
            ("cpulist", facts.cpus(f"{base}/cpulist")),
            ("cpumap", facts.mask(f"{base}/cpumap")),
        ):
            if listed is not None and listed != linked:
                said = f"says {_listed(listed)}, the links say {_listed(linked)}"
                yield Finding(f"{base}/{name}", said, True)
        if linked & seen:
            yield Finding(base, f"CPUs {_listed(linked & seen)} are in another node too")
        seen |= linked
    if nodes and facts.online & ~seen:
        yield Finding(NODE, f"CPUs {_listed(facts.online & ~seen)} are in no node", True)
    yield from _split_cores(facts, {node: links.get(node, 0) for node in nodes})
    has_cpu = facts.cpus(f"{NODE}/has_cpu")
    with_cpus = bits(node for node in nodes if links.get(node, 0) & facts.online)
    if has_cpu is not None and has_cpu != with_cpus:
        said = f"says {_listed(has_cpu)}, the links say {_listed(with_cpus)}"
        yield Finding(f"{NODE}/has_cpu", said, True)
    yield from _distances(facts, nodes)
    online = facts.cpus(f"{NODE}/online")
    if online is not None and online != bits(nodes):
        said = f"says {_listed(online)}, the folders say {_listed(bits(nodes))}"
        yield Finding(f"{NODE}/online", said, True)


def _split_cores(facts: _Facts, nodes: dict[int, int]) -> Iterator[Finding]:
    """Threads of one core in two NUMA nodes: the kubelet counts such a core twice."""
    home: dict[int, int] = {}
    seen = 0
    for members in nodes.values():
        home |= dict.fromkeys(ids(members & ~seen), members)
        seen |= members
    seen = 0
    for cpu in ids(facts.online):
        path = f"{CPU}/cpu{cpu}/topology/thread_siblings"
        core = (facts.mask(path) or 0) & facts.online
        own = home.get(cpu, core)
        if core & ~own and not core & seen:
            seen |= core
            yield Finding(path, f"{_listed(core)} are one core in several NUMA nodes")


def _distances(facts: _Facts, nodes: set[int]) -> Iterator[Finding]:
    """A row has a distance for each node that is online, and none is nearer than the node itself
    (ACPI, SLIT: 10)."""
    order = sorted(nodes)
    for node in order:
        path = f"{NODE}/node{node}/distance"
        row = (facts.text(path) or "").split()
        if not row or not all(one.isascii() and one.isdigit() for one in row):
            continue
        if len(row) != len(order):
            yield Finding(path, f"has {len(row)} distances, there are {len(order)} nodes")
        elif min(int(one[:9]) for one in row) < int(row[order.index(node)][:9]):
            yield Finding(path, "another node is nearer than the node itself")


def _cpuinfo_rules(facts: _Facts) -> Iterator[Finding]:
    """``/proc/cpuinfo`` lists the online CPUs, where it lists CPUs at all."""
    text = facts.text(CPUINFO)
    listed = bits(map(int, PROCESSOR.findall(text))) if text is not None else 0
    if listed and listed != facts.online:
        said = f"lists {_listed(listed)}, online are {_listed(facts.online)}"
        yield Finding(CPUINFO, said, True)


def _listed(members: int) -> str:
    return format_list(members, most=_MOST_RUNS) or "none"


_RULES: Final = (_online_rules, _sibling_rules, _cache_rules, _node_rules, _cpuinfo_rules)
