"""Pod-level resources: what a pod asks for as a whole, and which CPUs its containers get of it.

By default such a pod gets no CPUs of its own. With feature gate PodLevelResourceManagers its
containers get theirs each under scope ``container``; under scope ``pod`` the pod gets CPUs as a
whole, of which exclusive containers take theirs and the others share what is left.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import DoesNotApply
from conformance.pods import exclusive, guaranteed_of
from conformance.scenario import Capability, Level, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import CONFIGURES, LISTS, REJECTIONS, START_ERROR
from conformance.scenarios.outcomes import promise_rejected, promise_running, restart_with
from conformance.scenarios.pod_level_parts import (
    MEMORY,
    ROOM,
    managed,
    of_managers,
    pod_of,
    promise_no_exclusive_cpus,
    shared,
)
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.kubelet.pod_resources import WHOLE_POD
from reference.steps import Kind, PodResources
from reference.view import Phase, PodView

_pod_level: Final = partial(promised, area="pod-level")


def _promise_refused(node: LockstepNode, status: PodView, reason: str, text: str) -> None:
    promise_rejected(node, status, reason)
    said = f"Pod was rejected: {text}"
    node.promise_equal("The message says why", "message", said, status.message)


# -- without the managers ------------------------------------------------------------------------


@_pod_level(sources.POD_LEVEL, level=Level.CORE, since="1.34", needs=Needs(free=2))
def no_exclusive_cpus_by_default(node: LockstepNode) -> None:
    """By default no container of a pod with pod-level resources gets exclusive CPUs.
    Though the pod is Guaranteed, and a container asks for a whole CPU of it."""
    node.boot_with(pod_of("a", 2, exclusive("main", 1), shared("side")))
    promise_no_exclusive_cpus(node, "a")
    status = node.view.pods["a"]
    node.promise_equal("The pod is Guaranteed", "QoS class of a", "Guaranteed", status.qos)


@_pod_level(sources.POD_LEVEL, since="1.34", needs=ROOM)
def restricted_admits_it_by_default(node: LockstepNode) -> None:
    """By default a pod with pod-level resources larger than any NUMA node is admitted.
    It asks for more than any NUMA node has; without exclusive CPUs there is no preference."""
    node.boot(managed(node, "single-numa-node", on=False))
    count = len(node.cpus) // node.topology.num_numa_nodes + 1
    node.apply(pod_of("a", count, exclusive("main", count)))
    promise_no_exclusive_cpus(node, "a")


@_pod_level(sources.POD_LEVEL_EMPTY, since="1.34", until="1.36", needs=Needs(free=2))
def empty_resources_make_best_effort(node: LockstepNode) -> None:
    """Empty pod-level resources make a pod BestEffort, whatever its containers ask for.
    A known defect: `resources: {}` requests nothing."""
    node.boot_with(replace(guaranteed_of("a", [exclusive("c", 2)]), resources=PodResources()))
    promise_no_exclusive_cpus(node, "a")
    qos = node.view.pods["a"].qos
    node.promise_equal("The pod is BestEffort", "QoS class of a", "BestEffort", qos)


@_pod_level(sources.POD_LEVEL_EMPTY, level=Level.CORE, since="1.37", needs=Needs(free=2))
def empty_resources_are_ignored(node: LockstepNode) -> None:
    """Empty pod-level resources leave a pod's containers their exclusive CPUs.
    The kubelet treats the pod as if its manifest had no pod-level resources."""
    node.boot_with(replace(guaranteed_of("a", [exclusive("c", 2)]), resources=PodResources()))
    promise_running(node, "a")
    node.promise_equal("The container has its CPUs", "size of a/c", 2, len(node.taken("a")))


# -- scope pod -----------------------------------------------------------------------------------


@of_managers(capabilities=[Capability.CPUSETS])
def pod_scope_shares_one_pool(node: LockstepNode) -> None:
    """Under scope pod exclusive containers take CPUs of their pod's, and the others share the rest.
    All of the pod's CPUs lie in one NUMA node, and no other pod runs on them."""
    whole = node.boot(managed(node)).shared_pool
    node.run(pod_of("a", 4, exclusive("main", 2), shared("one"), shared("two")))
    main, rest = node.taken("a", "main"), node.taken("a", "one")
    node.promise_equal("Two CPUs are exclusive", "CPUs of a/main", 2, len(main))
    node.promise_equal("Two are left", "CPUs of a/one", 2, len(rest))
    node.promise_cpus("No other container has the exclusive CPUs", "both", CPUSet(), main & rest)
    for name in ("one", "two"):
        node.promise_cpus("The others share the rest", f"a/{name}", rest, node.cpuset("a", name))
    left = whole - main - rest
    node.promise_cpus("The pool is without them", "pool", left, node.view.shared_pool)
    numa = node.topology.numa_node_ids(main | rest)
    node.promise_equal("They lie in one NUMA node", "NUMA nodes of a", 1, len(numa))


