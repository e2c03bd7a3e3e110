"""What scenarios of devices and of memory have in common: the NUMA nodes that they speak of, and
what they promise of a pod. The *far* NUMA node is the last one that has CPUs."""

from __future__ import annotations

from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import DoesNotApply
from conformance.scenario import Needs
from conformance.scenarios.aligning import aligning_alone
from reference.steps import Device, Pod, RegisterDevices
from reference.view import Phase, PodView

NIC: Final = "pinproof.invalid/nic"
TWO_NODES: Final = Needs(numa_nodes=2, numa_cores=2, even=True)
#: A kubelet makes a hint for each set of NUMA nodes; 34 of them take longer than anybody waits.
_MOST_NODES: Final = 12


def require_few_nodes(node: LockstepNode) -> None:
    """Raise :class:`DoesNotApply` where a hint for each set of NUMA nodes, those without CPUs
    included, takes too long."""
    if len(node.numa_nodes) > _MOST_NODES:
        raise DoesNotApply(
            f"needs at most {_MOST_NODES} NUMA nodes, the machine has {len(node.numa_nodes)}: the "
            "kubelet makes a hint for each set of them and would not answer in time"
        )


def boot_aligned(node: LockstepNode, policy: str) -> None:
    """Start under this Topology Manager policy, where NUMA nodes are few enough."""
    require_few_nodes(node)
    node.boot(aligning_alone(node, policy))


def register(node: LockstepNode, *devices: Device, resource: str = NIC, failures: int = 0) -> None:
    """Start a device plugin with these devices, whose first ``failures`` allocations fail."""
    node.to_runtime(RegisterDevices(resource, devices, failures))


def far_node(node: LockstepNode) -> int:
    """The id of the last NUMA node that has CPUs."""
    return max(node.topology.numa_masks)


def first_node(node: LockstepNode) -> int:
    """The id of the first NUMA node that has CPUs."""
    return min(node.topology.numa_masks)


def promise_lies_in(node: LockstepNode, numa: int, pod: str, count: int, name: str = "c") -> None:
    """Promise that a container has so many CPUs, all of them in this NUMA node."""
    cpus, inside = node.taken(pod, name), node.topology.cpus_in_numa_nodes(numa)
    node.promise_equal("It has its CPUs", f"number of CPUs of {pod}/{name}", count, len(cpus))
    rule = "The CPUs lie in the NUMA node of what the container has beside them"
    expected = f"CPUs of NUMA node {numa}: {inside}"
    node.promise_that(cpus <= inside, rule, f"CPUs of {pod}/{name}", expected, cpus)


def promise_phase(node: LockstepNode, pod: str, status: PodView, phase: Phase) -> None:
    """Promise what has become of a pod."""
    node.promise_equal(f"The pod is {phase.value}", f"phase of pod {pod}", phase, status.phase)


def run(node: LockstepNode, pod: Pod) -> None:
    """Apply a pod, and promise that it runs."""
    promise_phase(node, pod.name, node.apply(pod), Phase.RUNNING)


def run_in(node: LockstepNode, numa: int, pod: Pod, count: int = 1) -> None:
    """Apply a pod, and promise that it runs with so many CPUs, all of them in this NUMA node."""
    run(node, pod)
    promise_lies_in(node, numa, pod.name, count)


def promise_refused(node: LockstepNode, status: PodView, reason: str, text: str = "") -> None:
    """Promise that pod ``a`` was refused for this reason, with this text in its message."""
    promise_phase(node, "a", status, Phase.REJECTED)
    node.promise_equal("The reason is named", "reason", reason, status.reason)
    said = status.message
    node.promise_that(text in said, "The message says why", "message", f"… {text} …", said)
