"""Init containers and sidecars: whose CPUs they use, and what stays booked for them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Level, Needs, promised
from conformance.scenarios.abilities import CALLS, RESTARTED
from conformance.scenarios.sources import INIT_ADDS_CPUS, INIT_CONTAINERS, KEP, SIDECARS
from reference import CPUSet
from reference.steps import Container, Kind, Pod

_init: Final = partial(promised, area="init")
_core: Final = partial(_init, level=Level.CORE)


@_core(INIT_CONTAINERS, needs=Needs(free=4))
def app_containers_do_not_share_init_cpus(node: LockstepNode) -> None:
    """Of two app containers only the first reuses the CPUs of their pod's init container.
    What one app container has reused is not offered to the next one."""
    setup = exclusive("setup", 2, kind=Kind.INIT)
    node.boot_with(guaranteed_of("a", [setup, exclusive("first", 2), exclusive("second", 2)]))
    first, second = node.taken("a", "first"), node.taken("a", "second")
    node.promise_cpus("The first reuses the CPUs", "a/first", node.taken("a", "setup"), first)
    node.promise_equal("The second has its CPUs", "number of CPUs of a/second", 2, len(second))
    node.promise_cpus("They share no CPU", "CPUs of both", CPUSet(), first & second)


@_core(INIT_CONTAINERS, needs=Needs(free=4), capabilities=[Capability.CPUSETS])
def other_pods_stay_off_init_cpus(node: LockstepNode) -> None:
    """No other pod gets CPUs that an init container leaves to its own pod.
    The app container needs fewer CPUs than the init container had. What is left stays booked
    until the pod is deleted."""
    whole = node.boot().shared_pool
    node.apply(guaranteed_of("a", [exclusive("setup", 2, kind=Kind.INIT), exclusive("main", 1)]))
    booked = node.taken("a", "setup") | node.taken("a", "main")
    node.promise_cpus("The pool is without them", "pool", whole - booked, node.view.shared_pool)
    node.apply(guaranteed("b", 1))
    node.promise_equal("Pod b has its CPU", "number of CPUs of b/c", 1, len(node.taken("b")))
    node.promise_cpus("It is not one of pod a", "CPUs of both", CPUSet(), node.taken("b") & booked)
    node.delete("a", passing=True)
    node.promise_pool("All CPUs of a return", whole - node.taken("b"))


@_init(INIT_ADDS_CPUS, since="1.22", needs=Needs(smt=2, cores=3, even=True))
def init_container_adds_cpus_to_its_pod(node: LockstepNode) -> None:
    """An init container may book CPUs beyond what its pod requests.
    A known defect: the init container gets a whole physical core. The app container requests one
    CPU, and gets the sibling of the reserved CPU, because the kubelet takes single CPUs from a core
    that is partly used. The CPUs of the init container stay booked until the pod is deleted, so the
    pod books one CPU more than it requests."""
    reserved = CPUSet([min(node.cpus)])
    node.boot(replace(node.config, reserved_system_cpus=reserved))
    whole, core = node.view.shared_pool, node.topology.cpus_per_core
    node.apply(guaranteed_of("a", [exclusive("setup", core, kind=Kind.INIT), exclusive("main", 1)]))
    outside = node.taken("a", "main") - node.topology.with_siblings(reserved)
    rule = "The app container is on the core of the reserved CPU"
    node.promise_cpus(rule, "CPUs of a/main outside of that core", CPUSet(), outside)
    left = len(node.view.shared_pool)
    node.promise_equal("One CPU more is booked", "size of the pool", len(whole) - core - 1, left)
    node.delete("a", passing=True)
    node.promise_pool("All return with the pod", whole)


@_core(KEP, needs=Needs(free=4), capabilities=RESTARTED)
def restart_keeps_init_entries(node: LockstepNode) -> None:
    """A restart of the kubelet keeps the entries of init containers that have ended.
    Without the entry their CPUs would go to other pods."""
    node.boot()
    node.apply(guaranteed_of("a", [exclusive("setup", 2, kind=Kind.INIT), exclusive("main", 1)]))
    setup, before = node.taken("a", "setup"), node.view.state_file
    node.restart()
    node.promise_cpus("The entry is as before", "CPUs of a/setup", setup, node.taken("a", "setup"))
    node.promise_equal("Nothing was rewritten", "state file", before, node.view.state_file)
    node.apply(guaranteed("b", 1))
    node.promise_cpus("Pod b is not on them", "CPUs of both", CPUSet(), node.taken("b") & setup)


@_init(INIT_CONTAINERS, needs=Needs(free=2))
def shared_init_container_leaves_apps_alone(node: LockstepNode) -> None:
    """An init container that asks for no whole CPU takes none from its pod's app containers.
    It runs in the shared pool, and there is nothing to reuse."""
    setup = exclusive("setup", "1500m", kind=Kind.INIT)
    node.boot_with(guaranteed_of("a", [setup, exclusive("main", 1)]))
    node.promise_cpus("It has no CPU", "CPUs of a/setup", CPUSet(), node.taken("a", "setup"))
    held = len(node.taken("a", "main"))
    node.promise_equal("The app container has its CPU", "number of CPUs of a/main", 1, held)


@_core(SIDECARS, since="1.29", needs=Needs(free=2), capabilities=[Capability.CPUSETS])
def sidecars_follow_the_pool(node: LockstepNode) -> None:
    """A shared sidecar follows the shared pool as its pod's app containers do.
    It is an init container that runs on."""
    node.boot_with(Pod("shared", (Container("side", kind=Kind.SIDECAR), Container("main"))))
    node.promise_on_pool("It runs on the whole pool", "shared", "side", "main")
    node.apply(guaranteed("a", 1))
    node.promise_on_pool("It runs on the whole pool", "shared", "side", "main")
    node.delete("a", passing=True)
    node.promise_on_pool("It runs on the whole pool", "shared", "side", "main")


@_init(SIDECARS, since="1.29", needs=Needs(free=4), capabilities=RESTARTED)
def sidecars_keep_their_cpus_over_a_restart(node: LockstepNode) -> None:
    """After a restart of the kubelet a sidecar still has CPUs of its own.
    The pod before it is deleted while the kubelet is down, so other CPUs would be free."""
    node.boot()
    node.apply(guaranteed("first", 1))
    node.apply(guaranteed_of("a", [exclusive("side", 1, kind=Kind.SIDECAR), exclusive("main", 1)]))
    node.apply(best_effort("last"))
    side, main = node.taken("a", "side"), node.taken("a", "main")
    node.kill()
    node.delete("first")
    node.start()
    for name, held in (("side", side), ("main", main)):
        node.promise_cpus("Its entry is as before", f"a/{name}", held, node.taken("a", name))
        node.promise_cpuset("It never moved", "a", held, name)


@_init(INIT_CONTAINERS, since="1.20", needs=Needs(free=3), capabilities=CALLS)
def init_containers_start_where_they_belong(node: LockstepNode) -> None:
    """An init container is started on its exclusive CPUs, or on the shared pool if it has none.
    One asks for two CPUs, the other for half of one. Both have ended when this is looked at."""
    alone, shared = (exclusive("setup", cpus, kind=Kind.INIT) for cpus in (2, "500m"))
    node.boot_with(guaranteed_of("a", [alone, exclusive("main", 1)]))
    _promise_started(node, "It was started on its CPUs", "a", node.taken("a", "setup"))
    node.apply(guaranteed_of("b", [shared, exclusive("main", "500m")]))
    _promise_started(node, "It was started on the shared pool", "b", node.view.shared_pool)


def _promise_started(node: LockstepNode, rule: str, pod: str, cpus: CPUSet) -> None:
    started = node.asked(pod, "setup").started_on or CPUSet()
    node.promise_cpus(rule, f"cpuset with which {pod}/setup was started", cpus, started)
