"""What a pod asks for: its QoS class, its CPU request, and which containers get exclusive CPUs.

What belongs here: answers that follow from the pod's manifest alone. What never does: which CPUs.
Sources: ``pkg/apis/core/v1/helper/qos``, ``component-helpers/resource`` (``PodRequests``),
``policy_static.go`` (``guaranteedCPUs``), 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeVar

from reference.behaviours import Behaviour
from reference.pods.pod import (
    CLUSTER_CRITICAL,
    NODE_CRITICAL,
    Container,
    Kind,
    Pod,
    PodResources,
    RestartPolicy,
)
from reference.pods.quantity import milli_value, quantity, value
from reference.releases import AnyRelease, has

_Number = TypeVar("_Number", int, Fraction)
_BLANK: Final = Container("")

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"

#: By priority, the classes of critical pods.
PRIORITY_CLASSES: Final = {
    NODE_CRITICAL: "system-node-critical",
    CLUSTER_CRITICAL: "system-cluster-critical",
}


def cpu_request(owner: Container | PodResources) -> Fraction:
    """The cpu request of a container or of a pod as a whole."""
    return _amount(owner.requested_cpu)


def memory_request(owner: Container | PodResources) -> Fraction:
    """The memory request, as :func:`cpu_request`."""
    return _amount(owner.requested_memory)


@lru_cache(maxsize=4096)
def _huge_pages(amounts: tuple[tuple[str, str], ...]) -> Mapping[str, int]:
    return {f"hugepages-{size}": value(quantity(text)) for size, text in sorted(amounts)}


def huge_pages(container: Container) -> Mapping[str, int]:
    """The bytes of huge pages that a container requests, by the name of the resource."""
    return _huge_pages(container.huge_pages)


def _amount(text: str | None) -> Fraction:
    return Fraction(0) if text is None else quantity(text)


def as_judged(pod: Pod, *, release: AnyRelease) -> Pod:
    """The pod by which its QoS class is judged: up to 1.15 without its init containers."""
    if has(release, Behaviour.INIT_CONTAINERS_DECIDE_QOS):
        return pod
    apps = tuple(one for one in pod.containers if one.kind is Kind.APP)
    return pod if apps == pod.containers else replace(pod, containers=apps)


@lru_cache(maxsize=4096)
def qos_class(pod: Pod) -> str:
    """``"Guaranteed"``, ``"Burstable"`` or ``"BestEffort"``. Every container counts, init
    containers too; a quantity of zero counts as absent. Where the pod asks for resources as a
    whole (as decoded: :func:`reference.pods.pod_level_resources.as_decoded`), these alone count."""
    return _class_of(pod.containers if pod.resources is None else [pod.resources])


def _class_of(owners: Sequence[Container | PodResources]) -> str:
    requests = _totals((cpu_request(one), memory_request(one)) for one in owners)
    limits = _totals((_amount(one.cpu_limit), _amount(one.memory_limit)) for one in owners)
    if not any(requests) and not any(limits):
        return BEST_EFFORT
    limited = all(_amount(one.cpu_limit) > 0 and _amount(one.memory_limit) > 0 for one in owners)
    return GUARANTEED if limited and requests == limits else BURSTABLE


def _totals(amounts: Iterable[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    cpu, memory = Fraction(0), Fraction(0)
    for more_cpu, more_memory in amounts:
        cpu += more_cpu
        memory += more_memory
    return cpu, memory


def exclusive_cpus(pod: Pod, container: Container) -> int:
    """How many CPUs the static policy gives this container for itself: its cpu request where the
    pod is Guaranteed and the request a whole number, else 0."""
    return whole_cpus(container.requested_cpu) if qos_class(pod) == GUARANTEED else 0


@lru_cache(maxsize=4096)
def whole_cpus(text: str | None) -> int:
    """``isIntegralCPUAmount``: the quantity, if it is a whole number, else 0."""
    amount = _amount(text)
    whole = value(amount)
    return whole if whole * 1000 == milli_value(amount) else 0


@lru_cache(maxsize=4096)
def pod_milli_cpus(pod: Pod) -> int:
    """The pod's cpu request in thousandths, as the node predicates count it: app containers and
    sidecars together, or an init container with the sidecars before it where that is more. A
    request of the pod as a whole replaces that."""
    if pod.resources is not None and pod.resources.cpu_request is not None:
        return milli_value(cpu_request(pod.resources))
    return total_request(pod, lambda one: milli_value(cpu_request(one)))


def pod_memory(pod: Pod) -> Fraction:
    """The pod's memory request in bytes, as :func:`pod_milli_cpus`."""
    if pod.resources is not None and pod.resources.memory_request is not None:
        return memory_request(pod.resources)
    return total_request(pod, memory_request)


def total_request(pod: Pod, of: Callable[[Container], _Number]) -> _Number:
    """What its containers need of something at once (``AggregateContainerRequests``)."""
    zero = of(_BLANK)
    steady = sum((of(one) for one in pod.containers if one.kind is not Kind.INIT), zero)
    sidecars, peak = zero, zero
    for one in pod.containers:
        if one.kind is Kind.SIDECAR:
            sidecars += of(one)
        elif one.kind is Kind.INIT:
            peak = max(peak, sidecars + of(one))
    return max(steady, peak)


def pod_text(pod: Pod) -> str:
    """A pod as ``Guaranteed pod a (init c1: 2 CPUs; c2: 500m)``."""
    inside = "; ".join(_container_text(container) for container in pod.containers)
    if pod.resources == PodResources():
        # Which class such a pod is of depends on the release.
        return f"pod {pod.name} (in all nothing named; {inside})"
    if pod.resources is not None:
        inside = f"in all {_cpu_text(pod.resources)}; {inside}"
    for kind, named in (("label", pod.labels), ("annotation", pod.annotations)):
        inside += "".join(f"; {kind} {key}={value}" for key, value in named)
    if pod.restart_policy is not RestartPolicy.ALWAYS:
        inside += f"; restart policy {pod.restart_policy.value}"
    if pod.critical:
        inside += f"; {PRIORITY_CLASSES.get(pod.priority, 'critical')}"
    elif pod.priority:
        inside += f"; priority {pod.priority}"
    return f"{qos_class(pod)} pod {pod.name} ({inside})"


def _container_text(container: Container) -> str:
    kind = "" if container.kind is Kind.APP else f"{container.kind.value} "
    codes = ", ".join(map(str, container.restarts_all_on))
    rule = f", restarts all on exit code {codes}" if codes else ""
    devices = "".join(f", {count} {resource}" for resource, count in container.devices)
    devices += "".join(f", {amount} of hugepages-{size}" for size, amount in container.huge_pages)
    own = f", restart policy {policy.value}" if (policy := container.restart_policy) else ""
    what = " and ".join(container.resize_restarts)
    restarts = f", restarts at a resize of its {what}" if what else ""
    return f"{kind}{container.name}: {_cpu_text(container)}{devices}{own}{rule}{restarts}"


def _cpu_text(owner: Container | PodResources) -> str:
    request, limit = owner.cpu_request, owner.cpu_limit
    if request is None and limit is None:
        return "no cpu request"
    if request in (None, limit):
        return f"{limit} CPU" if request is not None else f"cpu limit {limit}"
    if limit is None:
        return f"cpu request {request}"
    return f"cpu request {request}, limit {limit}"
