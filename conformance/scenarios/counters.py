"""What a kubelet counts by NUMA node, of pods with pod-level resources, of those that it refuses,
and of what it is asked at its pod-resources socket: at ``/metrics``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed
from conformance.scenario import Capability, Needs, promised
from conformance.scenarios.abilities import COUNTS, REJECTIONS
from conformance.scenarios.aligning import aligning
from conformance.scenarios.hint_parts import TWO_NODES
from conformance.scenarios.pod_level_parts import ROOM, managed, pod_of, shared
from conformance.scenarios.sources import METRICS, pull, tests
from reference.cpumanager import metrics
from reference.errors import UNALIGNED
from reference.kubelet import admission
from reference.kubelet.pod_resources import (
    ASKED,
    ASKED_ALLOCATABLE,
    ASKED_GET,
    ASKED_LIST,
    FAILED_GET,
)
from reference.steps import AskAllocatable, AskMetrics, AskPodResources

_metrics: Final = partial(promised, area="metrics")

NUMA_NODES: Final = tests("cpu_manager_metrics_test.go#L395", "CPU allocations by NUMA node")
POD_LEVEL: Final = tests(
    "cpu_manager_metrics_test.go#L579", "the metrics of pods with pod-level resources"
)
REJECTED: Final = pull(128556, "a metric of pods that the kubelet does not admit")
SOCKET: Final = tests("podresources_test.go#L2041", "the metrics of the pod-resources socket")
_of_the_socket: Final = partial(
    _metrics, source=SOCKET, since="1.34", needs=Needs(free=2),
    capabilities=[Capability.METRICS, Capability.POD_RESOURCES, Capability.POD_RESOURCES_GET],
)  # fmt: skip


def _counts(node: LockstepNode, names: Iterable[str]) -> dict[str, float]:
    """These counters now; 0 where one does not exist yet."""
    seen = node.ask(AskMetrics()).metrics or {}
    return {name: seen.get(name, 0.0) for name in names}


def _promise_counts(node: LockstepNode, rule: str, expected: dict[str, int]) -> None:
    for name, seen in _counts(node, expected).items():
        node.promise_equal(rule, name, float(expected[name]), seen)


@_metrics(
    NUMA_NODES, since="1.33", needs=Needs(numa_nodes=2, numa_cores=2, even=True, smt=2),
    capabilities=COUNTS,
)  # fmt: skip
def numa_nodes_are_counted(node: LockstepNode) -> None:
    """The kubelet counts the exclusive CPUs in each NUMA node.
    None at a fresh start. The CPUs of a container that is distributed over NUMA nodes count in
    each of them. A kubelet that starts counts what its state file has."""
    options = {"distribute-cpus-across-numa": "true", "full-pcpus-only": "true"}
    node.boot(replace(node.default_config(), policy_options=options))
    numa_nodes = sorted({row.numa for row in node.topology.details.values()})
    gauges = {one: metrics.of_numa_node(one) for one in numa_nodes}
    _promise_counts(node, "A kubelet starts with none", dict.fromkeys(gauges.values(), 0))
    size = len(node.cpus) // len(numa_nodes)
    node.apply(guaranteed("a", (size - node.topology.cpus_per_core) * len(numa_nodes)))
    held = [node.topology.details[cpu].numa for cpu in node.taken("a")]
    counts = {gauge: held.count(one) for one, gauge in gauges.items()}
    _promise_counts(node, "They are counted", counts)
    node.restart()
    _promise_counts(node, "They are counted after a restart", counts)


@_metrics(POD_LEVEL, since="1.37", needs=ROOM, capabilities=[Capability.METRICS])
def pod_scope_is_counted(node: LockstepNode) -> None:
    """Under scope pod the kubelet counts the containers of a pod by how they share its CPUs.
    One has exclusive CPUs, the other shares. In 1.36 the counters had other names."""
    node.boot(managed(node))
    node.run(pod_of("a", 3, exclusive("main", 2), shared("side")))
    counts = {
        metrics.allocations("pod"): 2,
        metrics.allocations("node"): 0,
        metrics.assignments(metrics.EXCLUSIVE_OF_POD): 1,
        metrics.assignments(metrics.SHARED_BY_POD): 1,
    }
    _promise_counts(node, "Both containers are counted", counts)


@_metrics(POD_LEVEL, since="1.37", needs=ROOM, capabilities=[Capability.METRICS])
def container_scope_is_counted(node: LockstepNode) -> None:
    """Under scope container the kubelet counts the exclusive containers of a pod, and no others.
    A container that shares the node's pool is given no CPUs."""
    node.boot(managed(node, scope="container"))
    node.run(pod_of("a", 3, exclusive("main", 2), shared("side")))
    counts = {
        metrics.allocations("node"): 1,
        metrics.allocations("pod"): 0,
        metrics.assignments(metrics.EXCLUSIVE_OF_NODE): 1,
        metrics.assignments(metrics.SHARED_BY_POD): 0,
    }
    _promise_counts(node, "One container is counted", counts)


