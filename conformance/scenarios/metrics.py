"""What a kubelet counts of its CPU manager's work, at ``/metrics``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Needs, promised
from conformance.scenarios.abilities import COUNTS, RESTARTED
from conformance.scenarios.aligning import aligning
from conformance.scenarios.hint_parts import TWO_NODES
from conformance.scenarios.sources import documentation, issue, tests
from reference.cpumanager.metrics import (
    ADMISSION_ERRORS,
    ADMISSIONS,
    ALIGNED,
    ERRORS,
    EXCLUSIVE,
    IN_ONE_CACHE,
    MISALIGNED,
    POOL,
    REQUESTS,
)
from reference.steps import AskMetrics, Kind, KubeletConfig

_metrics: Final = partial(promised, area="metrics")

PINNING = documentation(
    "Kubernetes Metrics Reference: kubelet_cpu_manager_pinning_requests_total",
    "reference/instrumentation/metrics/",
)
UPSTREAM = tests("cpu_manager_metrics_test.go", "the CPU manager's metrics")
TOPOLOGY_UPSTREAM = tests("topology_manager_metrics_test.go", "the Topology Manager's metrics")
DRIFT = issue(141262, "the gauges drift where an app container reuses CPUs of an init container")

_ASKS: Final = (Capability.METRICS,)


def promise_counts(node: LockstepNode, rule: str, expected: dict[str, int]) -> None:
    """Promise these metrics of a kubelet that is asked now."""
    seen = node.ask(AskMetrics()).metrics or {}
    for name, value in expected.items():
        node.promise_equal(rule, name, float(value), seen.get(name, "(no such metric)"))


def _whole_cores(node: LockstepNode) -> KubeletConfig:
    return replace(node.default_config(), policy_options={"full-pcpus-only": "true"})


@_metrics(PINNING, since="1.26", needs=Needs(free=3), capabilities=_ASKS)
def requests_are_counted(node: LockstepNode) -> None:
    """The kubelet counts the requests for exclusive CPUs, and no shared container among them.
    Once for each container, and no error while all can be met."""
    node.boot()
    promise_counts(node, "A kubelet starts with none", {REQUESTS: 0, ERRORS: 0})
    node.apply(best_effort("shared"))
    node.apply(guaranteed("a", 1, 1))
    promise_counts(node, "Each container is counted", {REQUESTS: 2, ERRORS: 0})


@_metrics(UPSTREAM, since="1.26", needs=Needs(free=4, smt=2, even=True), capabilities=COUNTS)
def refusals_are_counted(node: LockstepNode) -> None:
    """The kubelet counts a request that it refuses as a request and as an error.
    One CPU under full-pcpus-only, where a physical core has more. The next pod is met."""
    node.boot_with(guaranteed("odd", 1), config=_whole_cores(node))
    promise_counts(node, "It is counted twice", {REQUESTS: 1, ERRORS: 1})
    node.apply(guaranteed("even", node.topology.cpus_per_core))
    promise_counts(node, "The next is a request alone", {REQUESTS: 2, ERRORS: 1})


@_metrics(UPSTREAM, since="1.33", needs=Needs(free=4, smt=2, even=True), capabilities=COUNTS)
def alignment_is_counted(node: LockstepNode) -> None:
    """Under full-pcpus-only the kubelet counts containers on whole physical cores, and refusals.
    Both counters are there from the start."""
    node.boot(_whole_cores(node))
    promise_counts(node, "A kubelet starts with none", {ALIGNED: 0, MISALIGNED: 0})
    node.apply(guaranteed("even", node.topology.cpus_per_core))
    promise_counts(node, "Whole cores are counted", {ALIGNED: 1, MISALIGNED: 0})
    node.apply(guaranteed("odd", 1))
    promise_counts(node, "A refusal is counted", {ALIGNED: 1, MISALIGNED: 1})


@_metrics(UPSTREAM, since="1.32", needs=Needs(free=3), capabilities=_ASKS)
def gauges_follow_the_cpus(node: LockstepNode) -> None:
    """The gauges of the shared pool and of exclusive CPUs follow a pod, and return when it goes.
    The pool is counted in thousandths of a CPU, and without the reserved CPUs."""
    node.boot()
    free = len(node.free)
    before = {POOL: free * 1000, EXCLUSIVE: 0}
    promise_counts(node, "All are free", before)
    node.apply(guaranteed("a", 2))
    promise_counts(node, "Two are taken", {POOL: (free - 2) * 1000, EXCLUSIVE: 2})
    node.delete("a", passing=True)
    node.await_reconcile()
    promise_counts(node, "All are free again", before)


@_metrics(UPSTREAM, since="1.32", needs=Needs(free=3), capabilities=(*_ASKS, *RESTARTED))
def gauges_count_once_over_a_restart(node: LockstepNode) -> None:
    """After a restart the gauges count the exclusive CPUs of a pod once, and return when it goes.
    The kubelet reads them from the state file, and admits the pod again."""
    node.boot()
    free = len(node.free)
    node.apply(guaranteed("a", 2))
    node.restart()
    promise_counts(node, "Two are taken", {POOL: (free - 2) * 1000, EXCLUSIVE: 2})
    node.delete("a", passing=True)
    node.await_reconcile()
    promise_counts(node, "All are free again", {POOL: free * 1000, EXCLUSIVE: 0})


@_metrics(DRIFT, since="1.32", until="1.37", needs=Needs(free=2), capabilities=_ASKS)
def gauges_drift_over_init_containers(node: LockstepNode) -> None:
    """Up to 1.37 the gauges count CPUs that an init container has lent as taken for ever.
    A defect: they are counted for the init container and for the app container, and return
    once. The state file is right all the while."""
    node.boot()
    free = len(node.free)
    node.apply(guaranteed_of("a", [exclusive("init", 1, kind=Kind.INIT), exclusive("c", 1)]))
    node.delete("a", passing=True)
    node.await_reconcile()
    node.promise_equal("The pool is whole", "CPUs that are free", free, len(node.free))
    promise_counts(node, "One is counted too many", {POOL: (free - 1) * 1000, EXCLUSIVE: 1})


@_metrics(TOPOLOGY_UPSTREAM, since="1.27", needs=TWO_NODES, capabilities=COUNTS)
def admissions_are_counted(node: LockstepNode) -> None:
    """The Topology Manager counts the pods that it is asked about, and those that it refuses.
    Under single-numa-node, one CPU more than a NUMA node has is refused."""
    node.boot(aligning(node, "single-numa-node"))
    promise_counts(node, "A kubelet starts with none", {ADMISSIONS: 0, ADMISSION_ERRORS: 0})
    node.apply(guaranteed("fits", 1))
    promise_counts(node, "An admission is counted", {ADMISSIONS: 1, ADMISSION_ERRORS: 0})
    node.apply(guaranteed("wide", len(node.cpus) // node.topology.num_numa_nodes + 1))
    promise_counts(node, "A refusal is both", {ADMISSIONS: 2, ADMISSION_ERRORS: 1})


@_metrics(
    UPSTREAM, since="1.33", needs=Needs(free=4, uncore_caches=2, even=True), capabilities=_ASKS
)
def uncore_caches_are_counted(node: LockstepNode) -> None:
    """The kubelet counts a container whose CPUs have one uncore cache, and none that spans several.
    Whether or not prefer-align-cpus-by-uncorecache is on. One CPU has one cache; all that are
    left have several."""
    node.boot()
    promise_counts(node, "A kubelet starts with none", {IN_ONE_CACHE: 0})
    node.apply(guaranteed("one", 1))
    promise_counts(node, "One cache is counted", {IN_ONE_CACHE: 1})
    node.apply(guaranteed("rest", len(node.free)))
    promise_counts(node, "Several are not", {IN_ONE_CACHE: 1})
