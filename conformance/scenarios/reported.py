"""Which containers and CPUs a kubelet reports at its pod-resources socket."""

from __future__ import annotations

from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed
from conformance.scenario import Needs, promised
from conformance.scenarios.abilities import ASKS, LISTS
from conformance.scenarios.pod_resources import ALLOCATABLE, LIST
from reference import CPUSet
from reference.steps import AskAllocatable, KubeletConfig


@promised(LIST, area="pod-resources", since="1.23", needs=Needs(free=4), capabilities=LISTS)
def every_container_is_reported(node: LockstepNode) -> None:
    """The pod-resources socket reports the exclusive CPUs of every container of a pod.
    Not those of the first container alone, and of each its own."""
    node.boot_with(guaranteed("a", 1, 2), guaranteed("b", 1))
    node.ask()
    for pod, container in (("a", "c1"), ("a", "c2"), ("b", "c")):
        held = node.taken(pod, container)
        node.promise_pod_resources("It reports the container's CPUs", pod, held, container)


@promised(ALLOCATABLE, area="pod-resources", since="1.26", needs=Needs(free=2), capabilities=ASKS)
def amounts_reserve_whole_cpus(node: LockstepNode) -> None:
    """GetAllocatableResources leaves out as many CPUs as the reserved amounts make, rounded up.
    600m for the system and 500m for Kubernetes are 1100m, which make two CPUs. A pod that fills
    the machine cannot show it: the node has 1100m less for pods in any case."""
    node.boot(KubeletConfig(system_reserved="600m", kube_reserved="500m"))
    node.ask(AskAllocatable())
    left_out = node.cpus - (node.view.allocatable or CPUSet())
    node.promise_equal("Two CPUs are reserved", "CPUs left out", 2, len(left_out))
