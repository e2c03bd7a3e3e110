"""What a pod's parts add up to: sidecars beside init containers, and parts of a pod's own CPUs."""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import REJECTIONS
from conformance.scenarios.aligning import aligning
from conformance.scenarios.hint_parts import TWO_NODES
from conformance.scenarios.optional import aligning_with, with_options
from conformance.scenarios.outcomes import promise_count, promise_rejected, promise_running, take
from conformance.scenarios.pod_level_parts import managed, of_managers, pod_of, shared
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.steps import Kind

_numa: Final = partial(promised, source=sources.ACROSS_NUMA, since="1.23", needs=TWO_NODES)


# -- what a pod asks for under scope pod ---------------------------------------------------------


@_numa(area="topology", source=sources.SIDECARS_AND_HINTS, since="1.29", capabilities=REJECTIONS)
def pod_scope_counts_init_beside_sidecars(node: LockstepNode) -> None:
    """Under scope pod an init container and the sidecars that run before it count together.
    They run at the same time, and ask for one CPU more than a NUMA node has. With one CPU less
    they fit the second NUMA node, where no CPU is reserved."""
    node.boot(aligning(node, "single-numa-node", scope="pod"))
    size = len(node.cpus) // node.topology.num_numa_nodes
    for name, count in (("large", size), ("small", size - 1)):
        sidecar = exclusive("proxy", 1, kind=Kind.SIDECAR)
        setup = exclusive("setup", count, kind=Kind.INIT)
        node.apply(guaranteed_of(name, [sidecar, setup, exclusive("main", 1)]))
        if name == "large":
            promise_rejected(node, node.view.pods[name], "TopologyAffinityError", name)
            node.pass_admission()
        else:
            promise_running(node, name)
    held = node.taken("small", "proxy") | node.taken("small", "main")
    numa = len(node.topology.numa_node_ids(held))
    node.promise_equal("The pod lies in one NUMA node", "NUMA nodes of small", 1, numa)


@_numa(area="topology", source=sources.TOPOLOGY_SCOPES, since="1.20", capabilities=REJECTIONS)
def pod_scope_lacks_cpus(node: LockstepNode) -> None:
    """Under scope pod and best-effort a pod that asks for more than is free is refused.
    For lack of CPUs. The CPUs of its first container, which alone would fit, are freed."""
    node.boot(aligning(node, "best-effort", scope="pod"))
    whole = node.view.shared_pool
    node.apply(guaranteed("a", 1, len(node.free)))
    promise_rejected(node, node.view.pods["a"], "UnexpectedAdmissionError")
    node.pass_admission()
    node.promise_pool("The pool is whole", whole)


# -- distribute-cpus-across-numa and the Topology Manager ----------------------------------------


@_numa(area="options", capabilities=REJECTIONS)
def numa_distribution_lacks_cpus(node: LockstepNode) -> None:
    """Under distribute-cpus-across-numa a request for more than is free is refused.
    By one CPU. A request for all that is free is admitted."""
    node.boot(with_options(node, "distribute-cpus-across-numa"))
    whole, free = node.view.shared_pool, node.free
    node.apply(guaranteed("a", len(free) + 1))
    promise_rejected(node, node.view.pods["a"], "UnexpectedAdmissionError")
    node.promise_pool("The pool is whole", whole)
    node.pass_admission()
    taken = take(node, "b", len(free))
    node.promise_cpus("All that is free is given", "exclusive CPUs b/c", free, taken)


@_numa(area="options")
def numa_distribution_follows_the_hint(node: LockstepNode) -> None:
    """Under single-numa-node distribute-cpus-across-numa gives CPUs of one NUMA node.
    There is one NUMA node to distribute over."""
    node.boot(aligning_with(node, "single-numa-node", "distribute-cpus-across-numa"))
    size = len(node.cpus) // node.topology.num_numa_nodes
    numa = len(node.topology.numa_node_ids(take(node, "a", size)))
    promise_count(node, size)
    node.promise_equal("They lie in one NUMA node", "NUMA nodes of a/c", 1, numa)


# -- parts of a pod's own CPUs -------------------------------------------------------------------


@of_managers(capabilities=[Capability.CPUSETS])
def sidecar_shares_the_rest_of_its_pod(node: LockstepNode) -> None:
    """A sidecar without CPUs of its own runs on what its pod's exclusive containers leave.
    As the app containers without CPUs of their own do."""
    node.boot(managed(node))
    node.run(
        pod_of("a", 4, shared("proxy", kind=Kind.SIDECAR), exclusive("main", 2), shared("other"))
    )
    rest = node.cpuset("a", "other")
    node.promise_equal("Two CPUs are left", "size of cpuset a/other", 2, len(rest))
    node.promise_cpuset("The sidecar has them too", "a", rest, "proxy")
    both = rest & node.taken("a", "main")
    node.promise_cpus("They are not the exclusive ones", "a/main and rest", CPUSet(), both)


@of_managers()
def init_containers_stay_off_sidecars(node: LockstepNode) -> None:
    """Of a pod's own CPUs an init container gets none that a sidecar before it has.
    The sidecar runs beside it. The app container may have the init container's CPUs."""
    node.boot(managed(node))
    sidecar = exclusive("proxy", 1, kind=Kind.SIDECAR)
    setup = exclusive("setup", 3, kind=Kind.INIT)
    node.run(pod_of("a", 4, sidecar, setup, exclusive("main", 2), shared("other")))
    proxy, ended = node.taken("a", "proxy"), node.taken("a", "setup")
    node.promise_equal("Each has its CPUs", "CPUs of proxy and setup", (1, 3),
                       (len(proxy), len(ended)))  # fmt: skip
    node.promise_cpus("None is of both", "CPUs of proxy and setup", CPUSet(), proxy & ended)


@of_managers(capabilities=[Capability.RESTART])
def spare_cpus_outlast_a_restart(node: LockstepNode) -> None:
    """The kubelet starts again where a pod has CPUs that none of its containers has.
    The pod asks for one CPU more than its containers do. Up to 1.37 the kubelet then gives the
    pod other CPUs, and loses the first ones (issue 140989)."""
    node.boot(managed(node))
    pool = node.view.shared_pool
    node.run(pod_of("a", 4, exclusive("main", 2), exclusive("other", 1)))
    given = pool - node.view.shared_pool
    node.promise_equal("The pod has four CPUs", "CPUs that left the pool", 4, len(given))
    node.kill()
    if not node.release_has(Behaviour.POD_POOL_KEPT):
        node.expect_lost(given)
    node.start()
    node.promise_running("The kubelet starts on its state file")
