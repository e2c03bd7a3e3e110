"""What a Topology Manager policy counts of a pod: one that runs already, and init containers that
run one after the other."""

from __future__ import annotations

from dataclasses import replace

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed_of
from conformance.scenario import Capability
from conformance.scenarios.aligning import SINGLE, aligning_alone
from conformance.scenarios.entering import core
from conformance.scenarios.hint_parts import TWO_NODES
from conformance.scenarios.outcomes import promise_full_nodes_kept
from conformance.scenarios.sources import SIDECARS_AND_HINTS, TOPOLOGY_PAGE, TOPOLOGY_SCOPES
from reference import CPUSet
from reference.steps import Kind


@core(TOPOLOGY_PAGE, area="topology", needs=TWO_NODES, capabilities=[Capability.RESTART])
def restart_keeps_full_containers(node: LockstepNode) -> None:
    """After a restart a container that holds a whole NUMA node keeps it under scope container.
    No NUMA node has room for another one, so a kubelet that asks for CPUs again refuses pods
    that run."""
    node.boot(aligning_alone(node, SINGLE))
    promise_full_nodes_kept(node, "It runs on")


@core(TOPOLOGY_SCOPES, area="topology", since="1.20", needs=replace(TWO_NODES, numa_cores=3))
def pod_scope_counts_the_largest_init_container(node: LockstepNode) -> None:
    """Under scope pod a pod asks for its largest init container, and not for all of them together.
    They run one after the other: two that fit no NUMA node together lie in one."""
    node.boot(aligning_alone(node, SINGLE, scope="pod"))
    size = len(node.cpus) // node.topology.num_numa_nodes // 2 + 1
    setup = [exclusive(name, size, kind=Kind.INIT) for name in ("one", "two")]
    node.run(guaranteed_of("a", [*setup, exclusive("main", size)]))
    _promise_in_one_node(node, "main", "one", "two")


@core(SIDECARS_AND_HINTS, area="topology", since="1.29", needs=replace(TWO_NODES, numa_cores=3))
def pod_scope_counts_no_later_sidecar(node: LockstepNode) -> None:
    """Under scope pod an init container does not count beside a sidecar that starts after it.
    It has ended by then. Both together fit no NUMA node, and the sidecar and the app fit one."""
    node.boot(aligning_alone(node, SINGLE, scope="pod"))
    half = len(node.cpus) // node.topology.num_numa_nodes // 2
    setup = exclusive("setup", half + 1, kind=Kind.INIT)
    proxy = exclusive("proxy", half, kind=Kind.SIDECAR)
    node.run(guaranteed_of("a", [setup, proxy, exclusive("main", 1)]))
    _promise_in_one_node(node, "main", "setup", "proxy")


def _promise_in_one_node(node: LockstepNode, *containers: str) -> None:
    held = CPUSet(cpu for name in containers for cpu in node.taken("a", name))
    numa = len({node.topology.details[cpu].numa for cpu in held})
    node.promise_equal("It lies in one NUMA node", f"NUMA nodes of {held}", 1, numa)
