"""Which CPUs a container gets: whole NUMA nodes and sockets, then whole cores, then the rest."""

from __future__ import annotations

from collections import Counter

from conformance.checks import cpu_difference
from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed
from conformance.scenario import Needs, scenario
from conformance.scenarios.sources import TOPOLOGY_ORDER
from reference import CPUSet

_NUMA, _SOCKET, _CORE = 0, 1, 2


def _groups(node: LockstepNode, level: int) -> dict[int, CPUSet]:
    """The machine's CPUs by NUMA node, socket or physical core."""
    groups: dict[int, list[int]] = {}
    for cpu, row in node.topology.details.items():
        groups.setdefault(row[level], []).append(cpu)
    return {key: CPUSet(cpus) for key, cpus in groups.items()}


def _size(node: LockstepNode, level: int) -> int:
    return Counter(row[level] for row in node.topology.details.values()).most_common(1)[0][1]


def _promise_whole(node: LockstepNode, rule: str, taken: CPUSet, level: int) -> None:
    whole = [group for group in _groups(node, level).values() if group <= taken]
    covered = CPUSet()
    for group in whole:
        covered |= group
    node.promise(taken == covered, rule, cpu_difference("exclusive CPUs", covered, taken))


@scenario(
    "packing/whole-core",
    "A request for as many CPUs as a physical core has threads takes one whole physical core",
    TOPOLOGY_ORDER,
    since="1.22",
    needs=Needs(free=2, smt=2, even=True),
)
def whole_core(node: LockstepNode) -> None:
    """No thread of the core is left for another container."""
    node.boot()
    node.apply(guaranteed("a", _size(node, _CORE)))
    _promise_whole(node, "The CPUs are one whole physical core", node.taken("a"), _CORE)


@scenario(
    "packing/several-whole-cores",
    "A request for a multiple of a core's threads takes whole physical cores",
    TOPOLOGY_ORDER,
    since="1.22",
    needs=Needs(free=6, smt=2, even=True),
)
def several_whole_cores(node: LockstepNode) -> None:
    """Also beside a container that has taken single CPUs."""
    node.boot()
    node.apply(guaranteed("single", 1))
    node.apply(guaranteed("a", 2 * _size(node, _CORE)))
    _promise_whole(node, "The CPUs are whole physical cores", node.taken("a"), _CORE)


@scenario(
    "packing/whole-numa-node",
    "A request for as many CPUs as a NUMA node has takes one whole NUMA node",
    TOPOLOGY_ORDER,
    since="1.23",
    needs=Needs(numa_nodes=2, even=True),
)
def whole_numa_node(node: LockstepNode) -> None:
    """A free NUMA node is there, since only the first has reserved CPUs."""
    node.boot()
    node.apply(guaranteed("a", _size(node, _NUMA)))
    _promise_whole(node, "The CPUs are one whole NUMA node", node.taken("a"), _NUMA)


@scenario(
    "packing/whole-socket",
    "A request for as many CPUs as a socket has takes one whole socket",
    TOPOLOGY_ORDER,
    since="1.22",
    needs=Needs(sockets=2, even=True),
)
def whole_socket(node: LockstepNode) -> None:
    """A free socket is there, since only the first has reserved CPUs."""
    node.boot()
    node.apply(guaranteed("a", _size(node, _SOCKET)))
    _promise_whole(node, "The CPUs are one whole socket", node.taken("a"), _SOCKET)


@scenario(
    "packing/spill-over",
    "A request larger than a NUMA node takes one whole NUMA node and spills over with whole cores",
    TOPOLOGY_ORDER,
    since="1.23",
    needs=Needs(numa_nodes=2, cores=4, even=True),
)
def spill_over(node: LockstepNode) -> None:
    """The part that spills over is one physical core of another NUMA node."""
    node.boot()
    node.apply(guaranteed("a", _size(node, _NUMA) + _size(node, _CORE)))
    taken = node.taken("a")
    whole = [group for group in _groups(node, _NUMA).values() if group <= taken]
    node.promise(
        len(whole) >= 1,
        "One NUMA node is taken whole",
        cpu_difference("CPUs of whole NUMA nodes", taken, CPUSet()),
    )
    _promise_whole(node, "All CPUs are of whole physical cores", taken, _CORE)


@scenario(
    "packing/single-cpus-share-a-core",
    "Requests for single CPUs fill a physical core before they begin another",
    TOPOLOGY_ORDER,
    since="1.22",
    needs=Needs(free=2, smt=2, even=True),
)
def single_cpus_share_a_core(node: LockstepNode) -> None:
    """So whole cores are left for those that ask for them."""
    node.boot()
    node.apply(guaranteed("a", 1))
    node.apply(guaranteed("b", 1))
    both = node.taken("a") | node.taken("b")
    cores = {node.topology.details[cpu][_CORE] for cpu in both}
    node.promise_equal("Both CPUs are of one physical core", "cores in use", 1, len(cores))
