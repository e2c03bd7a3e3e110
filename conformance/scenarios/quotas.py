"""CFS quotas of containers with exclusive CPUs."""

from __future__ import annotations

from conformance.lockstep import LockstepNode
from conformance.needs import Needs
from conformance.pods import guaranteed
from conformance.scenario import scenario
from conformance.scenarios.containers import QUOTA_GATE
from conformance.subject import Capability


@scenario(
    "containers/quotas-end-at-exclusive-cpus",
    "A container with exclusive CPUs has no CFS quota, and one beside it has that of its limit",
    QUOTA_GATE,
    since="1.33",
    needs=Needs(free=2),
    capabilities=[Capability.CPUSETS, Capability.CFS],
)
def quotas_end_at_exclusive_cpus(node: LockstepNode) -> None:
    """A quota would throttle what has its CPUs alone. Each container is judged by itself, the pod
    is Guaranteed as a whole."""
    node.boot()
    node.apply(guaranteed("mixed", 1, "1500m"))
    node.promise_equal(
        "Who has exclusive CPUs has no quota", "CFS quota of mixed/c1", None,
        node.quota("mixed", "c1"),
    )  # fmt: skip
    node.promise_equal(
        "Who shares has the quota of its limit", "CFS quota of mixed/c2", 150_000,
        node.quota("mixed", "c2"),
    )  # fmt: skip