@of_managers()
def deletion_returns_the_pool(node: LockstepNode) -> None:
    """All CPUs that a pod got as a whole return when its last container is removed.
    Also the CPUs that were exclusive to no container."""
    whole = node.boot(managed(node)).shared_pool
    node.apply(pod_of("a", 4, exclusive("main", 2)))
    node.apply(pod_of("b", 2, exclusive("main", 1), shared("side")))
    node.delete("a")
    held = node.taken("b", "main") | node.taken("b", "side")
    node.promise_pool("The CPUs of a are back", whole - held)
    node.delete("b")
    node.promise_pool("All are back", whole)


@of_managers()
def init_containers_use_the_pool(node: LockstepNode) -> None:
    """An init container runs on its pod's pool, without the CPUs that sidecars keep.
    An exclusive sidecar keeps its CPU; the shared init container after it runs on the rest, and
    so does the shared app container in the end."""
    node.boot(managed(node))
    containers = [
        exclusive("side", 1, kind=Kind.SIDECAR),
        shared("setup", kind=Kind.INIT),
        exclusive("main", 2),
        shared("other"),
    ]
    node.run(pod_of("a", 4, *containers))
    side, main = node.taken("a", "side"), node.taken("a", "main")
    setup, other = node.taken("a", "setup"), node.taken("a", "other")
    node.promise_equal("The sidecar has its CPU", "CPUs of a/side", 1, len(side))
    node.promise_cpus("The init container has the rest", "a/setup", main | other, setup)
    node.promise_cpus("It has none of the sidecar's", "a/setup and a/side", CPUSet(), setup & side)
    node.promise_equal("One is left for all", "CPUs of a/other", 1, len(other - main))


_NO_SHARED: Final = (
    "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for "
    "shared containers"
)
_FAILED: Final = "Pod Scope pod with pod-level resources failed admission"
_NO_INIT: Final = "pod rejected, pod has shared init containers but no cpus available for them"


@of_managers(capabilities=REJECTIONS)
def empty_shared_pool_is_refused(node: LockstepNode) -> None:
    """A pod whose exclusive containers leave its shared ones no CPU is refused.
    Otherwise they would run on all other containers' CPUs."""
    node.boot(managed(node, "best-effort"))
    status = node.apply(pod_of("a", 2, exclusive("main", 2), shared("side")))
    _promise_refused(node, status, "EmptyPodSharedPoolError", _NO_SHARED)


@of_managers(capabilities=REJECTIONS)
def no_cpu_for_init_is_refused(node: LockstepNode) -> None:
    """A pod whose sidecars leave an init container no CPU is refused.
    The init container comes after the sidecar that takes all."""
    node.boot(managed(node, "best-effort"))
    containers = [exclusive("side", 2, kind=Kind.SIDECAR), shared("setup", kind=Kind.INIT)]
    status = node.apply(pod_of("a", 2, *containers, shared("main")))
    _promise_refused(node, status, "EmptyPodSharedPoolError", _NO_INIT)


