"""What is refused, and what several containers of a pod get."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Level, Needs, promised
from conformance.scenarios.abilities import REJECTIONS
from conformance.scenarios.entering import core
from conformance.scenarios.outcomes import promise_rejected
from conformance.scenarios.sources import INIT_CONTAINERS, KEP, SIDECARS, STALE_STATE, TASK_PAGE
from reference import CPUSet
from reference.steps import PRODUCTION_PERIOD, Kind
from reference.view import Phase

_admission: Final = partial(promised, area="admission")
_core: Final = partial(_admission, level=Level.CORE)


@_core(KEP, since="1.29", capabilities=REJECTIONS)
def too_large_is_rejected(node: LockstepNode) -> None:
    """A request larger than what is free is rejected with its reason, and takes nothing.
    The message names what was requested and what was available."""
    node.boot()
    whole, free = node.view.shared_pool, len(node.free)
    status = node.apply(guaranteed("a", free + 1))
    promise_rejected(node, status, "UnexpectedAdmissionError")
    text = (
        "Pod was rejected: Allocate failed due to not enough cpus available to satisfy request: "
        f"requested={free + 1}, available={free}, which is unexpected"
    )
    node.promise_equal("The message has both numbers", "message", text, status.message)
    node.promise_pool("The shared pool is as before", whole)


@_core(KEP, since="1.9", capabilities=REJECTIONS)
def all_free_cpus_are_assigned(node: LockstepNode) -> None:
    """A request for all that is free is admitted, and the next one is rejected.
    The first pod is left alone by the second's rejection."""
    node.boot()
    node.run(guaranteed("a", len(node.free)))
    held = node.taken("a")
    status = node.apply(guaranteed("b", 1))
    node.promise_equal("The next is rejected", "phase of pod b", Phase.REJECTED, status.phase)
    node.promise_taken("The first keeps its CPUs", "a", held)


@_core(TASK_PAGE, since="1.9", needs=Needs(free=4), capabilities=[Capability.CPUSETS])
def several_containers(node: LockstepNode) -> None:
    """Each container of a Guaranteed pod is judged on its own request.
    Two whole requests get exclusive CPUs, a fractional one shares."""
    node.boot_with(guaranteed("a", 1, 2, "500m"))
    one, two = node.taken("a", "c1"), node.taken("a", "c2")
    node.promise_equal("The first gets one CPU", "exclusive CPUs a/c1", 1, len(one))
    node.promise_equal("The second gets two", "exclusive CPUs a/c2", 2, len(two))
    node.promise_cpus("They share none", "CPUs of both", CPUSet(), one & two)
    node.promise_taken("The fractional one gets none", "a", CPUSet(), "c3")
    node.promise_cpuset("It runs in the shared pool", "a", node.cpus - one - two, "c3")


@_core(KEP, since="1.9", capabilities=REJECTIONS)
def rejection_returns_what_was_taken(node: LockstepNode) -> None:
    """A pod that is rejected at its second container leaves no CPU assigned.
    Its first container took all that was free before the second found nothing."""
    whole = node.boot().shared_pool
    status = node.apply(guaranteed("a", len(node.free), 1))
    node.promise_equal("The pod is rejected", "phase of pod a", Phase.REJECTED, status.phase)
    node.pass_admission()
    node.promise_pool("The pool is whole", whole)


@promised(INIT_CONTAINERS, area="init", level=Level.CORE, needs=Needs(free=2))
def app_reuses_init_cpus(node: LockstepNode) -> None:
    """An app container reuses the CPUs of its pod's init container.
    The pod holds no more CPUs than its larger part asks for."""
    whole = node.boot().shared_pool
    node.apply(guaranteed_of("a", [exclusive("setup", 2, kind=Kind.INIT), exclusive("main", 2)]))
    main = node.taken("a", "main")
    node.promise_cpus("Both have the same CPUs", "a/main", node.taken("a", "setup"), main)
    node.promise_cpus("No more have left the pool", "pool", whole - main, node.view.shared_pool)
    node.delete("a", passing=True)
    node.promise_pool("All return", whole)


@core(SIDECARS, area="init", since="1.29", needs=Needs(free=2), capabilities=[Capability.CPUSETS])
def sidecar_keeps_its_cpus(node: LockstepNode) -> None:
    """A sidecar keeps its exclusive CPUs beside its pod's app containers.
    A restartable init container runs on, so its CPUs are not reused."""
    node.boot()
    node.apply(guaranteed_of("a", [exclusive("side", 1, kind=Kind.SIDECAR), exclusive("main", 1)]))
    side, main = node.taken("a", "side"), node.taken("a", "main")
    node.promise_equal("The sidecar has its CPU", "number of CPUs of a/side", 1, len(side))
    node.promise_equal("The app has its CPU", "number of CPUs of a/main", 1, len(main))
    node.promise_cpus("They are not the same", "CPUs of both", CPUSet(), side & main)


@_admission(
    STALE_STATE, needs=Needs(free=2), capabilities=[Capability.REJECTIONS, Capability.CONFIGURE]
)
def cpus_are_free_right_after_a_deletion(node: LockstepNode) -> None:
    """A pod that comes right after a deletion gets the CPUs that became free, before any round.
    The default reconcile period is ten seconds, so the admission has to clear away what the
    deleted pod held. The second pod needs all of it."""
    node.boot(replace(node.default_config(), reconcile_period=PRODUCTION_PERIOD))
    free = node.free
    node.apply(guaranteed("first", len(free)))
    status = node.apply(guaranteed("second", len(free)), instead_of="first")
    node.promise_equal("The second pod runs", "phase of second", Phase.RUNNING, status.phase)
    node.promise_cpus("It has all that was free", "CPUs of second/c", free, node.taken("second"))
