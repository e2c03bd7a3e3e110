"""CPUs that init containers lend to their own pod: how many it books, and for how long."""

from __future__ import annotations

from conformance.lockstep import LockstepNode
from conformance.needs import Needs
from conformance.pods import exclusive, guaranteed, guaranteed_of
from conformance.scenario import scenario
from conformance.scenarios.sources import INIT_CONTAINERS
from reference import CPUSet
from reference.steps import Kind


@scenario(
    "init/several-init-containers-lend-their-cpus",
    "An app container reuses the CPUs of the first of two init containers",
    INIT_CONTAINERS,
    needs=Needs(free=8, smt=2, even=True),
)
def several_init_containers_lend_their_cpus(node: LockstepNode) -> None:
    """The second init container needs fewer CPUs than the first. What the first has lent is still
    the pod's after the second has ended."""
    node.boot()
    setup = [exclusive("one", 4, kind=Kind.INIT), exclusive("two", 2, kind=Kind.INIT)]
    node.apply(guaranteed_of("a", [*setup, exclusive("main", 4)]))
    lent = node.taken("a", "one") | node.taken("a", "two")
    main = node.taken("a", "main")
    node.promise_equal("It has its CPUs", "number of CPUs of a/main", 4, len(main))
    node.promise_cpus("All of them were lent", "CPUs of a/main besides", CPUSet(), main - lent)


@scenario(
    "init/pod-that-comes-back-stays-off-others",
    "A pod that is applied again takes no CPU that another pod was given meanwhile",
    INIT_CONTAINERS,
    needs=Needs(free=6, smt=2, even=True),
)
def pod_that_comes_back_stays_off_others(node: LockstepNode) -> None:
    """Its init container had more CPUs than its app container used. A static pod comes back with
    the uid of before; what it was lent then is not its any more."""
    node.boot()
    pod = guaranteed_of("a", [exclusive("setup", 4, kind=Kind.INIT), exclusive("main", 1)])
    node.apply(pod)
    node.delete("a")
    node.apply(guaranteed("b", len(node.free) - 4))
    node.apply(pod)
    booked = node.taken("a", "setup") | node.taken("a", "main")
    node.promise_equal("Pod a has its CPUs", "size of a/setup", 4, len(node.taken("a", "setup")))
    node.promise_cpus("None is pod b's", "CPUs of both", CPUSet(), booked & node.taken("b"))
