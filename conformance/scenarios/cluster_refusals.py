"""Pods from an API server that are refused: such a pod is not critical, as a static pod is."""

from __future__ import annotations

from dataclasses import replace

from conformance.lockstep import LockstepNode
from conformance.pods import burstable, guaranteed
from conformance.scenario import Needs, promised
from conformance.scenarios.abilities import API_SERVER, REJECTIONS
from conformance.scenarios.sources import code
from reference.view import Phase

_ADMISSION = code(
    "1.36.4",
    "pkg/kubelet/lifecycle/predicate.go",
    "the node predicates that a kubelet checks at admission",
)


@promised(
    _ADMISSION, area="admission", since="1.22", needs=Needs(free=4, counted_once=True),
    capabilities=(*API_SERVER, *REJECTIONS),
)  # fmt: skip
def out_of_cpu_is_named(node: LockstepNode) -> None:
    """A pod of a cluster that requests more CPU than is left is refused, and the three numbers
    said.
    A Burstable pod, which needs no exclusive CPU, and one CPU more than is left. Nobody is put
    out in its favour. The pod before it keeps its CPUs, and the next one gets all the others."""
    node.boot_with(guaranteed("a", 2), config=replace(node.default_config(), api_server=True))
    held, left, capacity = node.taken("a"), len(node.free), len(node.cpus) - len(node.reserved)
    status = node.apply(burstable("large", request=str(left + 1)))
    node.promise_equal("It is rejected", "phase of pod large", Phase.REJECTED, status.phase)
    node.promise_equal("The reason is named", "reason", "OutOfcpu", status.reason)
    text = (
        "Node didn't have enough resource: cpu, "
        f"requested: {left + 1}000, used: 2000, capacity: {capacity}000"
    )
    rule, said = "It says what is requested, used and there", status.message
    node.promise_that(said.endswith(text), rule, "message", f"… {text}", said)
    node.promise_cpus("The first pod keeps its CPUs", "a/c", held, node.taken("a"))
    node.apply(guaranteed("fits", left))
    node.promise_equal("The next has its CPUs", "size of fits/c", left, len(node.taken("fits")))
