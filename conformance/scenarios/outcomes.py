"""What scenarios of several areas do with a pod, and promise of it.

What belongs here: a step with what it came to, and promises in the same words everywhere. What
never does: a scenario.
"""

from __future__ import annotations

from collections.abc import Callable

from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed
from reference import CPUSet
from reference.kubelet.cpu_quota import quota_period, share_of
from reference.steps import KubeletConfig, Pod
from reference.view import Phase, PodView


def take(node: LockstepNode, pod: str, count: int) -> CPUSet:
    """Apply a Guaranteed pod with a container for so many CPUs; its exclusive CPUs."""
    node.apply(guaranteed(pod, count))
    return node.taken(pod)


def restart_with(node: LockstepNode, config: KubeletConfig) -> None:
    """Stop the kubelet, give it another configuration, and start it."""
    node.stop()
    node.configure(config)
    node.start()


def status_of(node: LockstepNode, pod: str) -> PodView:
    """What is known of a pod; that it is pending where nothing is."""
    return node.view.pods.get(pod, PodView(Phase.PENDING))


def promise_running(node: LockstepNode, pod: str) -> None:
    """Promise that a pod runs."""
    phase = status_of(node, pod).phase
    node.promise_equal("The pod runs", f"phase of pod {pod}", Phase.RUNNING, phase)


def promise_rejected(node: LockstepNode, status: PodView, reason: str, pod: str = "a") -> None:
    """Promise that a pod was rejected for this reason."""
    node.promise_equal("The pod is rejected", f"phase of pod {pod}", Phase.REJECTED, status.phase)
    node.promise_equal("The reason is named", "reason", reason, status.reason)


def configured_quota(node: LockstepNode, milli: int | None) -> int | None:
    """The CFS quota of a limit of so many thousandths of a CPU on a node that is configured as this
    one, perhaps by its owner: microseconds of each period; ``None`` where ``cpuCFSQuota`` is
    false."""
    period = quota_period(node.config, release=node.release)
    return share_of(period, milli) if period and milli else None


def promise_quota(node: LockstepNode, rule: str, owner: str, milli: int | None) -> None:
    """Promise the CFS quota of a container, ``pod/container``, whose limit is so many thousandths
    of a CPU; ``None``: that it has none."""
    expected, seen = configured_quota(node, milli), node.quota(*owner.split("/"))
    node.promise_equal(rule, f"CFS quota of {owner}", expected, seen)


def promise_pod_quota(node: LockstepNode, rule: str, pod: str, milli: int | None) -> None:
    """Promise the CFS quota of the pod's own cgroup, as :func:`promise_quota`."""
    cfs = node.view.pod_cfs.get(pod)
    seen = cfs.quota if cfs is not None else None
    expected = configured_quota(node, milli)
    node.promise_equal(rule, f"CFS quota of pod {pod}", expected, seen)


def promise_count(node: LockstepNode, count: int) -> None:
    """Promise that the container of pod ``a`` has so many exclusive CPUs."""
    node.promise_equal("It has its CPUs", "number of CPUs of a/c", count, len(node.taken("a")))


def promise_full_nodes_kept(
    node: LockstepNode, rule: str, made: Callable[[str, int], Pod] = guaranteed
) -> None:
    """Fill every NUMA node with a pod, ``made`` of a name and so many CPUs, start the kubelet
    again, and promise by this rule that the pods run, and that they keep their CPUs."""
    for numa in node.topology.numa_masks:
        room = node.free & node.topology.cpus_in_numa_nodes(numa)
        node.apply(made(f"fills-{numa}", len(room)))
    held = dict(node.view.assignments)
    node.restart()
    for pod, containers in held.items():
        phase = status_of(node, pod).phase
        node.promise_equal(rule, f"phase of pod {pod}", Phase.RUNNING, phase)
        for name, cpus in containers.items():
            node.promise_taken("It keeps its CPUs", pod, cpus, name)
