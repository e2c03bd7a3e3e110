"""What a Topology Manager policy counts of a pod: one that runs already, and init containers that
run one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed_of
from conformance.scenario import Capability, Needs
from conformance.scenarios.aligning import aligning
from conformance.scenarios.entering import core
from conformance.scenarios.outcomes import promise_full_nodes_kept
from conformance.scenarios.sources import TOPOLOGY_PAGE, TOPOLOGY_SCOPES
from reference.steps import Kind, KubeletConfig

_NODES: Final = Needs(numa_nodes=2, numa_cores=2, even=True)


def _single(node: LockstepNode, scope: str) -> KubeletConfig:
    return replace(aligning(node, "single-numa-node", scope=scope), policy_options={})


@core(TOPOLOGY_PAGE, area="topology", needs=_NODES, capabilities=[Capability.RESTART])
def restart_keeps_full_containers(node: LockstepNode) -> None:
    """After a restart a container that holds a whole NUMA node keeps it under scope container.
    No NUMA node has room for another one, so a kubelet that asks for CPUs again refuses pods
    that run."""
    node.boot(_single(node, "container"))
    promise_full_nodes_kept(node, "It runs on")


@core(TOPOLOGY_SCOPES, area="topology", since="1.20", needs=replace(_NODES, numa_cores=3))
def pod_scope_counts_the_largest_init_container(node: LockstepNode) -> None:
    """Under scope pod a pod asks for its largest init container, and not for all of them together.
    They run one after the other: two that fit no NUMA node together lie in one."""
    node.boot(_single(node, "pod"))
    size = len(node.cpus) // node.topology.num_numa_nodes // 2 + 1
    setup = [exclusive(name, size, kind=Kind.INIT) for name in ("one", "two")]
    node.run(guaranteed_of("a", [*setup, exclusive("main", size)]))
    held = node.taken("a", "main") | node.taken("a", "one") | node.taken("a", "two")
    numa = len({node.topology.details[cpu].numa for cpu in held})
    node.promise_equal("It lies in one NUMA node", f"NUMA nodes of {held}", 1, numa)
