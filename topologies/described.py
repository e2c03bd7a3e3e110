"""Described machines: the tree that a real kernel would show of a machine that a spec names.

The files are those that the kubelet, cAdvisor, hwloc and lscpu read, with the conventions of
Linux 5.15: ``drivers/base/topology.c`` (``topology/``), ``drivers/base/cacheinfo.c`` (``cache/``),
``drivers/base/node.c`` (``node/``). Which of them an architecture has is in
:mod:`topologies.flavours`, ``/proc/cpuinfo`` in :mod:`topologies.cpuinfo`. On x86 the ``cluster_*``
files of 5.16 and later are left out where all cores are alike, which readers take as one core a
cluster. Sizes of caches and memory are those of a server of today; nothing depends on them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from topologies.cpuinfo import cpuinfo
from topologies.cpulist import bits, format_list, format_mask, ids
from topologies.flavours import Core, files
from topologies.hotplug import without_cpus
from topologies.machine import Machine
from topologies.paths import CPU, NODE
from topologies.spec import MAX_CPUS, Spec, parse, shares
from topologies.tree import Link, Tree

_KB_PER_NODE: Final = 16384000
_SOURCE: Final = "described by its spec"

#: Small cores that share an L2.
_SMALL_TOGETHER: Final = 4
#: NUMA distances: same node, same socket, other socket; memory without CPUs is a little farther.
_LOCAL, _NEAR, _FAR, _BEYOND = 10, 12, 21, 4


@lru_cache(maxsize=32)
def describe(spec: str) -> Machine:
    """The machine that ``spec`` describes (grammar: :mod:`topologies.spec`), under its canonical
    name. Raises :class:`topologies.errors.BadSpec`."""
    meant = parse(spec)
    tree = _whole(meant)
    if meant.offline:
        tree = without_cpus(tree, ids(meant.offline))
    name = str(meant)
    return Machine(name=name, tree=tree, shape=name, source=_SOURCE)


def is_described(machine: Machine) -> bool:
    """Whether the describer made this machine: its files are those of its shape."""
    return bool(machine.shape) and machine.digest == describe(machine.shape).digest


def _whole(spec: Spec) -> Tree:
    """The machine with all its CPUs online."""
    cores = _cores(spec)
    width = spec.present.bit_length()
    entries: dict[str, str] = {}
    _add_cpu_files(entries, spec, width)
    _add_cores(entries, spec, cores, width)
    if spec.architecture != "s390x":
        _add_nodes(entries, spec, cores, width)
    entries["proc/cpuinfo"] = cpuinfo(spec, cores)
    return Tree(entries)


def _cores(spec: Spec) -> list[Core]:
    """The cores in the order in which CPU ids are given out."""
    parts = spec.parts
    places = [(socket, place) for socket, own in enumerate(parts) for place in range(sum(own))]
    if spec.interleaved:
        places.sort(key=lambda one: (one[1], one[0]))
    return [_core(spec, parts, order, *place) for order, place in enumerate(places)]


def _core(spec: Spec, parts: list[list[int]], order: int, socket: int, place: int) -> Core:
    """The core at this place of its socket; ``order`` counts those that got ids before it."""
    number = sum(map(sum, parts[:socket])) + place
    unit, within, size = socket * len(parts[socket]), place, 0
    for size in parts[socket]:
        if within < size:
            break
        unit, within = unit + 1, within - size
    cpus = _cpus(spec, order)
    large = spec.cores - spec.small
    book = _share_of(socket, spec.sockets, spec.books)
    return Core(
        package=socket * spec.package_step,
        node=unit // (spec.units // spec.nodes) * spec.node_step,
        place=place,
        number=number,
        cluster=number if number < large else large + (number - large) // _SMALL_TOGETHER,
        cache=unit * spec.caches + _share_of(within, size, spec.caches) if spec.caches else socket,
        book=book,
        drawer=_share_of(book, spec.books, spec.drawers),
        small=number >= large,
        cpus=cpus,
        mask=bits(cpus),
    )


def _cpus(spec: Spec, order: int) -> tuple[int, ...]:
    large = spec.cores - spec.small
    threads = spec.threads if order < large else 1
    if spec.near or spec.architecture:
        first = min(order, large) * spec.threads + max(order - large, 0)
        ordered = range(first, first + threads)
    else:
        ordered = range(order, order + threads * spec.cores, spec.cores)
    return tuple(cpu * spec.cpu_step for cpu in ordered)


def _share_of(item: int, total: int, parts: int) -> int:
    """The index of the part that holds ``item``, where ``total`` items spread over ``parts``."""
    for part, size in enumerate(shares(total, parts)):
        item -= size
        if item < 0:
            return part
    raise AssertionError("beyond the last")


def _add_cpu_files(entries: dict[str, str], spec: Spec, width: int) -> None:
    """``cpu/online`` and its like. Ids between sparse ones are possible, but not present."""
    present, possible = spec.present, (1 << width) - 1
    entries[f"{CPU}/kernel_max"] = f"{MAX_CPUS - 1}\n"
    entries[f"{CPU}/offline"] = format_list(possible & ~present) + "\n"
    entries[f"{CPU}/online"] = format_list(present) + "\n"
    entries[f"{CPU}/possible"] = format_list(possible) + "\n"
    entries[f"{CPU}/present"] = format_list(present) + "\n"


def _add_cores(entries: dict[str, str], spec: Spec, cores: list[Core], width: int) -> None:
    """``cpuN/``: topology, caches, the ``online`` switch and the link to the NUMA node."""
    masks: dict[tuple[str, int], int] = {}
    for core in cores:
        for key in _places(core).items():
            masks[key] = masks.get(key, 0) | core.mask
    texts = {key: _mask_and_list(mask, width) for key, mask in masks.items()}
    for core in cores:
        shared = {level: texts[level, one] for level, one in _places(core).items()}
        texts_of_core = files(spec, core, shared)
        for cpu in core.cpus:
            base = f"{CPU}/cpu{cpu}/"
            for name, text in texts_of_core:
                entries[base + name] = text
            if spec.architecture == "s390x":
                entries[base + "address"] = f"{cpu}\n"
            if cpu or spec.architecture:
                entries[base + "online"] = "1\n"
            if spec.architecture != "s390x":
                entries[f"{base}node{core.node}"] = Link(f"../../node/node{core.node}")


def _places(core: Core) -> dict[str, int]:
    return {
        "core": core.number,
        "cluster": core.cluster,
        "l3": core.cache,
        "package": core.package,
        "book": core.book,
        "drawer": core.drawer,
    }


def _mask_and_list(mask: int, width: int) -> tuple[str, str]:
    """A set as the kernel shows it twice: mask and list."""
    return format_mask(mask, width) + "\n", format_list(mask) + "\n"


def _add_nodes(entries: dict[str, str], spec: Spec, cores: list[Core], width: int) -> None:
    """``node/``: the nodes with CPUs, then those that only have memory."""
    step, count = spec.node_step, spec.nodes
    masks = {number * step: 0 for number in range(count + spec.memory_nodes)}
    for core in cores:
        masks[core.node] |= core.mask
    every, with_cpus = bits(masks), bits(node for node, mask in masks.items() if mask)
    for name in ("online", "possible", "has_memory", "has_normal_memory"):
        entries[f"{NODE}/{name}"] = format_list(every) + "\n"
    entries[f"{NODE}/has_cpu"] = format_list(with_cpus) + "\n"
    entries[f"{NODE}/possible"] = f"0-{max(masks)}\n" if max(masks) else "0\n"
    for node, mask in masks.items():
        base = f"{NODE}/node{node}"
        entries[f"{base}/cpumap"], entries[f"{base}/cpulist"] = _mask_and_list(mask, width)
        distances = (_distance(spec, node // step, other) for other in range(len(masks)))
        entries[f"{base}/distance"] = " ".join(map(str, distances)) + "\n"
        entries[f"{base}/meminfo"] = _meminfo(node)
        for size in (2048, 1048576):
            for name in ("free_hugepages", "nr_hugepages", "surplus_hugepages"):
                entries[f"{base}/hugepages/hugepages-{size}kB/{name}"] = "0\n"
        for cpu in ids(mask):
            entries[f"{base}/cpu{cpu}"] = Link(f"../../cpu/cpu{cpu}")


def _distance(spec: Spec, one: int, other: int) -> int:
    if one == other:
        return _LOCAL
    beyond = _BEYOND * ((one >= spec.nodes) + (other >= spec.nodes))
    return (_NEAR if _home(spec, one) == _home(spec, other) else _FAR) + beyond


def _home(spec: Spec, node: int) -> int:
    """The socket of a NUMA node, or the node itself where it holds several sockets. Nodes without
    CPUs belong to the sockets in turn."""
    homes = min(spec.sockets, spec.nodes)
    return node // (spec.nodes // homes) if node < spec.nodes else (node - spec.nodes) % homes


def _meminfo(node: int) -> str:
    free = _KB_PER_NODE // 8 * 7
    return "".join(
        f"Node {node} {name + ':':<16}{value:>8} kB\n"
        for name, value in (
            ("MemTotal", _KB_PER_NODE),
            ("MemFree", free),
            ("MemUsed", _KB_PER_NODE - free),
        )
    ) + "".join(
        f"Node {node} {'HugePages_' + name + ':':<17}{0:>5}\n" for name in ("Total", "Free", "Surp")
    )
