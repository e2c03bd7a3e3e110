"""What a kubelet counts of sources of CPUs, of alignment, and of pods with CPUs as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import Needs
from conformance.pods import guaranteed
from conformance.scenario import Level, scenario
from conformance.scenarios.aligning import aligning
from conformance.scenarios.metrics import TOPOLOGY_UPSTREAM, UPSTREAM, promise_counts
from conformance.scenarios.pod_level_parts import ROOM, managed, pod_of, shared
from conformance.scenarios.sources import POD_LEVEL_MANAGERS
from conformance.subject import Capability
from reference.cpumanager.metrics import (
    ADMISSION_ERRORS,
    ADMISSION_TIMES,
    ADMISSIONS,
    ALIGNED_CONTAINERS,
    ALIGNED_PODS,
    EXCLUSIVE,
    MISALIGNED_CONTAINERS,
    MISALIGNED_PODS,
    NODE_ALLOCATIONS,
    NODE_ERRORS,
    POD_ALLOCATIONS,
    POOL,
)
from reference.steps import AskMetrics

_ASKS: Final = (Capability.METRICS,)
_CONFIGURES: Final = (Capability.METRICS, Capability.CONFIGURE)
_TWO_NODES: Final = Needs(numa_nodes=2, numa_cores=2, even=True)


@scenario(
    "metrics/sources-are-counted",
    "The kubelet counts the containers that were given CPUs of the node, and those that were not",
    POD_LEVEL_MANAGERS,
    level=Level.EXTENDED,
    since="1.36",
    until="1.36",
    needs=Needs(free=4, smt=2, even=True),
    capabilities=_CONFIGURES,
)
def sources_are_counted(node: LockstepNode) -> None:
    """With feature gate PodLevelResourceManagers. One CPU under full-pcpus-only is refused, and the
    Topology Manager counts that, too. From 1.37 on the counters have other names."""
    aligned = managed(node, scope="container")
    node.boot(replace(aligned, policy_options={"full-pcpus-only": "true"}))
    node.apply(guaranteed("even", node.topology.cpus_per_core))
    promise_counts(node, "One was given CPUs", {NODE_ALLOCATIONS: 1})
    node.apply(guaranteed("odd", 1))
    promise_counts(node, "One was not", {NODE_ALLOCATIONS: 1, NODE_ERRORS: 1})
    counts = {ADMISSIONS: 2, ADMISSION_ERRORS: 1, ADMISSION_TIMES: 2}
    promise_counts(node, "So many admissions, and so long", counts)


@scenario(
    "metrics/single-numa-containers-are-counted",
    "Under single-numa-node the kubelet counts containers on one NUMA node, and refusals",
    TOPOLOGY_UPSTREAM,
    level=Level.EXTENDED,
    since="1.36",
    needs=_TWO_NODES,
    capabilities=_CONFIGURES,
)
def single_numa_containers_are_counted(node: LockstepNode) -> None:
    """Under scope container."""
    node.boot(aligning(node, "single-numa-node"))
    node.apply(guaranteed("fits", 1, 1))
    promise_counts(node, "Two containers fit", {ALIGNED_CONTAINERS: 2})
    node.apply(guaranteed("wide", len(node.cpus) // node.topology.num_numa_nodes + 1))
    counts = {ALIGNED_CONTAINERS: 2, MISALIGNED_CONTAINERS: 1}
    promise_counts(node, "One does not", counts)


@scenario(
    "metrics/single-numa-pods-are-counted",
    "Under single-numa-node and scope pod the kubelet counts pods on one NUMA node, and refusals",
    TOPOLOGY_UPSTREAM,
    level=Level.EXTENDED,
    since="1.36",
    needs=_TWO_NODES,
    capabilities=_CONFIGURES,
)
def single_numa_pods_are_counted(node: LockstepNode) -> None:
    """However many containers a pod has."""
    node.boot(aligning(node, "single-numa-node", scope="pod"))
    node.apply(guaranteed("fits", 1, 1))
    promise_counts(node, "One pod fits", {ALIGNED_PODS: 1})
    node.apply(guaranteed("wide", len(node.cpus) // node.topology.num_numa_nodes + 1))
    promise_counts(node, "One does not", {ALIGNED_PODS: 1, MISALIGNED_PODS: 1})


@scenario(
    "metrics/restricted-counts-no-alignment",
    "Under restricted the kubelet does not count what lies on one NUMA node",
    TOPOLOGY_UPSTREAM,
    level=Level.EXTENDED,
    since="1.36",
    needs=_TWO_NODES,
    capabilities=_CONFIGURES,
)
def restricted_counts_no_alignment(node: LockstepNode) -> None:
    """It promises none: a container may need several NUMA nodes."""
    node.boot(aligning(node, "restricted", scope="pod"))
    node.apply(guaranteed("fits", 1))
    seen = node.ask(AskMetrics()).metrics or {}
    node.promise_equal("It is not counted", ALIGNED_PODS, 0.0, seen.get(ALIGNED_PODS, 0.0))


@scenario(
    "metrics/pods-with-cpus-as-a-whole-are-counted",
    "The gauges follow a pod that has CPUs as a whole, and return when it goes",
    UPSTREAM,
    level=Level.EXTENDED,
    since="1.36",
    until="1.36",
    needs=ROOM,
    capabilities=_CONFIGURES,
)
def pods_with_cpus_as_a_whole_are_counted(node: LockstepNode) -> None:
    """Its allocation is counted once for each of its containers."""
    node.boot(managed(node))
    free = len(node.free)
    node.apply(pod_of("a", 2, shared("one"), shared("two")))
    promise_counts(node, "Two are taken", {POOL: (free - 2) * 1000, EXCLUSIVE: 2})
    promise_counts(node, "Each container counts", {POD_ALLOCATIONS: 2})
    node.delete("a")
    node.await_reconcile()
    promise_counts(node, "All are free again", {POOL: free * 1000, EXCLUSIVE: 0})
