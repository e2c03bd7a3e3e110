"""How long the model takes for one allocation, one discovery and one step of a node.

Run it as ``python benchmarks/allocation.py``. It prints the best of several rounds, and each
figure's ratio to the first, which varies less from machine to machine than the figures do.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial

import topologies
from reference import CPUSet, CPUTopology, Node, discover, take_by_topology
from reference.steps import Apply, Container, Delete, KubeletConfig, Pod, Start

SMALL, LARGE, MANY_NODES = "1s-1n-4c-smt2", "2s-2n-192c-smt2", "2s-16n-64c-smt2"


def best(action: Callable[[], object], *, rounds: int = 7) -> float:
    """Seconds for one ``action``: the best round, each of about a twentieth of a second."""
    timer = timeit.Timer(action)
    once = max(timer.timeit(1), 1e-7)
    number = max(1, int(0.05 / once))
    return min(timer.repeat(rounds, number)) / number


def topology_of(machine: str) -> CPUTopology:
    return discover(topologies.machine(machine).tree).cpu_topology()


def half_busy(topology: CPUTopology) -> CPUSet:
    """One CPU of every other core is taken."""
    busy = [min(CPUSet.of_mask(mask)) for mask in list(topology.core_masks.values())[::2]]
    return topology.cpus - CPUSet(busy)


def come_and_go(machine: str) -> Callable[[], None]:
    """A pod that is applied to a running node, looked at, and deleted."""
    tree = topologies.machine(machine).tree
    node = Node(lambda _: tree, machine, KubeletConfig(system_reserved="1"))
    node.do(Start())
    pod = Pod("p", (Container("c", "2", "2", "1Mi", "1Mi"),))

    def once() -> None:
        node.do(Apply(pod))
        node.view()
        node.do(Delete("p"))

    return once


def main() -> None:
    actions: list[tuple[str, Callable[[], object]]] = []
    for machine in (SMALL, LARGE):
        topology = topology_of(machine)
        cpus, busy = topology.cpus, half_busy(topology)
        for number in (1, 2, len(cpus) // 2, len(cpus) - 1):
            take = partial(take_by_topology, topology, cpus, number)
            actions.append((f"take {number} of {len(cpus)}", take))
        take = partial(take_by_topology, topology, busy, 3)
        actions.append((f"take 3 of {len(busy)}, half the cores split", take))
    topology = topology_of(MANY_NODES)
    for number, group in ((20, 1), (65, 1), (110, 1), (66, 2)):
        take = partial(
            take_by_topology,
            topology,
            topology.cpus,
            number,
            strategy="distributed",
            group_size=group,
        )
        actions.append((f"distribute {number} of 128 over 16 NUMA nodes, {group} a group", take))
    for machine in (SMALL, LARGE):
        actions.append((f"discover {machine}", partial(discover, topologies.machine(machine).tree)))
    for machine in (SMALL, LARGE):
        actions.append((f"apply, view, delete on {machine}", come_and_go(machine)))
    first = 0.0
    for name, action in actions:
        seconds = best(action)
        first = first or seconds
        print(f"{name:45} {seconds * 1e6:10.1f} us {seconds / first:9.1f}")


if __name__ == "__main__":
    main()
