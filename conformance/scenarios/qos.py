"""Who gets exclusive CPUs: the pods of the official task page."""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, burstable, guaranteed
from conformance.scenario import Capability, Level, Needs, scenario
from conformance.scenarios.sources import TASK_PAGE
from reference import CPUSet
from reference.steps import Container, Pod

_of_task_page: Final = partial(
    scenario,
    source=TASK_PAGE,
    since="1.9",
    capabilities=[Capability.CPUSETS, Capability.REJECTIONS],
)


def _applied(node: LockstepNode, pod: Pod, qos: str) -> CPUSet:
    """Promise that the pod runs, and its QoS class; the shared pool before it came."""
    before = node.boot().shared_pool
    status = node.run(pod)
    node.promise_equal(f"The pod is {qos}", f"QoS class of pod {pod.name}", qos, status.qos)
    return before


def _shares(node: LockstepNode, pod: Pod, qos: str) -> None:
    before = _applied(node, pod, qos)
    taken, cpuset = node.taken(pod.name), node.cpuset(pod.name)
    node.promise_cpus("The container gets no exclusive CPUs", "exclusive CPUs", CPUSet(), taken)
    node.promise_pool("The shared pool keeps all its CPUs", before)
    node.promise_cpus("The container runs in the shared pool", "cpuset", before, cpuset)


def _owns(node: LockstepNode, pod: Pod, count: int) -> None:
    before = _applied(node, pod, "Guaranteed")
    taken = node.taken(pod.name)
    rule = "The container gets as many exclusive CPUs as it requests"
    node.promise_equal(rule, "number of exclusive CPUs", count, len(taken))
    node.promise_cpus("It runs on just these", "cpuset", taken, node.cpuset(pod.name))
    node.promise_pool("They have left the shared pool", before - taken)


@_of_task_page(
    "qos/best-effort-shares", "A BestEffort pod runs in the shared pool", level=Level.CORE
)
def best_effort_shares(node: LockstepNode) -> None:
    """The task page's first pod: no requests and no limits."""
    _shares(node, best_effort("a"), "BestEffort")


@_of_task_page(
    "qos/memory-alone-shares",
    "A Burstable pod that requests memory alone runs in the shared pool",
    level=Level.CORE,
)
def memory_alone_shares(node: LockstepNode) -> None:
    """The task page's second pod: a memory request below its limit, no cpu."""
    _shares(node, burstable("a"), "Burstable")


@_of_task_page(
    "qos/burstable-cpu-shares",
    "A Burstable pod with a whole-CPU limit runs in the shared pool",
    level=Level.CORE,
)
def burstable_cpu_shares(node: LockstepNode) -> None:
    """The task page's third pod: cpu request 1, limit 2."""
    _shares(node, burstable("a", request="1", limit="2"), "Burstable")


@_of_task_page(
    "qos/whole-cpus-are-exclusive",
    "A Guaranteed pod with a whole-number CPU request gets exclusive CPUs",
    level=Level.CORE, needs=Needs(free=2),
)  # fmt: skip
def whole_cpus_are_exclusive(node: LockstepNode) -> None:
    """The task page's fourth pod: requests equal limits, 2 CPUs."""
    _owns(node, guaranteed("a", 2), 2)


@_of_task_page(
    "qos/fraction-shares",
    "A Guaranteed pod with a fractional CPU request runs in the shared pool",
    level=Level.CORE, needs=Needs(free=2),
)  # fmt: skip
def fraction_shares(node: LockstepNode) -> None:
    """The task page's fifth pod: requests equal limits, 1.5 CPUs."""
    _shares(node, guaranteed("a", "1500m"), "Guaranteed")


@_of_task_page(
    "qos/limits-alone-are-exclusive",
    "A pod that states whole-number limits alone is Guaranteed and gets exclusive CPUs",
    level=Level.CORE, needs=Needs(free=2),
)  # fmt: skip
def limits_alone_are_exclusive(node: LockstepNode) -> None:
    """The task page's sixth pod: limits without requests, 2 CPUs."""
    pod = Pod("a", (Container("c", cpu_limit="2", memory_limit="64Mi"),))
    _owns(node, pod, 2)


@_of_task_page("qos/1000m-is-a-whole-cpu", "A request of 1000m is a whole CPU, and exclusive")
def _1000m_is_a_whole_cpu(node: LockstepNode) -> None:
    """Whether a request is whole is a matter of its value, not of how it is written."""
    _owns(node, guaranteed("a", "1000m"), 1)
