"""Random machines, as cAdvisor would report them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from reference import Cache, Core, CPUTopology, MachineInfo, NUMANode
from reference.releases import Release

#: Up to which share of the machines: the fewest and the most NUMA nodes, and the most CPUs. On 16
#: NUMA nodes the Go code searches for up to a minute.
_SIZES: Final = ((0.985, 1, 8, 96), (0.9998, 1, 12, 256), (1.0, 16, 16, 128))


@dataclass(slots=True)
class _Plan:
    """Cores by NUMA node: each has a socket and threads."""

    cores: list[tuple[int, int, int]]  # NUMA node, socket, number of threads
    nodes: int


_KEPT: Final = 8
_topologies: dict[int, tuple[MachineInfo, CPUTopology]] = {}


def topology_of(info: MachineInfo) -> CPUTopology:
    """``info.cpu_topology()``, remembered for the last :data:`_KEPT` objects. Raises as that
    does."""
    kept = _topologies.get(id(info))
    if kept is None:
        while len(_topologies) >= _KEPT:
            _topologies.pop(next(iter(_topologies)))
        # The machine is kept beside its topology, so that no other object gets its id.
        kept = _topologies[id(info)] = (info, info.cpu_topology())
    return kept[1]


def random_machine(random: Random, release: str) -> MachineInfo:
    """A machine, most often of less than a hundred CPUs. More than half of them are ordinary."""
    dice = random.random()
    least, most, cpus = next(size for below, *size in _SIZES if dice < below)
    plan = _plan(random, range(least, most + 1), cpus)
    odd = random.random() < 0.4
    if odd:
        plan = _uneven(random, plan)
    numbers = _numbers(random, plan, sparse=odd and random.random() < 0.5)
    return _machine_info(random, plan, numbers, release, odd=odd)


def machine_of_many_parts(random: Random, release: str) -> MachineInfo:
    """A machine with several NUMA nodes and cores of several CPUs, on which CPUs may be left when
    whole cores are distributed."""
    while True:
        info = random_machine(random, release)
        topology = topology_of(info)
        if topology.num_numa_nodes > 2 and topology.cpus_per_core > 1:
            return info


def _plan(random: Random, allowed: range, most_cpus: int) -> _Plan:
    while True:
        sockets = random.choice([1, 1, 1, 1, 2, 2, 2, 2, 4, 8])
        nodes = sockets * random.choice([1, 1, 1, 2, 2, 2, 3, 4, 8])
        if random.random() < 0.06 and sockets > 1:
            nodes = max(1, sockets // 2)  # a node of several sockets
        per_node = random.choice([1, 2, 2, 3, 4, 4, 6, 8, 12, 16])
        threads = random.choice([1, 2, 2, 2, 2, 4, 4, 8])
        if nodes in allowed and nodes * per_node * threads <= most_cpus:
            break
    per_node = max(per_node, sockets // nodes)
    cores = []
    for index in range(nodes * per_node):
        node = index // per_node
        # A NUMA node of several sockets has the cores of one socket after those of another.
        place, whole = (node, nodes) if nodes >= sockets else (index, nodes * per_node)
        cores.append((node, place * sockets // whole, threads))
    return _Plan(cores, nodes)


def _uneven(random: Random, plan: _Plan) -> _Plan:
    """Some cores lost, some threads offline, or cores of two kinds."""
    lost, offline = random.choice([(0.15, 0.2), (0.15, 0.0), (0.0, 0.1), (0.3, 0.5)])
    fewer = random.choice([1, 1, 1, 2, 3, 7])
    cores = [
        (node, socket, max(1, threads - (fewer if random.random() < offline else 0)))
        for node, socket, threads in plan.cores
        if random.random() >= lost
    ]
    return _Plan(cores or plan.cores[:1], plan.nodes)


def _numbers(random: Random, plan: _Plan, *, sparse: bool) -> list[tuple[int, ...]]:
    """The CPU ids of each core: siblings are next to each other, or all cores lie between them."""
    total = sum(threads for _, _, threads in plan.cores)
    ids = list(range(total))
    if sparse:
        ids = sorted(random.sample(range(2 * total + 2), total))
    if random.random() < 0.5:
        found, at = [], 0
        for _, _, threads in plan.cores:
            found.append(tuple(ids[at : at + threads]))
            at += threads
        return found
    most = max(threads for _, _, threads in plan.cores)
    groups: list[list[int]] = [[] for _ in plan.cores]
    numbers = iter(ids)
    for thread in range(most):
        for core, (_, _, threads) in enumerate(plan.cores):
            if thread < threads:
                groups[core].append(next(numbers))
    return [tuple(group) for group in groups]


def _machine_info(
    random: Random, plan: _Plan, cpus: list[tuple[int, ...]], release: str, *, odd: bool
) -> MachineInfo:
    stride = random.choice([1, 1, 1, 2]) if odd else 1
    uncores = _uncores(random, plan)
    own_ids = random.random() < 0.5
    nodes = []
    for node in range(plan.nodes):
        members = [index for index, core in enumerate(plan.cores) if core[0] == node]
        cores = tuple(
            Core(
                core_id=index if own_ids else place,
                socket_id=plan.cores[index][1] * stride,
                thread_ids=cpus[index],
                uncore_caches=() if uncores is None else (_cache(uncores[index]),),
            )
            for place, index in enumerate(members)
        )
        nodes.append(NUMANode(node * stride, 1 << 34, cores, (), ()))
    if odd and random.random() < 0.2:
        nodes.append(NUMANode(plan.nodes * stride, 1 << 34, ()))  # memory only
    found = len({socket for _, socket, _ in plan.cores})
    own_cores = {core.core_id for node in nodes for core in node.cores}
    return MachineInfo(
        num_cores=sum(map(len, cpus)),
        # cAdvisor counts core ids, which may repeat in every node.
        num_physical_cores=len(own_cores if random.random() < 0.5 else plan.cores),
        num_sockets=found if random.random() > 0.03 else max(1, found + random.choice([-1, 1])),
        nodes=_with_distances(random, nodes),
        release=Release.parse(release),
    )


def _uncores(random: Random, plan: _Plan) -> list[int] | None:
    if random.random() < 0.4:
        return None
    size = random.choice([1, 2, 3, 4, 8])
    step = random.choice([1, 1, 5])
    counts: dict[int, int] = {}
    ids: dict[tuple[int, int], int] = {}
    found = []
    for node, _, _ in plan.cores:
        counts[node] = counts.get(node, -1) + 1
        group = (node, counts[node] // size)
        found.append(ids.setdefault(group, len(ids) * step))
    return found


def _cache(number: int) -> Cache:
    return Cache(number, 32 << 20, 3, "Unified")


def without_a_core(random: Random, info: MachineInfo) -> MachineInfo:
    """The machine after a core was lost; the machine itself where it has only one."""
    places = [(at, core) for at, node in enumerate(info.nodes) for core in range(len(node.cores))]
    if len(places) < 2:
        return info
    lost_in, lost = random.choice(places)
    nodes = [
        replace(node, cores=tuple(core for place, core in enumerate(node.cores) if place != lost))
        if at == lost_in
        else node
        for at, node in enumerate(info.nodes)
    ]
    cores = [core for node in nodes for core in node.cores]
    return replace(info, num_cores=sum(len(core.thread_ids) for core in cores), nodes=tuple(nodes))


def _with_distances(random: Random, nodes: list[NUMANode]) -> tuple[NUMANode, ...]:
    steps = [12, 16, 20, 21, 32]
    count = len(nodes)
    table = [[10] * count for _ in range(count)]
    for one in range(count):
        for other in range(one):
            table[one][other] = table[other][one] = random.choice(steps)
    return tuple(
        NUMANode(node.node_id, node.memory, node.cores, node.caches, tuple(row))
        for node, row in zip(nodes, table, strict=True)
    )
