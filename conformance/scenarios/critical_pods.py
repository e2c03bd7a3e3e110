"""Critical pods from an API server: a kubelet that lacks room for one puts other pods out."""

from __future__ import annotations

from dataclasses import replace

from conformance.lockstep import LockstepNode
from conformance.pods import burstable, guaranteed
from conformance.scenario import Needs, promised
from conformance.scenarios.abilities import REJECTIONS, RESIZES
from conformance.scenarios.sources import code
from reference.pods.pod import NODE_CRITICAL
from reference.steps import KubeletConfig, Pod
from reference.view import Phase

_PREEMPTION = code(
    "1.36.4",
    "pkg/kubelet/preemption/preemption.go",
    "which pods make room for a critical one, the fewest and the least",
)
_ABLE = (*RESIZES, *REJECTIONS)


def _critical(pod: Pod) -> Pod:
    return replace(pod, priority=NODE_CRITICAL)


def _in_cluster(node: LockstepNode) -> KubeletConfig:
    return replace(node.default_config(), api_server=True)


def _promise_put_out(node: LockstepNode, pod: str) -> None:
    view = node.view.pods[pod]
    node.promise_equal("The pod is put out", f"phase of pod {pod}", Phase.REJECTED, view.phase)
    node.promise_equal("The reason is named", "reason", "Preempting", view.reason)


@promised(
    _PREEMPTION, area="admission", since="1.32", capabilities=_ABLE,
    needs=Needs(free=6, counted_once=True),
)  # fmt: skip
def exclusive_cpus_of_a_pod_that_is_put_out_are_shared(node: LockstepNode) -> None:
    """The CPUs of a pod that is put out for a critical one are shared again.
    Pods a and b have one CPU and two, and the critical Burstable pod asks for two CPUs more than
    are left. Pod b alone makes room for it. Its two CPUs join the shared pool, on which the
    critical pod runs. Pod a keeps its CPU. After a restart of the kubelet all is as it was."""
    node.boot_with(guaranteed("a", 1), guaranteed("b", 2), config=_in_cluster(node))
    kept, freed, pool = node.taken("a"), node.taken("b"), node.view.shared_pool
    node.apply(_critical(burstable("critical", request=str(len(node.free) + 2))))
    _promise_put_out(node, "b")
    for when in ("", "after a restart: "):
        ended = node.view.pods["b"].phase
        node.promise_equal(f"{when}It does not run", "phase of pod b", Phase.REJECTED, ended)
        node.promise_pool(f"{when}Its CPUs are shared", pool | freed)
        node.promise_on_pool(f"{when}The critical pod is on the pool", "critical", "c")
        node.promise_taken(f"{when}The first pod keeps its CPU", "a", kept)
        if not when:
            node.restart()


@promised(
    _PREEMPTION, area="admission", since="1.26", capabilities=_ABLE,
    needs=Needs(free=6, counted_once=True),
)  # fmt: skip
def burstable_pods_are_put_out_first(node: LockstepNode) -> None:
    """A critical pod with exclusive CPUs puts a Burstable pod out, and no Guaranteed one.
    A Guaranteed pod has two CPUs, and a Burstable one requests all that is left but one. The
    critical pod asks for two, and two CPUs are shared by the Burstable pod alone. It gets them,
    the Guaranteed pod keeps its own, and the Burstable one is put out."""
    node.boot_with(guaranteed("a", 2), config=_in_cluster(node))
    kept, left = node.taken("a"), len(node.free)
    node.apply(burstable("shared", request=str(left - 1)))
    node.apply(_critical(guaranteed("critical", 2)))
    _promise_put_out(node, "shared")
    node.promise_taken("The Guaranteed pod keeps its CPUs", "a", kept)
    held = node.taken("critical")
    node.promise_equal("The critical pod has its CPUs", "size of critical/c", 2, len(held))
    node.promise_cpus("None of them is another's", "shared by a and critical", kept - held, kept)


@promised(
    _PREEMPTION, area="admission", since="1.26", capabilities=_ABLE,
    needs=Needs(free=4, counted_once=True),
)  # fmt: skip
def a_critical_pod_without_exclusive_cpus_is_refused(node: LockstepNode) -> None:
    """A critical pod for which too few CPUs are free is refused, and no pod is put out.
    One pod has all CPUs but one, and the critical pod asks for two. The CPU manager is asked
    before the node predicates, in whose failure alone pods are put out. The pod that holds the
    CPUs goes on."""
    node.boot_with(config=_in_cluster(node))
    size = len(node.free) - 1
    node.apply(guaranteed("a", size))
    kept = node.taken("a")
    status = node.apply(_critical(guaranteed("critical", 2)))
    node.promise_equal("It is rejected", "phase of critical", Phase.REJECTED, status.phase)
    rule, said = "It says that CPUs are lacking", status.message
    lacking = "not enough cpus available to satisfy request"
    node.promise_that(lacking in said, rule, "message", f"… {lacking}", said)
    node.promise_taken("The other pod keeps its CPUs", "a", kept)