@_of_the_socket()
def pod_resources_requests_are_counted(node: LockstepNode) -> None:
    """The kubelet counts what it is asked at its pod-resources socket, each call by its name.
    How often a step asks is left to the subject, so each counter has to grow with its call, and
    the others have to stay."""
    node.boot_with(guaranteed("a", 1))
    calls: dict[str, AskPodResources | AskAllocatable] = {
        ASKED_LIST: AskPodResources(),
        ASKED_ALLOCATABLE: AskAllocatable(),
        ASKED_GET: AskPodResources("a"),
    }
    for name, step in calls.items():
        before = _counts(node, (ASKED, *calls))
        node.ask(step)
        after = _counts(node, (ASKED, *calls))
        grown = sorted(one for one in before if after[one] > before[one])
        expected = sorted((ASKED, name))
        node.promise_equal("The call is counted", "counters that grow", expected, grown)


@_of_the_socket()
def pod_resources_requests_add_up(node: LockstepNode) -> None:
    """The total of what the kubelet is asked at its pod-resources socket is the sum of its calls.
    Each call is one of List, Get and GetAllocatableResources, and counts once."""
    node.boot_with(guaranteed("a", 1))
    for step in (AskPodResources(), AskAllocatable(), AskPodResources("a")):
        node.ask(step)
        total, *calls = _counts(node, (ASKED, ASKED_LIST, ASKED_ALLOCATABLE, ASKED_GET)).values()
        node.promise_equal("They add up", "sum of the calls, total", sum(calls), total)


@_metrics(REJECTED, since="1.32", needs=TWO_NODES, capabilities=(*COUNTS, *REJECTIONS))
def refused_pods_are_counted_by_reason(node: LockstepNode) -> None:
    """The kubelet counts a pod that it refuses under the reason that the pod's status names.
    Under single-numa-node, one CPU more than a NUMA node has is a TopologyAffinityError. A pod that
    fits is not counted."""
    node.boot(aligning(node, "single-numa-node"))
    before = _rejections(node)
    node.apply(guaranteed("fits", 1))
    node.promise_equal("Nothing is refused", admission.REJECTIONS, before, _rejections(node))
    wide = len(node.cpus) // node.topology.num_numa_nodes + 1
    status = node.apply(guaranteed("wide", wide))
    node.promise_equal("It names the reason", "reason", UNALIGNED, status.reason)
    counter = admission.rejections(UNALIGNED)
    expected = {**before, counter: before.get(counter, 0.0) + 1}
    node.promise_equal("It is counted under it", admission.REJECTIONS, expected, _rejections(node))


def _rejections(node: LockstepNode) -> dict[str, float]:
    """How many pods were refused by now, by the names of the counters; those above 0."""
    seen = node.ask(AskMetrics()).metrics or {}
    return {
        one: seen[one] for one in sorted(seen) if one.startswith(admission.REJECTIONS) and seen[one]
    }


@_of_the_socket(source=METRICS)
def failed_gets_are_counted(node: LockstepNode) -> None:
    """A Get for a pod that is not there counts as a call and as one that failed.
    A Get for a pod that runs counts as a call alone."""
    node.boot_with(guaranteed("a", 1))
    called = (ASKED, ASKED_GET)
    for pod, expected in (("absent", [*called, FAILED_GET]), ("a", [*called])):
        before = _counts(node, (*called, FAILED_GET))
        node.ask(AskPodResources(pod))
        after = _counts(node, before)
        grown = [one for one in before if after[one] > before[one]]
        node.promise_equal("The call is counted", "counters that grow", expected, grown)
