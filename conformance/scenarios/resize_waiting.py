"""Resizes that wait, in which order they are granted, how they are counted, and what a resize of
one resource leaves as it is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import burstable, guaranteed
from conformance.scenario import Capability, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import API_SERVER, CALLS, DEVICES, QUOTAS, RESIZES
from conformance.scenarios.hint_parts import NIC, TWO_NODES, far_node, register
from conformance.scenarios.in_cluster import in_cluster
from conformance.scenarios.outcomes import promise_pod_quota, promise_quota, promise_running
from conformance.scenarios.resize import DEFERRED, IN_PLACE, promise_granted, promise_pending
from conformance.scenarios.resize_shared import RETRIED, promise_weight
from conformance.scenarios.sources import METRICS
from reference.kubelet.in_cluster import DEFERRED_ACCEPTED
from reference.pods.pod import HIGH_PRIORITY
from reference.steps import AskMetrics, Container, Device, Pod

_POLICIES: Final = sources.documentation(
    "Resize CPU and Memory Resources assigned to Containers: container resize policies",
    "tasks/configure-pod-container/resize-container-resources/#container-resize-policies",
)
_resize: Final = partial(promised, area="resize")
_waiting: Final = partial(
    _resize, source=RETRIED, since="1.36", needs=Needs(free=4, counted_once=True)
)
_TWENTY_MS: Final = 20_000


def _crowd(node: LockstepNode, *pods: Pod, policy: str = "static") -> str:
    """Pod ``large`` has nearly all CPUs that the node gives to pods, beside these. The request of
    one that has room once it is gone, alone."""
    node.boot(replace(in_cluster(node), policy=policy))
    room = len(node.cpus) - len(node.config.reserved_system_cpus or ())
    most = str(room - 1)
    node.apply(burstable("large", request=most, limit=str(room)))
    for pod in pods:
        node.apply(pod)
    return most


def _promise_comes_first(node: LockstepNode, earlier: Pod, later: Pod, most: str) -> None:
    """Two pods wait for so many CPUs, one after the other. Once there is room for one of them, the
    later one has it."""
    for pod in (earlier, later):
        promise_pending(node, node.resize(_asking(pod, most)), DEFERRED)
    node.delete("large")
    promise_granted(node, node.view.pods[later.name])
    promise_weight(node, later.name, int(most) * 1000)
    promise_pending(node, node.view.pods[earlier.name], DEFERRED)


def _asking(pod: Pod, cpus: str) -> Pod:
    """The pod with this request, and with this limit if it is Guaranteed."""
    (one,) = pod.containers
    limit = cpus if one.cpu_limit == one.cpu_request else one.cpu_limit
    return replace(pod, containers=(replace(one, cpu_request=cpus, cpu_limit=limit),))


@_waiting(capabilities=API_SERVER)
def higher_priority_comes_first(node: LockstepNode) -> None:
    """Of two resizes that wait, that of the pod of higher priority is granted first.
    The other one waits longer. Each asks for more than half of what comes back when a third pod is
    deleted. The pods are alike but for their priority."""
    limit = str(len(node.cpus))
    earlier, later = (burstable(name, request="250m", limit=limit) for name in ("b", "c"))
    later = replace(later, priority=HIGH_PRIORITY)
    _promise_comes_first(node, earlier, later, _crowd(node, earlier, later))


@_waiting(capabilities=API_SERVER)
def guaranteed_pod_comes_first(node: LockstepNode) -> None:
    """Of two resizes that wait, that of a Guaranteed pod is granted first.
    Under CPU manager policy none, because the static policy resizes no Guaranteed pod. A Burstable
    pod of the same priority waits longer. Each asks for more than half of what comes back when a
    third pod is deleted."""
    earlier = burstable("b", request="250m", limit=str(len(node.cpus)))
    later = guaranteed("a", "250m")
    _promise_comes_first(node, earlier, later, _crowd(node, earlier, later, policy="none"))


@_waiting(
    source=METRICS, area="metrics", since="1.34", capabilities=(*API_SERVER, Capability.METRICS)
)
def accepted_resizes_count_if_they_had_to_wait(node: LockstepNode) -> None:
    """The kubelet counts the resizes that it accepts after they had to wait, and no others.
    The first resize has room, and is not counted. The second one asks for more than is left, and
    counts as soon as another pod is deleted. So the counter says how often pods wait for CPUs."""
    limit = str(len(node.cpus))
    most = _crowd(node, burstable("b", request="250m", limit=limit))
    promise_granted(node, node.resize(burstable("b", request="500m", limit=limit)))
    _promise_waited(node, "It was accepted at once", 0)
    asked = burstable("b", request=most, limit=limit)
    promise_pending(node, node.resize(asked), DEFERRED)
    _promise_waited(node, "It waits", 0)
    node.delete("large")
    promise_granted(node, node.view.pods["b"])
    _promise_waited(node, "It was accepted after it had to wait", 1)


def _promise_waited(node: LockstepNode, rule: str, count: int) -> None:
    """That so many resizes were accepted after they had to wait, whatever let the kubelet try
    again, which is a label of the counter."""
    metrics = node.ask(AskMetrics()).metrics or {}
    seen = sum(value for name, value in metrics.items() if name.startswith(DEFERRED_ACCEPTED))
    node.promise_equal(rule, DEFERRED_ACCEPTED, float(count), seen)


@_waiting(capabilities=RESIZES)
def deferred_over_a_restart(node: LockstepNode) -> None:
    """A resize that waits as the kubelet is started again is granted once there is room.
    Nearly all CPUs are requested by another pod, which is deleted after the start. Until then the
    resize waits on."""
    limit = str(len(node.cpus))
    most = _crowd(node, burstable("b", request="500m", limit=limit))
    asked = burstable("b", request=most, limit=limit)
    promise_pending(node, node.resize(asked), DEFERRED)
    node.restart()
    promise_pending(node, node.view.pods["b"], DEFERRED)
    node.delete("large")
    promise_granted(node, node.view.pods["b"])
    promise_weight(node, "b", int(most) * 1000)


@_resize(_POLICIES, since="1.33", needs=Needs(free=3), capabilities=(*API_SERVER, *QUOTAS, *CALLS))
def policy_counts_for_its_own_resource(node: LockstepNode) -> None:
    """A container that is started again for its memory is not started again for its CPUs.
    Its resize policy says RestartContainer for memory alone, before that of cpu. First its CPUs
    are resized, then its memory."""

    def sized(request: str, limit: str, memory: str) -> Pod:
        one = Container("c", request, limit, memory, memory, resize_restarts=("memory",))
        return Pod("b", (one,))

    node.boot_with(sized("500m", "1", "64Mi"), config=in_cluster(node))
    first = node.asked("b").id
    promise_granted(node, node.resize(sized("1", "2", "64Mi")))
    what = "container b/c by its id"
    node.promise_equal("It runs on", what, first, node.asked("b").id)
    promise_quota(node, "It has its new quota", "b/c", 2000)
    promise_granted(node, node.resize(sized("1", "2", "65Mi")))
    rule, seen = "It is started again", node.asked("b").id
    node.promise_that(seen != first, rule, what, f"another than {first}", seen)
    promise_running(node, "b")


@_resize(
    IN_PLACE, since="1.34", needs=TWO_NODES, capabilities=(*API_SERVER, *DEVICES),
)  # fmt: skip
def devices_are_held_through_a_resize(node: LockstepNode) -> None:
    """A pod that holds every device is resized in place, as its devices are its own already.
    Under restricted. Both devices are near to the last NUMA node. None is free, so a pod that
    is admitted anew would be refused."""
    node.boot(in_cluster(node, topology_manager="restricted"))
    far = far_node(node)
    register(node, *(Device(f"nic-{number}", (far,)) for number in range(2)))

    def sized(request: str) -> Pod:
        (one,) = burstable("b", request=request, limit="1").containers
        return Pod("b", (replace(one, devices=((NIC, 2),)),))

    node.apply(sized("100m"))
    promise_granted(node, node.resize(sized("200m")))
    promise_weight(node, "b", 200)


@_resize(
    IN_PLACE, since="1.34", needs=Needs(free=2),
    capabilities=(*API_SERVER, *QUOTAS, Capability.POD_CGROUP),
)  # fmt: skip
def quota_keeps_the_configured_period(node: LockstepNode) -> None:
    """A pod that is resized keeps the period of its CFS quota, which is not the default.
    So does its container. Both quotas are those of the new limit in this period."""
    gates = {"CustomCPUCFSQuotaPeriod": True}
    config = replace(in_cluster(node, gates=gates), cpu_cfs_quota_period=_TWENTY_MS)
    node.boot_with(burstable("b", request="250m", limit="500m"), config=config)
    _promise_in_its_period(node, 500)
    promise_granted(node, node.resize(burstable("b", request="500m", limit="1000m")))
    _promise_in_its_period(node, 1000)


def _promise_in_its_period(node: LockstepNode, milli: int) -> None:
    """That pod ``b`` and its container have the quota of so many thousandths of a CPU."""
    promise_quota(node, "The container has its quota", "b/c", milli)
    promise_pod_quota(node, "The pod has its quota", "b", milli)
    cfs = node.view.pod_cfs.get("b")
    rule, what = "It is of the configured period", "period of pod b in microseconds"
    node.promise_equal(rule, what, node.config.cpu_cfs_quota_period, cfs and cfs.period)
