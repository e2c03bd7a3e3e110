"""Who gets exclusive CPUs: the pods of the official task page."""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, burstable, guaranteed
from conformance.scenario import Capability, Level, Needs
from conformance.scenarios.entering import row
from conformance.scenarios.sources import TASK_PAGE
from reference import CPUSet
from reference.steps import Container, Pod

_row: Final = partial(
    row,
    level=Level.CORE,
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


_row(
    "qos/best-effort-shares",
    "A BestEffort pod runs in the shared pool",
    "The task page's first pod: no requests and no limits.",
    lambda node: _shares(node, best_effort("a"), "BestEffort"),
)
_row(
    "qos/memory-alone-shares",
    "A Burstable pod that requests memory alone runs in the shared pool",
    "The task page's second pod: a memory request below its limit, no cpu.",
    lambda node: _shares(node, burstable("a"), "Burstable"),
)
_row(
    "qos/burstable-cpu-shares",
    "A Burstable pod with a whole-CPU limit runs in the shared pool",
    "The task page's third pod: cpu request 1, limit 2.",
    lambda node: _shares(node, burstable("a", request="1", limit="2"), "Burstable"),
)
_row(
    "qos/whole-cpus-are-exclusive",
    "A Guaranteed pod with a whole-number CPU request gets exclusive CPUs",
    "The task page's fourth pod: requests equal limits, 2 CPUs.",
    lambda node: _owns(node, guaranteed("a", 2), 2),
    needs=Needs(free=2),
)
_row(
    "qos/fraction-shares",
    "A Guaranteed pod with a fractional CPU request runs in the shared pool",
    "The task page's fifth pod: requests equal limits, 1.5 CPUs.",
    lambda node: _shares(node, guaranteed("a", "1500m"), "Guaranteed"),
    needs=Needs(free=2),
)
_row(
    "qos/limits-alone-are-exclusive",
    "A pod that states whole-number limits alone is Guaranteed and gets exclusive CPUs",
    "The task page's sixth pod: limits without requests, 2 CPUs.",
    lambda node: _owns(node, Pod("a", (Container("c", cpu_limit="2", memory_limit="64Mi"),)), 2),
    needs=Needs(free=2),
)
_row(
    "qos/1000m-is-a-whole-cpu",
    "A request of 1000m is a whole CPU, and exclusive",
    "Whether a request is whole is a matter of its value, not of how it is written.",
    lambda node: _owns(node, guaranteed("a", "1000m"), 1),
    level=Level.EXTENDED,
)
