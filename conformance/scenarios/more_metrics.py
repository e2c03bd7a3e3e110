"""What a kubelet counts of sources of CPUs, of alignment, and of pods with CPUs as a whole."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Needs, promised
from conformance.scenarios.abilities import COUNTS, DEVICES
from conformance.scenarios.aligning import aligning
from conformance.scenarios.hint_parts import NIC, TWO_NODES, run
from conformance.scenarios.metrics import TOPOLOGY_UPSTREAM, UPSTREAM, promise_counts
from conformance.scenarios.pod_level_parts import ROOM, managed, pod_of, shared
from conformance.scenarios.sources import METRICS, POD_LEVEL_MANAGERS
from reference.cpumanager import metrics
from reference.steps import AskMetrics, Device, Kind, RegisterDevices

_metrics: Final = partial(promised, area="metrics", capabilities=COUNTS)
#: In milliseconds.
_SECOND: Final = 1000
_of_two_nodes: Final = partial(_metrics, source=TOPOLOGY_UPSTREAM, since="1.33", needs=TWO_NODES)


def _promise_sources(node: LockstepNode, rule: str, expected: dict[str, int]) -> None:
    """Promise these counts of sources, by their names of 1.36 or those of 1.37."""
    seen = node.ask(AskMetrics()).metrics or {}
    for name, value in expected.items():
        newer = "kubelet_" + name.replace("_assignments{", "_assignments_total{")
        found = seen.get(name, seen.get(newer, "(no such metric)"))
        node.promise_equal(rule, name, float(value), found)


@_metrics(POD_LEVEL_MANAGERS, since="1.36", needs=Needs(free=4, smt=2, even=True))
def sources_are_counted(node: LockstepNode) -> None:
    """The kubelet counts the containers that were given CPUs of the node, and those that were not.
    With feature gate PodLevelResourceManagers. One CPU under full-pcpus-only is refused, and the
    Topology Manager counts that, too."""
    aligned = managed(node, scope="container")
    node.boot(replace(aligned, policy_options={"full-pcpus-only": "true"}))
    node.apply(guaranteed("even", node.topology.cpus_per_core))
    counts = {metrics.NODE_ALLOCATIONS: 1, metrics.NODE_EXCLUSIVE: 1}
    _promise_sources(node, "One was given CPUs", counts)
    node.apply(guaranteed("odd", 1))
    _promise_sources(node, "One was not", {metrics.NODE_ALLOCATIONS: 1, metrics.NODE_ERRORS: 1})
    counts = {metrics.ADMISSIONS: 2, metrics.ADMISSION_ERRORS: 1, metrics.ADMISSION_TIMES: 2}
    promise_counts(node, "So many admissions, and so long", counts)


@_metrics(METRICS, since="1.27", needs=Needs(free=2), capabilities=(*DEVICES, Capability.METRICS))
def admissions_are_timed_in_milliseconds(node: LockstepNode) -> None:
    """The Topology Manager adds up in milliseconds how long it takes to admit pods.
    A device plugin takes a second to allocate. The sum has at least this second, and is not of
    microseconds."""
    node.boot()
    node.to_runtime(RegisterDevices(NIC, (Device("nic-0"),), seconds=1))
    run(node, guaranteed_of("a", [replace(exclusive("c", 1), devices=((NIC, 1),))]))
    seen = (node.ask(AskMetrics()).metrics or {}).get(metrics.ADMISSION_MS)
    node.promise_that(
        seen is not None and _SECOND <= seen < _SECOND * 1000,
        "The second is in the sum",
        metrics.ADMISSION_MS,
        f"{_SECOND} or more, in milliseconds",
        "(no such metric)" if seen is None else f"{seen:g}",
    )


@_of_two_nodes()
def single_numa_containers_are_counted(node: LockstepNode) -> None:
    """Under single-numa-node the kubelet counts containers on one NUMA node, and refusals.
    Under scope container."""
    node.boot_with(guaranteed("fits", 1, 1), config=aligning(node, "single-numa-node"))
    promise_counts(node, "Two containers fit", {metrics.ALIGNED_CONTAINERS: 2})
    node.apply(guaranteed("wide", len(node.cpus) // node.topology.num_numa_nodes + 1))
    counts = {metrics.ALIGNED_CONTAINERS: 2, metrics.MISALIGNED_CONTAINERS: 1}
    promise_counts(node, "One does not", counts)


@_of_two_nodes()
def single_numa_pods_are_counted(node: LockstepNode) -> None:
    """Under single-numa-node and scope pod the kubelet counts pods on one NUMA node, and refusals.
    However many containers a pod has."""
    node.boot_with(guaranteed("fits", 1, 1), config=aligning(node, "single-numa-node", scope="pod"))
    promise_counts(node, "One pod fits", {metrics.ALIGNED_PODS: 1})
    node.apply(guaranteed("wide", len(node.cpus) // node.topology.num_numa_nodes + 1))
    promise_counts(node, "One does not", {metrics.ALIGNED_PODS: 1, metrics.MISALIGNED_PODS: 1})


@_of_two_nodes()
def restricted_counts_no_alignment(node: LockstepNode) -> None:
    """Under restricted the kubelet does not count what lies on one NUMA node.
    It promises none: a container may need several NUMA nodes."""
    node.boot_with(guaranteed("fits", 1), config=aligning(node, "restricted", scope="pod"))
    seen = (node.ask(AskMetrics()).metrics or {}).get(metrics.ALIGNED_PODS, 0.0)
    node.promise_equal("It is not counted", metrics.ALIGNED_PODS, 0.0, seen)


@_metrics(UPSTREAM, since="1.36", needs=ROOM)
def pods_with_cpus_as_a_whole_are_counted(node: LockstepNode) -> None:
    """The gauges follow a pod that has CPUs as a whole, and return when it goes.
    Its allocation is counted once for each of its containers."""
    node.boot(managed(node))
    free = len(node.free)
    setup = [shared("setup", kind=Kind.INIT), exclusive("first", 1, kind=Kind.INIT)]
    node.apply(pod_of("a", 3, *setup, exclusive("main", 1), shared("side")))
    promise_counts(node, "Three are taken", {metrics.POOL: (free - 3) * 1000, metrics.EXCLUSIVE: 3})
    counts = {metrics.POD_ALLOCATIONS: 4, metrics.POD_EXCLUSIVE: 2, metrics.POD_SHARED: 2}
    _promise_sources(node, "Each container counts", counts)
    promise_counts(node, "Two asked for CPUs of their own", {metrics.REQUESTS: 2})
    node.delete("a")
    node.await_reconcile()
    promise_counts(node, "All are free again", {metrics.POOL: free * 1000, metrics.EXCLUSIVE: 0})