@of_managers()
def init_before_the_sidecar_has_cpus(node: LockstepNode) -> None:
    """A pod is admitted whose init container runs before the sidecar that takes the rest.
    Sidecar and app container have all CPUs of the pod. The init container shares all of them, as
    it ends before the sidecar starts."""
    node.boot(managed(node))
    side = exclusive("side", 2, kind=Kind.SIDECAR)
    setup = shared("setup", kind=Kind.INIT)
    node.apply(pod_of("a", 4, setup, side, exclusive("main", 2)))
    promise_running(node, "a")
    both = node.taken("a", "side") | node.taken("a", "main")
    node.promise_equal("They have their CPUs", "number of CPUs of side and main", 4, len(both))
    node.promise_taken("It had all CPUs of its pod", "a", both, "setup")


@of_managers(capabilities=REJECTIONS)
def restricted_names_pod_level_resources(node: LockstepNode) -> None:
    """The Topology Manager's rejection of a pod with pod-level resources names them.
    The same pod as under best-effort: there are no NUMA nodes that could hold it."""
    node.boot(managed(node))
    status = node.apply(pod_of("a", 2, exclusive("main", 2), shared("side")))
    text = f"{_FAILED} under pod-scope topology manager"
    _promise_refused(node, status, "TopologyAffinityError", text)


@of_managers()
def odd_total_gets_nothing(node: LockstepNode) -> None:
    """A pod whose pod-level request is not a whole number of CPUs gets no exclusive CPUs.
    Its exclusive container gets none either."""
    node.boot(managed(node))
    whole = PodResources("2500m", "2500m", MEMORY, MEMORY)
    node.apply(replace(guaranteed_of("a", [exclusive("main", 2)]), resources=whole))
    promise_no_exclusive_cpus(node, "a")


@_pod_level(
    sources.POD_LEVEL_RESTART, since="1.36", until="1.37", needs=ROOM,
    capabilities=[Capability.RESTART, Capability.START_ERROR],
)  # fmt: skip
def restart_takes_another_pool(node: LockstepNode) -> None:
    """After a restart a pod with CPUs as a whole is given others, and the first ones are lost.
    A known defect: after that restart the kubelet starts again only without its state file. The
    invariants cannot hold until then, so only the kubelet's last error is judged."""
    if node.release_has(Behaviour.POD_POOL_KEPT):
        raise DoesNotApply("needs a kubelet without the fix of issue 140989")
    node.boot_with(pod_of("a", 2, exclusive("main", 2)), config=managed(node, "best-effort"))
    first = node.taken("a", "main")
    node.stop()
    node.expect_lost(first)
    node.start()
    node.restart(kill=False)
    node.promise_refusal("doesn't match with CPUs in state")


# -- scope container, and none -------------------------------------------------------------------


def _exclusive_alone(node: LockstepNode) -> None:
    node.run(pod_of("a", 3, exclusive("main", 2), shared("side")))
    main = node.taken("a", "main")
    node.promise_equal("The exclusive one has its CPUs", "CPUs of a/main", 2, len(main))
    node.promise_cpus("The other has none", "a/side", CPUSet(), node.taken("a", "side"))
    node.promise_cpuset("It shares the pool", "a", node.cpus - main, "side")


@of_managers(capabilities=[Capability.CPUSETS])
def container_scope_has_no_pool(node: LockstepNode) -> None:
    """Under scope container only exclusive containers of a pod with pod-level resources get CPUs.
    The rest of the pod's request is not reserved."""
    node.boot(managed(node, scope="container"))
    _exclusive_alone(node)


@of_managers(capabilities=[Capability.CPUSETS])
def policy_none_has_no_pool(node: LockstepNode) -> None:
    """Under policy none the scope does not matter to a pod with pod-level resources.
    It is treated as under scope container."""
    node.boot(managed(node, "none"))
    _exclusive_alone(node)


