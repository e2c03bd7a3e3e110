"""Pod-level resources in the static policy: CPUs of a whole pod.

What belongs here: how many CPUs a pod asks for as a whole, and how its containers share them. What
never does: what a manifest says of them (``reference.pods``), or choosing CPUs on the machine
(``policy_static``). Source: ``policy_static.go`` (``AllocatePod``), 1.36 and 1.37; KEP-5526.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reference.cpuset import CPUSet
from reference.pods.pod import Kind, Pod
from reference.pods.qos import whole_cpus


def pod_total(pod: Pod) -> int:
    """How many CPUs a Guaranteed pod with pod-level resources asks for; 0 if that is no whole
    number (``podGuaranteedCPUs``)."""
    return whole_cpus(pod.resources.cpu_request) if pod.resources else 0


def partition(
    pod: Pod, cpus: CPUSet, counts: Mapping[str, int], take: Callable[[CPUSet, int], CPUSet]
) -> dict[str, CPUSet]:
    """What each container of the pod gets out of the pod's ``cpus``, by name.

    ``take`` chooses a number of CPUs out of some. Init containers come one at a time and may have
    all that sidecars have not taken so far. Then app containers take theirs in turn. Containers
    without CPUs of their own share what is left. Raises what ``take`` raises.
    """
    given: dict[str, CPUSet] = {}
    left = cpus
    for container in pod.containers:
        count = counts.get(container.name, 0)
        if container.kind is Kind.INIT:
            given[container.name] = take(left, count) if count else left
        elif count:
            given[container.name] = take(left, count)
            left -= given[container.name]
    return {one.name: given.get(one.name, left) for one in pod.containers}
