"""The shared pool: what leaves it, what stays, what comes back."""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, guaranteed
from conformance.scenario import Capability, Level, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.outcomes import take
from reference import CPUSet
from reference.steps import Container, Pod

_pool: Final = partial(promised, area="pool")
_core: Final = partial(_pool, level=Level.CORE)


@_core(sources.TASK_PAGE, since="1.9", capabilities=[Capability.CPUSETS])
def shrinks_and_grows(node: LockstepNode) -> None:
    """Running shared containers follow the shared pool as it shrinks and grows.
    A shared container leaves CPUs that become exclusive, and gets them back."""
    whole = node.boot().shared_pool
    node.apply(best_effort("shared"))
    taken = take(node, "a", 1)
    node.promise_cpuset("The shared container has left the exclusive CPUs", "shared", whole - taken)
    node.delete("a", passing=True)
    node.promise_cpuset("The shared container has the CPUs back", "shared", whole)


@_core(sources.RESERVED_CPUS, since="1.9", capabilities=[Capability.CPUSETS])
def reserved_cpus_stay(node: LockstepNode) -> None:
    """Reserved CPUs are never exclusive, and shared containers may run on them.
    With every other CPU taken, the shared pool is the reserved CPUs."""
    node.boot_with(best_effort("shared"))
    node.run(guaranteed("a", len(node.free)))
    rest = node.cpus - node.reserved
    node.promise_taken("Every CPU but the reserved ones is exclusive", "a", rest)
    node.promise_cpuset("Shared containers run on the reserved CPUs", "shared", node.reserved)


@_core(sources.KEP, since="1.9", needs=Needs(free=3))
def exclusive_sets_are_disjoint(node: LockstepNode) -> None:
    """No CPU is exclusive to two containers.
    Pods of different sizes, until the machine is full."""
    node.boot()
    held = CPUSet()
    for name, count in (("a", 1), ("b", len(node.free) - 2), ("c", 1)):
        node.apply(guaranteed(name, count))
        taken = node.taken(name)
        rule, what = "The CPUs belong to no other container", f"exclusive CPUs {name}/c"
        node.promise_cpus(rule, f"{what} that others hold", CPUSet(), taken & held)
        held |= taken
    node.promise_cpus("No free CPU is left", "free CPUs", CPUSet(), node.free)


@_core(sources.STALE_STATE, since="1.9", needs=Needs(free=2))
def deletion_returns_cpus(node: LockstepNode) -> None:
    """The CPUs of a deleted pod return to the shared pool and can be taken again.
    An equal pod then gets the same CPUs."""
    whole = node.boot().shared_pool
    first = take(node, "a", 2)
    node.delete("a", passing=True)
    node.promise_pool("The pool is whole again", whole)
    node.apply(guaranteed("b", 2))
    node.promise_taken("An equal pod gets the same CPUs", "b", first)


@_core(sources.KEP, since="1.9", needs=Needs(free=3), capabilities=[Capability.CPUSETS])
def deletion_keeps_others(node: LockstepNode) -> None:
    """When a pod is deleted, the other pods keep their CPUs.
    The next pod takes the CPUs that became free. Pods that run keep theirs."""
    node.boot()
    for name in ("a", "b"):
        node.apply(guaranteed(name, 1))
    kept = node.taken("b")
    node.delete("a")
    node.promise_taken("The other pod's CPUs stay", "b", kept)
    node.promise_cpuset("It runs where it ran", "b", kept)


@_pool(sources.PENDING_ADMISSION, since="1.22", until="1.31")
def last_admitted_is_freed_late(node: LockstepNode) -> None:
    """The CPUs of the pod admitted last are freed by the next admission, not by its deletion.
    A known defect: the kubelet's clean-up skips the pod that was admitted last. It also skips
    this pod after its deletion, until another pod is admitted."""
    whole = node.boot().shared_pool
    taken = take(node, "a", 1)
    node.delete("a")
    node.promise_pool("The CPUs are still out of the pool", whole - taken)
    node.apply(best_effort("b"))
    node.promise_pool("The next admission returns them", whole)


@_pool(sources.TASK_PAGE, since="1.9", needs=Needs(free=2), capabilities=[Capability.CPUSETS])
def every_shared_container_follows(node: LockstepNode) -> None:
    """All shared containers of a pod follow the shared pool, not the first alone.
    Three of one pod, and one beside an exclusive container."""
    names = ("one", "two", "three")
    node.boot_with(Pod("shared", tuple(map(Container, names))))
    node.apply(guaranteed("mixed", 1, "500m"))
    for step in ("taken", "returned"):
        if step == "returned":
            node.delete("mixed", passing=True)
        node.promise_on_pool(f"CPUs were {step}, and it runs on the pool", "shared", *names)
