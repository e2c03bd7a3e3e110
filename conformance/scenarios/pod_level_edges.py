"""Feature gate PodLevelResourceManagers at its edges: other pods, sidecars and CFS quotas."""

from __future__ import annotations

from dataclasses import replace

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, burstable, exclusive, guaranteed
from conformance.scenario import promised
from conformance.scenarios.abilities import QUOTAS, REJECTIONS
from conformance.scenarios.outcomes import promise_quota, promise_running
from conformance.scenarios.pod_level_parts import (
    ROOM,
    managed,
    of_managers,
    pod_of,
    promise_no_exclusive_cpus,
    shared,
)
from conformance.scenarios.sources import POD_LEVEL
from reference import CPUSet
from reference.steps import Container, Kind
from reference.view import Phase


@of_managers(capabilities=REJECTIONS)
def sidecar_without_cpus_is_refused(node: LockstepNode) -> None:
    """A pod whose exclusive container leaves a shared sidecar no CPU is refused.
    The sidecar is the only container that shares."""
    node.boot(managed(node, "best-effort"))
    status = node.apply(pod_of("a", 2, shared("side", kind=Kind.SIDECAR), exclusive("main", 2)))
    node.promise_equal("The pod is rejected", "phase of pod a", Phase.REJECTED, status.phase)
    node.promise_equal("Why", "reason", "EmptyPodSharedPoolError", status.reason)


@of_managers()
def too_large_a_pod_is_refused(node: LockstepNode) -> None:
    """A pod that asks for more CPUs as a whole than are left is refused and takes none.
    Best-effort asks for NUMA nodes, and refuses no pod that lacks them."""
    whole = node.boot(managed(node, "best-effort")).shared_pool
    status = node.apply(pod_of("a", len(node.free) + 1, shared("one"), shared("two")))
    node.promise_equal("The pod is rejected", "phase of pod a", Phase.REJECTED, status.phase)
    node.promise_pool("It takes no CPU", whole)


@of_managers()
def pods_without_it_are_as_before(node: LockstepNode) -> None:
    """With the gate on and scope pod, a pod without pod-level resources gets CPUs as ever.
    Its containers have CPUs of their own, in one NUMA node, and keep them over a restart."""
    node.boot_with(guaranteed("a", 1, 1), best_effort("shared"), config=managed(node))
    promise_running(node, "a")
    held = dict(node.view.assignments["a"])
    node.promise_equal("Each has one", "sizes", [1, 1], [len(cpus) for cpus in held.values()])
    node.restart()
    node.promise_equal("It keeps them", "CPUs of a", held, dict(node.view.assignments["a"]))


@of_managers(capabilities=QUOTAS)
def only_exclusive_containers_lose_quotas(node: LockstepNode) -> None:
    """With the gate on a container with exclusive CPUs has no CFS quota, and one that shares has.
    In a pod with CPUs as a whole, and in pods without. A container that shares its pod's CPUs
    holds an entry in the state file, and has the quota of its limit or that of its pod."""
    node.boot(managed(node))
    unequal = Container("some", cpu_request="500m", cpu_limit="1500m")
    half = exclusive("half", "500m")
    node.apply(pod_of("a", 4, exclusive("main", 1), unequal, half, shared("side")))
    node.apply(guaranteed("b", 1, "1500m"))
    node.apply(burstable("c", request="100m", limit="500m"))
    expected = {
        "a/main": None, "a/some": 1500, "a/half": 500, "a/side": 4000,
        "b/c1": None, "b/c2": 1500, "c/c": 500,
    }  # fmt: skip
    for owner, milli in expected.items():
        pod, name = owner.split("/")
        # The model shows none of a pod with CPUs as a whole.
        if node.view.cfs.get(pod, {}).get(name) is not None:
            promise_quota(node, "As it shares or not", owner, milli)


@of_managers()
def whole_cpus_without_equal_memory_are_shared(node: LockstepNode) -> None:
    """A container of a pod with CPUs as a whole shares them if its memory request has no limit.
    Its CPUs are a whole number, with equal request and limit. A container is exclusive only if its
    own resources are those of a Guaranteed container. Another one of the pod is."""
    unlimited = replace(exclusive("unlimited", 1), memory_limit=None)
    pod = pod_of("a", 4, exclusive("main", 2), unlimited, shared("side"))
    node.boot_with(pod, config=managed(node))
    promise_running(node, "a")
    rest = node.cpuset("a", "unlimited")
    node.promise_equal("It has what the other leaves", "CPUs of a/unlimited", 2, len(rest or ()))
    node.promise_cpuset("The third one shares them", "a", rest or CPUSet(), "side")


@promised(POD_LEVEL, area="pod-level", since="1.34", needs=ROOM)
def containers_have_no_hint_by_default(node: LockstepNode) -> None:
    """By default a container of such a pod is admitted though it asks for more than a NUMA node
    has.
    Under scope container single-numa-node admits it: without exclusive CPUs it has no
    preference."""
    node.boot(managed(node, "single-numa-node", scope="container", on=False))
    count = len(node.cpus) // node.topology.num_numa_nodes + 1
    node.apply(pod_of("a", count, exclusive("main", count)))
    promise_no_exclusive_cpus(node, "a")