@of_managers(capabilities=REJECTIONS)
def container_scope_refuses(node: LockstepNode) -> None:
    """Under scope container a pod with pod-level resources is refused with its own message.
    A container asks for more than any NUMA node has."""
    node.boot(managed(node, "single-numa-node", scope="container"))
    count = len(node.cpus) // node.topology.num_numa_nodes + 1
    status = node.apply(pod_of("a", count, exclusive("main", count)))
    text = f"{_FAILED} with a container-level topology manager"
    _promise_refused(node, status, "TopologyAffinityError", text)


# -- the pod as a whole, restarts and the state file ---------------------------------------------


@of_managers(
    needs=Needs(smt=2, numa_nodes=2, free=8, numa_cores=4, even=True), capabilities=REJECTIONS
)
def full_pcpus_applies_to_the_pod(node: LockstepNode) -> None:
    """Under full-pcpus-only a pod with CPUs as a whole is judged by all that it asks for.
    Five CPUs are not whole cores, although the exclusive container asks for two."""
    node.boot(replace(managed(node), policy_options={"full-pcpus-only": "true"}))
    status = node.apply(pod_of("a", 5, exclusive("main", 2), shared("side")))
    promise_rejected(node, status, "SMTAlignmentError")


@_pod_level(
    sources.POD_LEVEL_RESTART, since="1.36", until="1.37", needs=ROOM,
    capabilities=[Capability.RESTART, Capability.REJECTIONS],
)  # fmt: skip
def restart_refuses_a_shared_pool(node: LockstepNode) -> None:
    """After a restart restricted refuses a pod that shares CPUs of its own.
    A known defect: a shared container of the pod holds CPUs and requests none. So the pod seems
    to hold another number of CPUs than it requests, and the Topology Manager refuses it. Its CPUs
    return to the shared pool."""
    if node.release_has(Behaviour.POD_POOL_KEPT):
        raise DoesNotApply("needs a kubelet without the fix of issue 140989")
    whole = node.boot(managed(node)).shared_pool
    node.apply(pod_of("a", 4, exclusive("main", 2), shared("side")))
    node.restart(kill=False)
    status = node.view.pods.get("a", PodView(Phase.PENDING))
    node.promise_equal("The pod is refused", "phase of pod a", Phase.REJECTED, status.phase)
    node.promise_equal("The reason is named", "reason", "TopologyAffinityError", status.reason)
    node.promise_pool("Its CPUs are back", whole)


def _gate_turned_off(node: LockstepNode) -> None:
    node.boot(managed(node))
    node.apply(pod_of("a", 4, exclusive("main", 2), exclusive("other", 2)))
    restart_with(node, managed(node, on=False))


@of_managers(source=sources.POD_LEVEL_STATE, until="1.36", capabilities=(*CONFIGURES, *START_ERROR))
def gate_off_refuses_the_state(node: LockstepNode) -> None:
    """Without feature gate PodLevelResourceManagers the kubelet refuses a state file made with it.
    The file has version 3, which a kubelet reads only with that gate."""
    _gate_turned_off(node)
    node.promise_refusal("could not restore state from checkpoint")


@_pod_level(sources.POD_LEVEL_STATE, since="1.37", needs=ROOM, capabilities=CONFIGURES)
def gate_off_keeps_the_state(node: LockstepNode) -> None:
    """Without feature gate PodLevelResourceManagers the kubelet reads a state file made with it.
    Containers keep what they have; that the pod has it as a whole is forgotten."""
    _gate_turned_off(node)
    node.promise_running("The kubelet starts")
    held = {name: len(cpus) for name, cpus in node.view.assignments.get("a", {}).items()}
    node.promise_equal("The containers keep their CPUs", "CPUs of a", {"main": 2, "other": 2}, held)


