"""What is refused before the CPU manager is asked."""

from __future__ import annotations

from conformance.lockstep import LockstepNode
from conformance.pods import burstable, guaranteed
from conformance.scenario import Needs, promised
from conformance.scenarios.abilities import REJECTIONS
from conformance.scenarios.sources import KEP
from reference import CPUSet
from reference.view import Phase


@promised(KEP, area="admission", needs=Needs(free=4, counted_once=True), capabilities=REJECTIONS)
def pod_beyond_the_node_is_refused(node: LockstepNode) -> None:
    """A static pod that requests more CPU than is left is refused, by as much as it is too large.
    A Burstable pod, which needs no exclusive CPU. A static pod is critical, so the kubelet looks
    for pods that it could put out in its favour, and finds none. The next pod is admitted."""
    node.boot_with(guaranteed("a", 2))
    left = len(node.free)
    status = node.apply(burstable("large", request=str(len(node.cpus) - len(node.reserved) - 1)))
    node.promise_equal("It is rejected", "phase of pod large", Phase.REJECTED, status.phase)
    reason = "UnexpectedAdmissionError"
    node.promise_equal("It is rejected at admission", "reason", reason, status.reason)
    missing = "no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]"
    words = "Unexpected error while attempting to recover from admission failure: preemption: error"
    said = status.message.partition("finding a set of pods to preempt: ")
    node.promise_that(words in said[0], "It says why", "message", f"… {words} …", said[0])
    node.promise_equal("One CPU is missing", "what is missing", missing, said[2])
    node.apply(guaranteed("fits", left))
    node.promise_equal("The next has its CPUs", "size of fits/c", left, len(node.taken("fits")))
    node.promise_cpus("The first keeps its own", "a/c", CPUSet(), node.taken("a") & node.free)
