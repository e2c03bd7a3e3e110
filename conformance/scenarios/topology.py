"""The Topology Manager as far as it decides CPUs: on which NUMA nodes a pod's CPUs lie, and which
pods are refused because they cannot lie where they must.

The body of a scenario reads room off the node it drives: which NUMA node comes first, how many of
its CPUs are free. Two facts hold everywhere: of NUMA nodes that hold a request equally well the one
with the lowest id is taken, and a request of just what is free in a node fits that node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import DoesNotApply, Needs
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.results import Difference
from conformance.scenario import Level, scenario
from conformance.scenarios.aligning import aligning
from conformance.scenarios.sources import (
    BY_SOCKET,
    CLOSEST_NUMA,
    HINTS_IN_TURN,
    INIT_CONTAINERS,
    INIT_PINS_NODE,
    NUMA_LIMIT,
    SIDECARS_AND_HINTS,
    TOPOLOGY_PAGE,
    TOPOLOGY_POLICIES,
    TOPOLOGY_SCOPES,
    TOPOLOGY_WITHOUT_DEVICES,
)
from conformance.subject import Capability
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.steps import Kind, KubeletConfig
from reference.view import Phase, PodView
from topologies import machine

_SINGLE: Final = "single-numa-node"
_RESTRICTED: Final = "restricted"
_BEST_EFFORT: Final = "best-effort"

_NODES: Final = Needs(numa_nodes=2, numa_cores=2, even=True)
#: Room to leave every NUMA node but two full, and those two with a CPU taken.
_SCATTERED: Final = replace(_NODES, numa_cores=3)
#: Room for a pod that leaves just some of the first NUMA node free.
_SPLIT: Final = replace(_NODES, numa_cores=4)
_REFUSALS: Final = (Capability.REJECTIONS,)


def _config(
    node: LockstepNode,
    policy: str,
    *,
    scope: str = "container",
    options: Mapping[str, str] | None = None,
    by_socket: bool = False,
) -> KubeletConfig:
    aligned = aligning(node, policy, scope=scope, options=options)
    if not by_socket:
        return replace(aligned, policy_options={})
    return replace(
        aligned,
        policy_options={"align-by-socket": "true"},
        feature_gates={**aligned.feature_gates, "CPUManagerPolicyAlphaOptions": True},
    )


# -- what a scenario reads off its node ----------------------------------------------------------


def _node_size(node: LockstepNode) -> int:
    """How many CPUs each NUMA node has; for even machines."""
    return len(node.cpus) // node.topology.num_numa_nodes


def _free_in(node: LockstepNode, numa: int) -> CPUSet:
    return node.free & node.topology.cpus_in_numa_nodes(numa)


def _first(node: LockstepNode) -> int:
    return min(node.topology.numa_masks)


def _too_large_for_the_first(node: LockstepNode) -> int:
    """One CPU more than is free in the least free NUMA node, so that to pack it is to split it."""
    return 1 + min(len(_free_in(node, numa)) for numa in node.topology.numa_masks)


def _scatter(node: LockstepNode) -> int:
    """Leave free CPUs in the first and the last NUMA node alone, and in neither of them all. A
    request for as many CPUs as a NUMA node has, which is returned, then fits no single one."""
    first, *_, last = node.topology.numa_masks
    for numa in node.topology.numa_masks:
        size = 1 if numa == last else len(_free_in(node, numa))
        node.apply(guaranteed(f"fills-{numa}", size))
    node.delete(f"fills-{first}")
    node.apply(guaranteed("takes-one", 1))
    return _node_size(node)


# -- promises ------------------------------------------------------------------------------------


def _promise_within(
    node: LockstepNode, what: str, cpus: CPUSet, *, count: int, nodes: int = 1
) -> None:
    numa = node.topology.numa_node_ids(cpus)
    node.promise_equal("It has its CPUs", f"number of CPUs of {what}", count, len(cpus))
    node.promise(
        len(numa) <= nodes,
        "They lie in one NUMA node" if nodes == 1 else f"They lie in {nodes} NUMA nodes",
        Difference(
            what=f"NUMA nodes of {what}, CPUs {cpus}",
            expected=f"{nodes} of them",
            seen=", ".join(map(str, numa)),
        ),
    )


def _promise_refused(node: LockstepNode, pod: str, status: PodView) -> None:
    node.promise_equal("The pod is rejected", f"phase of pod {pod}", Phase.REJECTED, status.phase)
    node.promise_equal("The reason is named", "reason", "TopologyAffinityError", status.reason)
    text = "Resources cannot be allocated with Topology locality"
    node.promise(
        status.message.endswith(text),
        "The message says why",
        Difference(what="message", expected=f"… {text}", seen=status.message),
    )


def _promise_running(node: LockstepNode, pod: str, status: PodView) -> None:
    node.promise_equal("The pod runs", f"phase of pod {pod}", Phase.RUNNING, status.phase)


# -- single-numa-node ----------------------------------------------------------------------------


@scenario(
    "topology/single-numa-node-keeps-together",
    "Under single-numa-node a container's CPUs lie in one NUMA node",
    TOPOLOGY_POLICIES,
    level=Level.CORE,
    needs=_NODES,
)
def single_numa_node_keeps_together(node: LockstepNode) -> None:
    """The request is one CPU larger than what is free in the fullest NUMA node. The CPUs are not
    split between that NUMA node and another."""
    node.boot(_config(node, _SINGLE))
    count = _too_large_for_the_first(node)
    node.apply(guaranteed("a", count))
    _promise_within(node, "a/c", node.taken("a"), count=count)


@scenario(
    "topology/single-numa-node-refuses-too-large",
    "Under single-numa-node a request larger than any NUMA node is refused",
    TOPOLOGY_POLICIES,
    level=Level.CORE,
    needs=_NODES,
    capabilities=_REFUSALS,
)
def single_numa_node_refuses_too_large(node: LockstepNode) -> None:
    """The machine has enough free CPUs, but no single NUMA node has."""
    node.boot(_config(node, _SINGLE))
    status = node.apply(guaranteed("a", _node_size(node) + 1))
    _promise_refused(node, "a", status)


@scenario(
    "topology/single-numa-node-refuses-scattered",
    "Under single-numa-node a request that no NUMA node has room for is refused",
    TOPOLOGY_POLICIES,
    needs=_SCATTERED,
    capabilities=_REFUSALS,
)
def single_numa_node_refuses_scattered(node: LockstepNode) -> None:
    """Two NUMA nodes together have room for it."""
    node.boot(_config(node, _SINGLE))
    status = node.apply(guaranteed("a", _scatter(node)))
    _promise_refused(node, "a", status)


@scenario(
    "topology/pods-without-cpus-are-admitted",
    "Under single-numa-node pods without exclusive CPUs are admitted",
    TOPOLOGY_WITHOUT_DEVICES,
    level=Level.CORE,
    needs=_NODES,
)
def pods_without_cpus_are_admitted(node: LockstepNode) -> None:
    """They have no preference for a NUMA node."""
    node.boot(_config(node, _SINGLE))
    _promise_running(node, "a", node.apply(best_effort("a")))
    _promise_running(node, "b", node.apply(guaranteed("b", "500m")))


# -- restricted ----------------------------------------------------------------------------------


@scenario(
    "topology/restricted-refuses-scattered",
    "Under restricted a request that now needs more NUMA nodes than on an empty machine is refused",
    TOPOLOGY_POLICIES,
    level=Level.CORE,
    needs=_SCATTERED,
    capabilities=_REFUSALS,
)
def restricted_refuses_scattered(node: LockstepNode) -> None:
    """On an empty machine one NUMA node could hold it, so a hint for two NUMA nodes is not
    preferred."""
    node.boot(_config(node, _RESTRICTED))
    status = node.apply(guaranteed("a", _scatter(node)))
    _promise_refused(node, "a", status)


@scenario(
    "topology/restricted-admits-the-fewest",
    "Under restricted a request that needs two NUMA nodes on any machine lies in two",
    TOPOLOGY_POLICIES,
    level=Level.CORE,
    needs=_SCATTERED,
)
def restricted_admits_the_fewest(node: LockstepNode) -> None:
    """A request one CPU larger than a NUMA node."""
    node.boot(_config(node, _RESTRICTED))
    count = _node_size(node) + 1
    _promise_running(node, "a", node.apply(guaranteed("a", count)))
    _promise_within(node, "a/c", node.taken("a"), count=count, nodes=2)


# -- best-effort and none ------------------------------------------------------------------------


@scenario(
    "topology/best-effort-admits-scattered",
    "Under best-effort a request that fits no single NUMA node gets its CPUs in two",
    TOPOLOGY_POLICIES,
    level=Level.CORE,
    needs=_SCATTERED,
)
def best_effort_admits_scattered(node: LockstepNode) -> None:
    """What restricted refuses, on a machine in the same state."""
    node.boot(_config(node, _BEST_EFFORT))
    count = _scatter(node)
    _promise_running(node, "a", node.apply(guaranteed("a", count)))
    _promise_within(node, "a/c", node.taken("a"), count=count, nodes=2)


@scenario(
    "topology/best-effort-keeps-together",
    "Under best-effort a container's CPUs lie in one NUMA node where one has room",
    TOPOLOGY_POLICIES,
    level=Level.CORE,
    needs=_NODES,
)
def best_effort_keeps_together(node: LockstepNode) -> None:
    """It admits every pod, and aligns a pod if it can."""
    node.boot(_config(node, _BEST_EFFORT))
    count = _too_large_for_the_first(node)
    node.apply(guaranteed("a", count))
    _promise_within(node, "a/c", node.taken("a"), count=count)


@scenario(
    "topology/best-effort-lacks-cpus",
    "Under best-effort a request for more than is free is refused for lack of CPUs",
    TOPOLOGY_POLICIES,
    needs=_NODES,
    capabilities=_REFUSALS,
)
def best_effort_lacks_cpus(node: LockstepNode) -> None:
    """The whole node lacks CPUs, so the CPU manager refuses the pod."""
    node.boot(_config(node, _BEST_EFFORT))
    whole = node.view.shared_pool
    status = node.apply(guaranteed("a", len(node.free) + 1))
    node.promise_equal("The pod is rejected", "phase of pod a", Phase.REJECTED, status.phase)
    node.promise_equal("The reason is named", "reason", "UnexpectedAdmissionError", status.reason)
    node.promise_cpus("The pool is whole", "shared pool", whole, node.view.shared_pool)


@scenario(
    "topology/none-admits-every-pod",
    "Under policy none a request larger than any NUMA node is admitted, whatever the scope",
    TOPOLOGY_POLICIES,
    level=Level.CORE,
    since="1.20",
    needs=_NODES,
)
def none_admits_every_pod(node: LockstepNode) -> None:
    """The Topology Manager does nothing by default."""
    node.boot(_config(node, "none", scope="pod"))
    count = _node_size(node) + 1
    _promise_running(node, "a", node.apply(guaranteed("a", count)))
    node.promise_equal("It has its CPUs", "number of CPUs of a/c", count, len(node.taken("a")))


# -- scope ---------------------------------------------------------------------------------------


def _apply_divided(node: LockstepNode) -> tuple[CPUSet, CPUSet]:
    """A pod of two containers: one for all that is left in the first NUMA node, and one more CPU.
    Other nodes have room for both."""
    node.apply(guaranteed("before", len(node.reserved) + 1))
    left = len(_free_in(node, _first(node)))
    _promise_running(node, "a", node.apply(guaranteed("a", left, 1)))
    one, two = node.taken("a", "c1"), node.taken("a", "c2")
    node.promise_equal("Each has its CPUs", "CPUs of c1 and c2", (left, 1), (len(one), len(two)))
    return one, two


@scenario(
    "topology/pod-scope-keeps-containers-together",
    "Under scope pod all containers of a pod lie in one NUMA node",
    TOPOLOGY_SCOPES,
    level=Level.CORE,
    since="1.20",
    needs=_SPLIT,
)
def pod_scope_keeps_containers_together(node: LockstepNode) -> None:
    """The first container alone would fit where the two do not."""
    node.boot(_config(node, _SINGLE, scope="pod"))
    one, two = _apply_divided(node)
    _promise_within(node, "c1 and c2", one | two, count=len(one) + len(two))


@scenario(
    "topology/container-scope-lets-containers-differ",
    "Under scope container each container of a pod has a NUMA node of its own",
    TOPOLOGY_SCOPES,
    level=Level.CORE,
    needs=_SPLIT,
)
def container_scope_lets_containers_differ(node: LockstepNode) -> None:
    """The first container fills up a NUMA node, the second lies in another."""
    node.boot(_config(node, _SINGLE))
    one, two = _apply_divided(node)
    _promise_within(node, "a/c1", one, count=len(one))
    _promise_within(node, "a/c2", two, count=1)
    node.promise(
        node.topology.numa_node_ids(one) != node.topology.numa_node_ids(two),
        "They lie in different ones",
        Difference(what="NUMA nodes of a/c1 and a/c2", expected="two", seen="one"),
    )


@scenario(
    "topology/pod-scope-refuses-the-sum",
    "Under scope pod containers that fit no NUMA node together are refused, though each fits one",
    TOPOLOGY_SCOPES,
    level=Level.CORE,
    since="1.20",
    needs=_SPLIT,
    capabilities=_REFUSALS,
)
def pod_scope_refuses_the_sum(node: LockstepNode) -> None:
    """Under scope container the same pod would run."""
    node.boot(_config(node, _SINGLE, scope="pod"))
    half = _node_size(node) // 2
    status = node.apply(guaranteed("a", half, half + 1))
    _promise_refused(node, "a", status)


@scenario(
    "topology/refusal-returns-what-was-taken",
    "A pod whose second container is refused leaves no CPU assigned to its first one",
    TOPOLOGY_PAGE,
    level=Level.CORE,
    needs=_NODES,
    capabilities=_REFUSALS,
)
def refusal_returns_what_was_taken(node: LockstepNode) -> None:
    """Containers are admitted one after the other, pods as a whole."""
    node.boot(_config(node, _SINGLE))
    whole = node.view.shared_pool
    status = node.apply(guaranteed("a", 1, _node_size(node) + 1))
    _promise_refused(node, "a", status)
    node.pass_admission()
    node.promise_cpus("It holds no CPU", "exclusive CPUs a/c1", CPUSet(), node.taken("a", "c1"))
    node.promise_cpus("The pool is whole", "shared pool", whole, node.view.shared_pool)


@scenario(
    "topology/app-lies-with-its-init-container",
    "An app container lies in the NUMA node of the init container whose CPUs it reuses",
    INIT_CONTAINERS,
    level=Level.CORE,
    needs=_NODES,
)
def app_lies_with_its_init_container(node: LockstepNode) -> None:
    """It asks for as many CPUs as that NUMA node had to give, those of the init container
    included."""
    node.boot(_config(node, _RESTRICTED))
    numa = _first(node)
    room = _free_in(node, numa)
    containers = [exclusive("setup", 1, kind=Kind.INIT), exclusive("main", len(room))]
    _promise_running(node, "a", node.apply(guaranteed_of("a", containers)))
    node.promise_cpus(
        "The app container has all that was free there, the reused CPU too",
        "exclusive CPUs a/main",
        room,
        node.taken("a", "main"),
    )


# -- restart -------------------------------------------------------------------------------------


def _keeps_over_restart(node: LockstepNode, policy: str, scope: str) -> None:
    node.boot(_config(node, policy, scope=scope))
    one, two = _apply_divided(node)
    node.kill()
    node.start()
    status = node.view.pods.get("a", PodView(Phase.PENDING))
    _promise_running(node, "a", status)
    node.promise_cpus("The first keeps its CPUs", "exclusive CPUs a/c1", one, node.taken("a", "c1"))
    node.promise_cpus("The second too", "exclusive CPUs a/c2", two, node.taken("a", "c2"))


@scenario(
    "topology/restart-keeps-containers",
    "After a restart containers keep the CPUs that single-numa-node gave them",
    TOPOLOGY_PAGE,
    level=Level.CORE,
    needs=_SPLIT,
    capabilities=[Capability.RESTART],
)
def restart_keeps_containers(node: LockstepNode) -> None:
    """Only the NUMA nodes of the CPUs that they hold are considered."""
    _keeps_over_restart(node, _SINGLE, "container")


@scenario(
    "topology/restart-keeps-pods",
    "After a restart a pod keeps the CPUs that scope pod gave it",
    TOPOLOGY_SCOPES,
    since="1.20",
    needs=_SPLIT,
    capabilities=[Capability.RESTART],
)
def restart_keeps_pods(node: LockstepNode) -> None:
    """The pod is asked for as a whole again, and holds it already."""
    _keeps_over_restart(node, _RESTRICTED, "pod")


@scenario(
    "topology/restart-keeps-full-pods",
    "After a restart a pod that holds a whole NUMA node keeps it under scope pod",
    TOPOLOGY_SCOPES,
    level=Level.CORE,
    since="1.20",
    needs=_NODES,
    capabilities=[Capability.RESTART],
)
def restart_keeps_full_pods(node: LockstepNode) -> None:
    """No other NUMA node has room for the pod, which keeps the CPUs that it holds."""
    node.boot(_config(node, _SINGLE, scope="pod"))
    for numa in node.topology.numa_masks:
        node.apply(guaranteed(f"fills-{numa}", len(_free_in(node, numa))))
    held = {pod: node.taken(pod) for pod in node.view.pods}
    node.kill()
    node.start()
    for pod, cpus in held.items():
        _promise_running(node, pod, node.view.pods.get(pod, PodView(Phase.PENDING)))
        node.promise_cpus("It keeps its CPUs", f"exclusive CPUs {pod}/c", cpus, node.taken(pod))


@scenario(
    "topology/stricter-policy-applies-to-running-pods",
    "A pod that lies in more NUMA nodes than needed is refused once restricted is configured",
    TOPOLOGY_POLICIES,
    needs=_SCATTERED,
    capabilities=[Capability.RESTART, Capability.CONFIGURE, *_REFUSALS],
)
def stricter_policy_applies_to_running_pods(node: LockstepNode) -> None:
    """The kubelet admits every pod again at each start, also one that holds CPUs."""
    node.boot(_config(node, _BEST_EFFORT))
    count = _scatter(node)
    _promise_running(node, "a", node.apply(guaranteed("a", count)))
    node.stop()
    node.configure(_config(node, _RESTRICTED))
    node.start()
    status = node.view.pods.get("a", PodView(Phase.PENDING))
    node.promise_equal("The pod is rejected", "phase of pod a", Phase.REJECTED, status.phase)
    node.promise_equal("The reason is named", "reason", "TopologyAffinityError", status.reason)


# -- what hints count ----------------------------------------------------------------------------


@scenario(
    "topology/every-container-follows-its-hint",
    "Under single-numa-node a pod's second container lies in one NUMA node as its first does",
    TOPOLOGY_POLICIES,
    level=Level.CORE,
    needs=_SPLIT,
)
def every_container_follows_its_hint(node: LockstepNode) -> None:
    """The second asks for more than the first has left in its NUMA node. Without its hint it would
    begin there and go on in another."""
    node.boot(_config(node, _SINGLE))
    count = _too_large_for_the_first(node)
    node.apply(guaranteed("a", 1, count))
    _promise_within(node, "a/c1", node.taken("a", "c1"), count=1)
    _promise_within(node, "a/c2", node.taken("a", "c2"), count=count)


@scenario(
    "topology/hints-count-earlier-containers",
    "Under single-numa-node two containers that fit no NUMA node together lie in one each",
    HINTS_IN_TURN,
    level=Level.CORE,
    needs=_SPLIT,
)
def hints_count_earlier_containers(node: LockstepNode) -> None:
    """What the first has taken is gone for the second, so its hint is another NUMA node."""
    node.boot(_config(node, _SINGLE))
    count = _node_size(node) // 2 + 1
    _promise_running(node, "a", node.apply(guaranteed("a", count, count)))
    for name in ("c1", "c2"):
        _promise_within(node, f"a/{name}", node.taken("a", name), count=count)


@scenario(
    "topology/restricted-admits-three-numa-nodes",
    "Under restricted a request that needs three NUMA nodes on any machine lies in three",
    TOPOLOGY_POLICIES,
    level=Level.CORE,
    needs=replace(_NODES, numa_nodes=4),
)
def restricted_admits_three_numa_nodes(node: LockstepNode) -> None:
    """Three are the fewest for it, so a hint of three is preferred."""
    topology = node.topology
    several_in_a_socket = topology.num_numa_nodes > topology.num_sockets
    if several_in_a_socket and not node.release_has(Behaviour.ORDERED_ALLOCATION):
        raise DoesNotApply(
            "needs a socket for each NUMA node: up to 1.21 chance decides which of two sockets "
            "gives its cores first"
        )
    node.boot(_config(node, _RESTRICTED))
    count = 2 * _node_size(node) + 1
    _promise_running(node, "a", node.apply(guaranteed("a", count)))
    _promise_within(node, "a/c", node.taken("a"), count=count, nodes=3)


@scenario(
    "topology/pod-scope-counts-init-containers",
    "Under scope pod an init container larger than any NUMA node has its pod refused",
    TOPOLOGY_SCOPES,
    level=Level.CORE,
    since="1.20",
    needs=_NODES,
    capabilities=_REFUSALS,
)
def pod_scope_counts_init_containers(node: LockstepNode) -> None:
    """The pod needs as much as the largest of its init containers, though its app container would
    fit any NUMA node."""
    node.boot(_config(node, _SINGLE, scope="pod"))
    whole = node.view.shared_pool
    setup = exclusive("setup", _node_size(node) + 1, kind=Kind.INIT)
    status = node.apply(guaranteed_of("a", [setup, exclusive("main", 1)]))
    _promise_refused(node, "a", status)
    node.promise_cpus("No CPU is taken", "shared pool", whole, node.view.shared_pool)


@scenario(
    "topology/pod-scope-counts-sidecars",
    "Under scope pod sidecars larger together than any NUMA node have their pod refused",
    SIDECARS_AND_HINTS,
    level=Level.CORE,
    since="1.29",
    needs=_NODES,
    capabilities=_REFUSALS,
)
def pod_scope_counts_sidecars(node: LockstepNode) -> None:
    """They run at the same time, though each of them would fit any NUMA node."""
    node.boot(_config(node, _SINGLE, scope="pod"))
    whole = node.view.shared_pool
    count = _node_size(node) // 2 + 1
    sidecars = [exclusive(name, count, kind=Kind.SIDECAR) for name in ("one", "two")]
    status = node.apply(guaranteed_of("a", [*sidecars, exclusive("main", 1)]))
    _promise_refused(node, "a", status)
    node.promise_cpus("No CPU is taken", "shared pool", whole, node.view.shared_pool)


@scenario(
    "topology/init-container-pins-its-pod",
    "An init container in a NUMA node without room for its app container has the pod refused",
    INIT_PINS_NODE,
    needs=_NODES,
    capabilities=_REFUSALS,
)
def init_container_pins_its_pod(node: LockstepNode) -> None:
    """A known defect: the init container took the last free CPU of the first NUMA node. The app
    container has to reuse this CPU, so it does not fit into one NUMA node. The other NUMA nodes are
    empty."""
    node.boot(_config(node, _SINGLE))
    node.apply(guaranteed("fills", len(_free_in(node, _first(node))) - 1))
    setup = exclusive("setup", 1, kind=Kind.INIT)
    status = node.apply(guaranteed_of("a", [setup, exclusive("main", 2)]))
    _promise_refused(node, "a", status)
    _promise_running(node, "b", node.apply(guaranteed("b", 2)))


# -- options -------------------------------------------------------------------------------------


@scenario(
    "topology/closest-numa-nodes",
    "Under prefer-closest-numa-nodes a request for two NUMA nodes gets two that are close",
    CLOSEST_NUMA,
    level=Level.CORE,
    since="1.26",
    machine="2s-4n-64c-smt2",
)
def closest_numa_nodes(node: LockstepNode) -> None:
    """With the first node full, the lowest pair spans both sockets and the highest does not."""
    closest = {"prefer-closest-numa-nodes": "true"}
    node.boot(_config(node, _RESTRICTED, options=closest))
    node.apply(guaranteed("fills", len(_free_in(node, _first(node)))))
    count = _node_size(node) + 1
    node.apply(guaranteed("a", count))
    taken = node.taken("a")
    _promise_within(node, "a/c", taken, count=count, nodes=2)
    node.promise_equal("Both lie in one socket", "sockets", 1, len(node.topology.socket_ids(taken)))


@scenario(
    "topology/each-pod-gets-close-numa-nodes",
    "Under prefer-closest-numa-nodes two pods that need two NUMA nodes each get close ones",
    CLOSEST_NUMA,
    since="1.26",
    machine="2s-4n-64c-smt2",
)
def each_pod_gets_close_numa_nodes(node: LockstepNode) -> None:
    """One after the other, each in a socket of its own."""
    node.boot(_config(node, _RESTRICTED, options={"prefer-closest-numa-nodes": "true"}))
    count = _node_size(node) + 1
    for name in ("a", "b"):
        node.apply(guaranteed(name, count))
        _promise_within(node, f"{name}/c", node.taken(name), count=count, nodes=2)
        sockets = len(node.topology.socket_ids(node.taken(name)))
        node.promise_equal("Both lie in one socket", f"sockets of {name}/c", 1, sockets)


@scenario(
    "topology/far-numa-nodes-where-close-ones-are-full",
    "Under prefer-closest-numa-nodes best-effort takes far NUMA nodes where close ones lack room",
    CLOSEST_NUMA,
    since="1.26",
    machine="2s-4n-64c-smt2",
)
def far_numa_nodes_where_close_ones_are_full(node: LockstepNode) -> None:
    """The second node of each socket is full, so the two that have room lie in two sockets."""
    node.boot(_config(node, _BEST_EFFORT, options={"prefer-closest-numa-nodes": "true"}))
    size = _node_size(node)
    for name, count in (("one", len(_free_in(node, 0))), ("two", size), ("three", size)):
        node.apply(guaranteed(name, count))
    node.apply(guaranteed("four", size))
    for name in ("one", "three"):
        node.delete(name)
    count = size + 1
    _promise_running(node, "a", node.apply(guaranteed("a", count)))
    _promise_within(node, "a/c", node.taken("a"), count=count, nodes=2)
    sockets = len(node.topology.socket_ids(node.taken("a")))
    node.promise_equal("They lie in two sockets", "sockets of a/c", 2, sockets)


@scenario(
    "topology/lowest-numa-nodes",
    "Without prefer-closest-numa-nodes a request for two NUMA nodes gets those with the lowest ids",
    CLOSEST_NUMA,
    since="1.19",  # before, nodes of one socket came first
    machine="2s-4n-64c-smt2",
)
def lowest_numa_nodes(node: LockstepNode) -> None:
    """Even where they are far from each other."""
    node.boot(_config(node, _RESTRICTED))
    node.apply(guaranteed("fills", len(_free_in(node, _first(node)))))
    node.apply(guaranteed("a", _node_size(node) + 1))
    node.promise_equal(
        "It lies in the second and the third",
        "NUMA nodes of a/c",
        list(node.topology.numa_masks)[1:3],
        node.topology.numa_node_ids(node.taken("a")),
    )


@scenario(
    "topology/align-by-socket-widens-restricted",
    "Under align-by-socket restricted admits what fits a socket, though no NUMA node has room",
    BY_SOCKET,
    level=Level.CORE,
    since="1.25",
    machine="2s-4n-64c-smt2",
)
def align_by_socket_widens_restricted(node: LockstepNode) -> None:
    """Two NUMA nodes of one socket have room between them, the others are full."""
    node.boot(_config(node, _RESTRICTED, by_socket=True))
    size = _node_size(node)
    for number, count in enumerate((len(_free_in(node, _first(node))), size, size, size)):
        node.apply(guaranteed(f"fills-{number}", count))
    node.delete("fills-1")
    node.apply(guaranteed("takes-one", 1))
    node.delete("fills-0")
    _promise_running(node, "a", node.apply(guaranteed("a", size)))
    taken = node.taken("a")
    _promise_within(node, "a/c", taken, count=size, nodes=2)
    node.promise_equal("They lie in one socket", "sockets", 1, len(node.topology.socket_ids(taken)))


@scenario(
    "topology/align-by-socket-widens-the-hint",
    "Under align-by-socket a request as large as a socket lies in one, wherever its hint begins",
    BY_SOCKET,
    level=Level.CORE,
    since="1.25",
    machine="2s-4n-64c-smt2",
)
def align_by_socket_widens_the_hint(node: LockstepNode) -> None:
    """The first NUMA node is taken, so the two lowest free ones lie in two sockets. The second
    socket is free."""
    node.boot(_config(node, _RESTRICTED, by_socket=True))
    node.apply(guaranteed("fills", len(_free_in(node, _first(node)))))
    count = 2 * _node_size(node)
    _promise_running(node, "a", node.apply(guaranteed("a", count)))
    taken = node.taken("a")
    _promise_within(node, "a/c", taken, count=count, nodes=2)
    node.promise_equal("They lie in one socket", "sockets", 1, len(node.topology.socket_ids(taken)))


@scenario(
    "topology/align-by-socket-excludes-single-numa-node",
    "Option align-by-socket under policy single-numa-node keeps the kubelet from starting",
    BY_SOCKET,
    level=Level.CORE,
    since="1.25",
    capabilities=[Capability.START_ERROR],
)
def align_by_socket_excludes_single_numa_node(node: LockstepNode) -> None:
    """One asks for sockets, the other for NUMA nodes."""
    node.boot(_config(node, _SINGLE, by_socket=True))
    node.promise_refusal("policy is incompatible with CPUManager align-by-socket policy option")


# -- settings ------------------------------------------------------------------------------------


@scenario(
    "topology/unknown-policy-is-refused",
    "A Topology Manager policy that does not exist keeps the kubelet from starting",
    TOPOLOGY_PAGE,
    level=Level.CORE,
    since="1.20",
    capabilities=[Capability.START_ERROR],
)
def unknown_policy_is_refused(node: LockstepNode) -> None:
    """A typing error must not become the policy none."""
    node.boot(_config(node, "restrict"))
    node.promise_refusal("topologyManagerPolicy", "restrict")


@scenario(
    "topology/unknown-scope-is-refused",
    "A Topology Manager scope that does not exist keeps the kubelet from starting",
    TOPOLOGY_PAGE,
    level=Level.CORE,
    since="1.20",
    capabilities=[Capability.START_ERROR],
)
def unknown_scope_is_refused(node: LockstepNode) -> None:
    """Even under policy none, which has no use for a scope."""
    node.boot(_config(node, "none", scope="node"))
    node.promise_refusal("topologyManagerScope", "node")


@scenario(
    "topology/nine-numa-nodes-are-refused",
    "Under a Topology Manager policy the kubelet does not start on more than eight NUMA nodes",
    TOPOLOGY_PAGE,
    level=Level.CORE,
    machine="1s-1n-4c-smt1",
    capabilities=[Capability.START_ERROR],
)
def nine_numa_nodes_are_refused(node: LockstepNode) -> None:
    """NUMA nodes without CPUs count too."""
    node.boot(_config(node, _BEST_EFFORT), machine=machine("1s-1n-4c-smt1-mem8"))
    node.promise_refusal("unsupported on machines with more than 8 NUMA Nodes")


@scenario(
    "topology/none-starts-on-nine-numa-nodes",
    "Under policy none the kubelet starts on more than eight NUMA nodes",
    TOPOLOGY_PAGE,
    machine="1s-1n-4c-smt1",
)
def none_starts_on_nine_numa_nodes(node: LockstepNode) -> None:
    """No hints are made under policy none."""
    node.boot(machine=machine("1s-1n-4c-smt1-mem8"))
    _promise_running(node, "a", node.apply(guaranteed("a", 1)))


@scenario(
    "topology/max-allowable-numa-nodes",
    "Option max-allowable-numa-nodes lifts the limit of eight NUMA nodes",
    NUMA_LIMIT,
    level=Level.CORE,
    since="1.31",
    machine="1s-1n-4c-smt1",
)
def max_allowable_numa_nodes(node: LockstepNode) -> None:
    """The value of the option is the new limit."""
    limit = {"max-allowable-numa-nodes": "9"}
    node.boot(_config(node, _SINGLE, options=limit), machine=machine("1s-1n-4c-smt1-mem8"))
    _promise_running(node, "a", node.apply(guaranteed("a", 1)))
    _promise_within(node, "a/c", node.taken("a"), count=1)


@scenario(
    "topology/too-low-a-limit-is-refused",
    "A limit of fewer than eight NUMA nodes keeps the kubelet from starting",
    NUMA_LIMIT,
    since="1.31",
    machine="1s-1n-4c-smt1",
    capabilities=[Capability.START_ERROR],
)
def too_low_a_limit_is_refused(node: LockstepNode) -> None:
    """Every kubelet supports eight NUMA nodes."""
    node.boot(_config(node, _RESTRICTED, options={"max-allowable-numa-nodes": "7"}))
    node.promise_refusal(
        'the minimum value of "max-allowable-numa-nodes" should not be less than 8'
    )


@scenario(
    "topology/unknown-option-is-refused",
    "A Topology Manager option that does not exist keeps the kubelet from starting",
    TOPOLOGY_PAGE,
    level=Level.CORE,
    since="1.26",
    capabilities=[Capability.START_ERROR],
)
def unknown_option_is_refused(node: LockstepNode) -> None:
    """A typing error must not go unnoticed."""
    node.boot(_config(node, _RESTRICTED, options={"prefer-close-numa-nodes": "true"}))
    node.promise_refusal('unknown Topology Manager Policy option: "prefer-close-numa-nodes"')