def _limits_alone(node: LockstepNode) -> None:
    node.boot(managed(node))
    whole = PodResources(cpu_limit="4", memory_limit=MEMORY)
    node.apply(replace(guaranteed_of("a", [shared("one"), shared("two")]), resources=whole))
    promise_running(node, "a")


@_pod_level(sources.POD_LEVEL_LIMITS, since="1.36", until="1.36", needs=ROOM)
def limits_are_requests_too(node: LockstepNode) -> None:
    """A pod with pod-level limits alone asks for as much.
    The kubelet fills requests in, so the pod is Guaranteed and gets CPUs as a whole."""
    _limits_alone(node)
    qos = node.view.pods["a"].qos
    node.promise_equal("The pod is Guaranteed", "QoS class of a", "Guaranteed", qos)
    node.promise_equal("It has its CPUs", "CPUs of a/one", 4, len(node.taken("a", "one")))


@_pod_level(sources.POD_LEVEL_LIMITS, since="1.37", needs=ROOM)
def limits_alone_are_burstable(node: LockstepNode) -> None:
    """A static pod with pod-level limits and no requests is Burstable and gets no CPUs.
    Only the API server fills in requests, and a static pod does not pass through it."""
    _limits_alone(node)
    promise_no_exclusive_cpus(node, "a")
    qos = node.view.pods["a"].qos
    node.promise_equal("The pod is Burstable", "QoS class of a", "Burstable", qos)


@of_managers(capabilities=[Capability.CPUSETS])
def unequal_container_shares(node: LockstepNode) -> None:
    """A container whose CPU limit is above its request gets no exclusive CPUs of its pod.
    The pod is Guaranteed by what it asks for as a whole. Only a container that is Guaranteed
    itself is exclusive."""
    node.boot(managed(node))
    unequal = replace(exclusive("side", 1), cpu_limit="2")
    node.run(pod_of("a", 4, exclusive("main", 2), unequal, shared("other")))
    main = node.taken("a", "main")
    node.promise_equal("Two CPUs are exclusive", "CPUs of a/main", 2, len(main))
    for name in ("side", "other"):
        rest = node.cpuset("a", name)
        node.promise_equal("Both share the rest", f"size of cpuset a/{name}", 2, len(rest))
        node.promise_cpus("They are off the exclusive CPUs", f"a/{name}", CPUSet(), rest & main)


# -- pod resources ------------------------------------------------------------------------------


def _reported_pool(node: LockstepNode) -> CPUSet:
    """The CPUs that container ``one`` shares with its pod, of which ``main`` has two alone."""
    node.boot_with(pod_of("a", 4, exclusive("main", 2), shared("one")), config=managed(node))
    node.ask()
    return node.taken("a", "one")


@_pod_level(sources.POD_LEVEL_POOL, since="1.37", needs=ROOM, capabilities=LISTS)
def pool_is_reported_of_the_pod(node: LockstepNode) -> None:
    """CPUs that a pod's containers share are reported of the pod, and of none of its containers.
    With feature gate PodLevelResourceManagers. The pod's CPUs are all of them, the exclusive
    ones of its containers among them."""
    pool, main = _reported_pool(node), node.taken("a", "main")
    node.promise_pod_resources("The container has none of its own", "a", CPUSet(), "one")
    node.promise_pod_resources("The other has", "a", main, "main")
    node.promise_pod_resources("The pod has all", "a", pool | main, WHOLE_POD)


@_pod_level(sources.POD_LEVEL_POOL, since="1.36", until="1.36", needs=ROOM, capabilities=LISTS)
def pool_is_reported_as_exclusive(node: LockstepNode) -> None:
    """In 1.36 CPUs that a pod's containers share are reported as a container's own.
    A defect, mended in 1.37: whoever reads it cannot tell them from exclusive CPUs."""
    pool = _reported_pool(node)
    node.promise_pod_resources("They are reported as its own", "a", pool, "one")
