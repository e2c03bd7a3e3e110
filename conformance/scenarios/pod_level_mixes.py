"""Pods with pod-level resources by what they are made of: exclusive containers, shared ones, init
containers, and pods that are not Guaranteed, under both scopes of the Topology Manager."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive
from conformance.scenario import Capability
from conformance.scenarios.entering import row
from conformance.scenarios.pod_level_parts import (
    MEMORY,
    managed,
    of_managers,
    pod_of,
    promise_no_exclusive_cpus,
    shared,
)
from reference import CPUSet
from reference.steps import Container, Kind, Pod, PodResources

_of_managers: Final = partial(of_managers, capabilities=[Capability.CPUSETS])
_ON_POOL: Final = "It runs on the shared pool of the node"


def _burstable(name: str, *containers: Container) -> Pod:
    """A pod that may use more CPU than it asks for."""
    return Pod(name, containers, resources=PodResources("4", "6", MEMORY, "512Mi"))


def _burstable_stays_shared(node: LockstepNode, scope: str) -> None:
    whole = node.boot(managed(node, scope=scope)).shared_pool
    node.apply(_burstable("a", exclusive("main", 2), shared("side")))
    promise_no_exclusive_cpus(node, "a")
    node.apply(_burstable("b", shared("one"), shared("two")))
    promise_no_exclusive_cpus(node, "b")
    node.promise_pool("No CPU is taken", whole)
    node.promise_on_pool(_ON_POOL, "a", "main", "side")
    node.promise_on_pool(_ON_POOL, "b", "one", "two")


row(
    "pod-level/burstable-pod-stays-shared",
    "Under scope pod a Burstable pod with pod-level resources gets no exclusive CPUs",
    "Whatever its containers ask for: its class is decided by the pod-level resources.",
    lambda node: _burstable_stays_shared(node, "pod"),
    enter=_of_managers,
)  # fmt: skip
row(
    "pod-level/container-scope-leaves-burstable-pods-shared",
    "Under scope container a Burstable pod with pod-level resources gets no exclusive CPUs",
    "Whatever its containers ask for: its class is decided by the pod-level resources.",
    lambda node: _burstable_stays_shared(node, "container"),
    enter=_of_managers,
)  # fmt: skip


@_of_managers()
def exclusive_containers_use_all(node: LockstepNode) -> None:
    """Under scope pod exclusive containers that ask for all CPUs of their pod get all of them.
    No container shares, so nothing has to be left."""
    whole = node.boot(managed(node)).shared_pool
    node.run(pod_of("a", 3, exclusive("one", 1), exclusive("two", 2)))
    one, two = node.taken("a", "one"), node.taken("a", "two")
    node.promise_equal("The first has its CPU", "number of CPUs of a/one", 1, len(one))
    node.promise_equal("The second has its CPUs", "number of CPUs of a/two", 2, len(two))
    node.promise_cpus("They share no CPU", "CPUs of both", CPUSet(), one & two)
    left = whole - one - two
    node.promise_cpus("No more CPUs have left the pool", "pool", left, node.view.shared_pool)


@_of_managers()
def sidecars_have_cpus_apart(node: LockstepNode) -> None:
    """Under scope pod each sidecar has CPUs that no other container of its pod has.
    Two exclusive sidecars, an exclusive app container, and one that shares the last CPU."""
    node.boot(managed(node))
    sidecars = [exclusive(name, 1, kind=Kind.SIDECAR) for name in ("side1", "side2")]
    node.run(pod_of("a", 4, *sidecars, exclusive("main", 1), shared("other")))
    seen = [node.taken("a", name) for name in ("side1", "side2", "main", "other")]
    node.promise_equal("Each has one CPU", "CPUs of each", [1] * 4, [len(cpus) for cpus in seen])
    node.promise_equal("Each has another CPU", "CPUs of all", 4, len({*chain(*seen)}))


@_of_managers()
def shared_containers_have_cpus_of_their_pod(node: LockstepNode) -> None:
    """Under scope pod a Guaranteed pod of shared containers alone has CPUs of its own.
    Its containers run on all of them, and no other pod does."""
    whole = node.boot(managed(node)).shared_pool
    node.run(pod_of("a", 2, shared("one"), shared("two")))
    own = node.cpuset("a", "one")
    node.promise_equal("As many as the pod asks for", "size of cpuset a/one", 2, len(own))
    node.promise_cpuset("Both have the same", "a", own, "two")
    node.promise_cpus("No other pod has them", "pool", whole - own, node.view.shared_pool)


@_of_managers()
def several_pods_have_cpus_apart(node: LockstepNode) -> None:
    """Under scope pod the CPUs of several pods with pod-level resources are disjoint.
    Three pods of shared containers; the second is deleted, and a fourth takes its place."""
    whole = node.boot(managed(node)).shared_pool
    for name in ("a", "b", "c"):
        node.apply(pod_of(name, 2, shared("one"), shared("two")))
    freed = node.cpuset("b", "one")
    node.delete("b")
    node.apply(pod_of("d", 2, shared("one")))
    used = CPUSet()
    for name in ("a", "c", "d"):
        own = node.cpuset(name, "one")
        node.promise_equal("As many as it asks for", f"size of cpuset {name}/one", 2, len(own))
        node.promise_cpus("Apart from the others", f"CPUs of {name}", CPUSet(), own & used)
        used |= own
    node.promise_cpuset("The last has what was freed", "d", freed, "one")
    node.promise_cpus("The pool has the rest", "pool", whole - used, node.view.shared_pool)


@_of_managers()
def container_scope_leaves_shared_pods_shared(node: LockstepNode) -> None:
    """Under scope container a Guaranteed pod of shared containers alone gets no CPUs.
    Only a container that is Guaranteed itself gets CPUs there."""
    node.boot(managed(node, scope="container"))
    node.apply(pod_of("a", 2, shared("one"), shared("two")))
    promise_no_exclusive_cpus(node, "a")
    node.promise_on_pool(_ON_POOL, "a", "one", "two")


@_of_managers()
def container_scope_needs_no_rest(node: LockstepNode) -> None:
    """Under scope container exclusive containers may use up all that their pod asks for.
    Its shared containers run on the shared pool of the node, so none is left without a CPU.
    Under scope pod such a pod is refused."""
    node.boot(managed(node, scope="container"))
    node.run(pod_of("a", 2, exclusive("main", 2), shared("side")))
    held = len(node.taken("a", "main"))
    node.promise_equal("The exclusive one has its CPUs", "number of CPUs of a/main", 2, held)
    node.promise_on_pool(_ON_POOL, "a", "side")


@_of_managers()
def container_scope_reuses_init_cpus(node: LockstepNode) -> None:
    """Under scope container app containers reuse the CPUs of their pod's init containers.
    As in a pod without pod-level resources. A sidecar keeps its own."""
    node.boot(managed(node, scope="container"))
    first = [exclusive("setup", 2, kind=Kind.INIT), exclusive("proxy", 1, kind=Kind.SIDECAR)]
    node.run(pod_of("a", 4, *first, exclusive("main", 2), shared("side")))
    setup, proxy, main = (node.taken("a", name) for name in ("setup", "proxy", "main"))
    node.promise_equal("The app has its CPUs", "number of CPUs of a/main", 2, len(main))
    node.promise_equal("The sidecar has its CPU", "number of CPUs of a/proxy", 1, len(proxy))
    node.promise_cpus("They are not the same", "CPUs of both", CPUSet(), main & proxy)
    rule, again = "The CPUs of the init container are reused", bool(setup & (main | proxy))
    node.promise_equal(rule, "CPUs of setup used again", True, again)
    node.promise_on_pool(_ON_POOL, "a", "side")


@_of_managers()
def container_scope_leaves_unequal_containers_shared(node: LockstepNode) -> None:
    """Under scope container a container whose CPU limit is above its request gets no CPUs.
    Though its pod is Guaranteed by its pod-level resources."""
    node.boot(managed(node, scope="container"))
    unequal = replace(exclusive("side", 1), cpu_limit="2")
    node.run(pod_of("a", 4, exclusive("main", 2), unequal))
    node.promise_equal("The other has its CPUs", "CPUs of a/main", 2, len(node.taken("a", "main")))
    node.promise_on_pool(_ON_POOL, "a", "side")
