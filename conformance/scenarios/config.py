"""The kubelet's configuration: policies and reservations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, burstable, guaranteed
from conformance.scenario import Capability, Level, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import REJECTIONS, START_ERROR
from conformance.scenarios.entering import refused
from conformance.scenarios.outcomes import promise_running
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.steps import KubeletConfig
from reference.view import Phase

_config: Final = partial(promised, area="config")
_core: Final = partial(_config, level=Level.CORE)

_NO_RESERVATION = "[cpumanager] unable to determine reserved CPU resources for static policy"


@_core(sources.TASK_PAGE, since="1.8", capabilities=START_ERROR)
def zero_reservation_is_refused(node: LockstepNode) -> None:
    """The static policy with a CPU reservation of zero keeps the kubelet from starting.
    Without a reservation the shared pool could become empty. The kubelet drops an amount of zero
    before the policy sees it, so its error is the one for a missing amount."""
    node.boot(KubeletConfig(system_reserved="0"))
    node.promise_refusal(_NO_RESERVATION)


refused(
    "config/missing-reservation-is-refused",
    "The static policy without any CPU reservation keeps the kubelet from starting",
    sources.TASK_PAGE,
    "Without a setting no CPU is reserved.",
    lambda node: KubeletConfig(),
    _NO_RESERVATION,
    since="1.8",
)  # fmt: skip


@_core(sources.TASK_PAGE, since="1.9", needs=Needs(free=2, even=True))
def reservation_by_amount(node: LockstepNode) -> None:
    """Amounts reserved for the system and for Kubernetes add up and are rounded up to whole CPUs.
    600m and 500m reserve two CPUs, whichever the kubelet chooses."""
    node.boot(KubeletConfig(system_reserved="600m", kube_reserved="500m"))
    node.apply(guaranteed("a", len(node.cpus) - 2))
    rest, taken, left = len(node.cpus) - 2, len(node.taken("a")), len(node.view.shared_pool)
    node.promise_equal(
        "All CPUs but two can become exclusive", "number of CPUs of a/c", rest, taken
    )
    node.promise_equal("Two stay in the shared pool", "size of the pool", 2, left)
    node.apply(guaranteed("b", 1))
    node.promise_taken("Neither becomes exclusive", "b", CPUSet())


@_config(
    sources.RESERVING,
    since="1.17",
    needs=Needs(free=2, counted_once=True),
    capabilities=REJECTIONS,
)
def amounts_count_to_the_thousandth(node: LockstepNode) -> None:
    """Shared pods may request all but the reserved amounts, to the thousandth of a CPU.
    600m and 500m keep two whole CPUs from being exclusive, and 1100m from being requested. A pod
    that requests a thousandth more than is left is refused; one with just that runs."""
    node.boot(KubeletConfig(system_reserved="600m", kube_reserved="500m"))
    left = 1000 * len(node.cpus) - 1100
    node.apply(burstable("most", request=f"{left - 1}m"))
    promise_running(node, "most")
    phase = node.apply(burstable("more", request="2m")).phase
    node.promise_equal("A thousandth is missing", "phase of pod more", Phase.REJECTED, phase)
    node.apply(burstable("last", request="1m"))
    promise_running(node, "last")


@_core(sources.RESERVED_CPUS, since="1.17", needs=Needs(free=2, even=True))
def reservation_by_list(node: LockstepNode) -> None:
    """An explicit list of reserved CPUs is reserved, whatever its place in the topology.
    The highest CPU rather than the lowest ones. Stated for machines whose cores are of one
    size: on others the kubelet is known to hand out reserved CPUs (pull request 140498)."""
    reserved = CPUSet([max(node.reservable)])
    node.boot(KubeletConfig(reserved_system_cpus=reserved))
    node.apply(guaranteed("a", len(node.cpus) - 1))
    node.promise_pool("Just the listed CPU stays in the pool", reserved)


@_core(sources.NONE_POLICY, since="1.8", needs=Needs(free=2), capabilities=[Capability.CPUSETS])
def none_policy_pins_nothing(node: LockstepNode) -> None:
    """Under the none policy no container gets exclusive CPUs or a cpuset.
    Guaranteed and BestEffort pods alike run wherever the scheduler puts them."""
    node.boot(KubeletConfig(policy="none", reserved_system_cpus=node.reserved))
    node.apply(guaranteed("a", 2))
    node.apply(best_effort("b"))
    for name in ("a", "b"):
        seen = node.view.cpusets.get(name, {}).get("c", "(not running)")
        node.promise_equal("The container has no cpuset", f"cpuset {name}/c", None, seen)
    node.promise_equal("No CPU is assigned", "assignments", {}, dict(node.view.assignments))


refused(
    "config/unknown-policy-is-refused",
    "A policy that does not exist keeps the kubelet from starting",
    sources.TASK_PAGE,
    "A typing error must not become the none policy.",
    lambda node: KubeletConfig(policy="statik", reserved_system_cpus=node.reserved),
    'unknown policy: "statik"',
    level=Level.CORE, since="1.16",
)  # fmt: skip


@_core(sources.TASK_PAGE, needs=Needs(free=2))
def reserved_amounts_are_kept(node: LockstepNode) -> None:
    """A request that leaves fewer CPUs than were reserved by amount is rejected.
    600m for the system and 500m for Kubernetes make two CPUs, so one CPU more than the rest is
    too much."""
    whole = node.boot(KubeletConfig(system_reserved="600m", kube_reserved="500m")).shared_pool
    node.apply(guaranteed("a", len(node.cpus) - 1))
    node.promise_taken("The pod gets no CPU", "a", CPUSet())
    node.promise_pool("The pool is whole", whole)


@_config(sources.MILLIONTHS, needs=Needs(free=2, even=True), capabilities=[Capability.RESERVATION])
def reservation_of_millionths(node: LockstepNode) -> None:
    """A reservation is rounded to the nearest thousandth from 1.37 on, and before up.
    1.0004 CPUs are 1001 thousandths before, which reserve two CPUs, and then 1000, which reserve
    one. The container manager rounds in 1.37, so a CPU manager alone cannot show it."""
    node.boot(KubeletConfig(system_reserved="1000400u"))
    kept = 1 if node.release_has(Behaviour.RESERVATION_TO_NEAREST_MILLI) else 2
    node.apply(guaranteed("a", len(node.cpus) - kept))
    taken = len(node.taken("a"))
    node.promise_equal("The rest is given", "size of a/c", len(node.cpus) - kept, taken)
    node.apply(guaranteed("b", 1))
    node.promise_cpus("The reserved CPUs are kept", "CPUs of b/c", CPUSet(), node.taken("b"))


@_config(sources.TASK_PAGE, capabilities=START_ERROR)
def reservation_that_is_no_quantity_is_refused(node: LockstepNode) -> None:
    """A cpu reservation that is not a quantity keeps the kubelet from starting.
    From 1.27 on the error names the setting."""
    node.boot(KubeletConfig(system_reserved="two"))
    named = node.release_has(Behaviour.RESERVATION_FLAG_NAMED)
    setting = ["--system-reserved value failed to parse: "] if named else []
    node.promise_refusal("quantities must match the regular expression", *setting)


@_config(sources.TASK_PAGE, needs=Needs(free=2))
def kube_reserved_counts(node: LockstepNode) -> None:
    """An amount reserved for Kubernetes alone is reserved, rounded up to whole CPUs.
    1001m reserve two CPUs."""
    node.boot(KubeletConfig(kube_reserved="1001m"))
    node.apply(guaranteed("a", len(node.cpus) - 1))
    node.promise_taken("Two CPUs are kept", "a", CPUSet())
    node.pass_admission()
    node.apply(guaranteed("b", len(node.cpus) - 2))
    left = len(node.view.shared_pool)
    node.promise_equal("Two are left in the pool", "size of the pool", 2, left)


@_core(sources.EXPLICIT_OVER_AMOUNTS, since="1.17", needs=Needs(free=2, even=True))
def list_wins_over_amounts(node: LockstepNode) -> None:
    """Where CPUs are reserved by list and by amount, the list alone counts.
    The amounts would reserve a CPU more."""
    reserved = CPUSet([max(node.reservable)])
    amounts = KubeletConfig(system_reserved="1", kube_reserved="1")
    node.boot(replace(amounts, reserved_system_cpus=reserved))
    node.apply(guaranteed("a", len(node.cpus) - 1))
    node.promise_pool("Just the listed CPU stays in the pool", reserved)


@_core(sources.TASK_PAGE, capabilities=START_ERROR)
def reservation_larger_than_the_machine_is_refused(node: LockstepNode) -> None:
    """A reservation of more CPUs than the machine has keeps the kubelet from starting.
    By one CPU."""
    more, text = len(node.cpus) + 1, "unable to reserve the required amount of CPUs"
    node.boot(KubeletConfig(system_reserved=str(more)))
    node.promise_refusal(f"[cpumanager] {text} (size of  did not equal {more})")


@_core(sources.RESERVED_CPUS, machine="1s-1n-4c-smt2")
def reserved_cores_are_whole(node: LockstepNode) -> None:
    """Of CPUs reserved by amount the kubelet takes the lowest physical cores whole.
    Two CPUs of eight, with siblings 0 and 4: these two are left when all others are taken."""
    node.boot_with(guaranteed("a", 6), config=KubeletConfig(system_reserved="2"))
    node.promise_pool("CPUs 0 and 4 stay", CPUSet([0, 4]))


@_core(sources.RESERVED_CPUS, capabilities=START_ERROR)
def reserved_cpu_that_is_missing_is_refused(node: LockstepNode) -> None:
    """A reserved CPU that the machine does not have keeps the kubelet from starting.
    By number, one beyond the last."""
    missing = max(node.cpus) + 1
    node.boot(KubeletConfig(reserved_system_cpus=CPUSet([min(node.cpus), missing])))
    node.promise_refusal(str(missing))
