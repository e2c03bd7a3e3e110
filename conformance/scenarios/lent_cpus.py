"""CPUs that init containers lend to their own pod."""

from __future__ import annotations

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed_of
from conformance.scenario import Needs, promised
from conformance.scenarios.sources import INIT_CONTAINERS
from reference import CPUSet
from reference.steps import Kind


@promised(INIT_CONTAINERS, area="init", needs=Needs(free=8, smt=2, even=True))
def several_init_containers_lend_their_cpus(node: LockstepNode) -> None:
    """An app container reuses the CPUs of the first of two init containers.
    The second init container needs fewer CPUs than the first. What the first has lent is still
    the pod's after the second has ended."""
    setup = [exclusive("one", 4, kind=Kind.INIT), exclusive("two", 2, kind=Kind.INIT)]
    node.boot_with(guaranteed_of("a", [*setup, exclusive("main", 4)]))
    lent = node.taken("a", "one") | node.taken("a", "two")
    main = node.taken("a", "main")
    node.promise_equal("It has its CPUs", "number of CPUs of a/main", 4, len(main))
    node.promise_cpus("All of them were lent", "CPUs of a/main besides", CPUSet(), main - lent)
