"""The Topology Manager as far as it decides CPUs: on which NUMA nodes a pod's CPUs lie, and which
pods are refused because they cannot lie where they must.

The body of a scenario reads room off the node it drives: which NUMA node comes first, how many of
its CPUs are free. Two facts hold everywhere: of NUMA nodes that hold a request equally well the one
with the lowest id is taken, and a request of just what is free in a node fits that node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import DoesNotApply
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Level, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import CONFIGURES, REJECTIONS, START_ERROR
from conformance.scenarios.aligning import BEST_EFFORT, RESTRICTED, SINGLE, aligning_alone
from conformance.scenarios.entering import core, refused, row
from conformance.scenarios.hint_parts import TWO_NODES
from conformance.scenarios.optional import aligning_with
from conformance.scenarios.outcomes import (
    promise_count,
    promise_full_nodes_kept,
    promise_rejected,
    promise_running,
    restart_with,
    status_of,
    take,
)
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.steps import Kind, Pod
from topologies import machine

_topology: Final = partial(promised, area="topology")

#: Room to leave every NUMA node but two full, and those two with a CPU taken.
_SCATTERED: Final = replace(TWO_NODES, numa_cores=3)
#: Room for a pod that leaves just some of the first NUMA node free.
_SPLIT: Final = replace(TWO_NODES, numa_cores=4)
_FOUR: Final = "2s-4n-64c-smt2"
#: Eight NUMA nodes, of which each is near to four others.
_MESHED: Final = "4s-8n-64c-smt1-opteron6276"
_PREFER_CLOSEST: Final = {"prefer-closest-numa-nodes": "true"}

_policy: Final = partial(core, area="topology", source=sources.TOPOLOGY_POLICIES, needs=TWO_NODES)
_row: Final = partial(row, enter=_policy)
_scope: Final = partial(
    core, area="topology", source=sources.TOPOLOGY_SCOPES, since="1.20", needs=_SPLIT
)
_closest: Final = partial(
    promised, area="topology", source=sources.CLOSEST_NUMA, since="1.26", machine=_FOUR
)
_by_socket: Final = partial(
    core, area="topology", source=sources.BY_SOCKET, since="1.25", machine=_FOUR
)


# -- what a scenario reads off its node ----------------------------------------------------------


def _node_size(node: LockstepNode) -> int:
    """How many CPUs each NUMA node has; for even machines."""
    return len(node.cpus) // node.topology.num_numa_nodes


def _larger_than_a_node(node: LockstepNode) -> int:
    return _node_size(node) + 1


def _free_in(node: LockstepNode, numa: int) -> CPUSet:
    return node.free & node.topology.cpus_in_numa_nodes(numa)


def _free_in_first(node: LockstepNode) -> CPUSet:
    return _free_in(node, min(node.topology.numa_masks))


def _fill_first(node: LockstepNode, left: int = 0) -> None:
    """Leave so many free CPUs in the first NUMA node."""
    node.apply(guaranteed("fills", len(_free_in_first(node)) - left))


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
    rule = "They lie in one NUMA node" if nodes == 1 else f"They lie in {nodes} NUMA nodes"
    where, seen = f"NUMA nodes of {what}, CPUs {cpus}", ", ".join(map(str, numa))
    node.promise_that(len(numa) <= nodes, rule, where, f"{nodes} of them", seen)


def _lies_within(node: LockstepNode, count: int, *, nodes: int = 1, pod: str = "a") -> CPUSet:
    """Apply a pod for so many CPUs, and promise that it has them within so many NUMA nodes."""
    taken = take(node, pod, count)
    _promise_within(node, f"{pod}/c", taken, count=count, nodes=nodes)
    return taken


def _runs_within(node: LockstepNode, count: int, *, nodes: int = 1) -> CPUSet:
    """The same, and promise before that the pod runs."""
    node.run(guaranteed("a", count))
    _promise_within(node, "a/c", node.taken("a"), count=count, nodes=nodes)
    return node.taken("a")


def _promise_in_one_socket(node: LockstepNode, rule: str, what: str, cpus: CPUSet) -> None:
    node.promise_equal(rule, what, 1, len(node.topology.socket_ids(cpus)))


def _promise_refused(node: LockstepNode) -> None:
    status = status_of(node, "a")
    promise_rejected(node, status, "TopologyAffinityError")
    text, said = "Resources cannot be allocated with Topology locality", status.message
    node.promise_that(said.endswith(text), "The message says why", "message", f"… {text}", said)


# -- single-numa-node ----------------------------------------------------------------------------


def _keeps_together(node: LockstepNode, policy: str) -> None:
    node.boot(aligning_alone(node, policy))
    _lies_within(node, _too_large_for_the_first(node))


def _refuses(node: LockstepNode, policy: str, count: Callable[[LockstepNode], int]) -> None:
    node.boot(aligning_alone(node, policy))
    node.apply(guaranteed("a", count(node)))
    _promise_refused(node)


def _lies_in_two(node: LockstepNode, policy: str, count: Callable[[LockstepNode], int]) -> None:
    node.boot(aligning_alone(node, policy))
    _runs_within(node, count(node), nodes=2)


_row(
    "topology/single-numa-node-keeps-together",
    "Under single-numa-node a container's CPUs lie in one NUMA node",
    """The request is one CPU larger than what is free in the fullest NUMA node. The CPUs are not
    split between that NUMA node and another.""",
    lambda node: _keeps_together(node, SINGLE),
)
_row(
    "topology/single-numa-node-refuses-too-large",
    "Under single-numa-node a request larger than any NUMA node is refused",
    "The machine has enough free CPUs, but no single NUMA node has.",
    lambda node: _refuses(node, SINGLE, _larger_than_a_node),
    capabilities=REJECTIONS,
)
_row(
    "topology/single-numa-node-refuses-scattered",
    "Under single-numa-node a request that no NUMA node has room for is refused",
    "Two NUMA nodes together have room for it.",
    lambda node: _refuses(node, SINGLE, _scatter),
    level=Level.EXTENDED, needs=_SCATTERED, capabilities=REJECTIONS,
)  # fmt: skip


@_policy(source=sources.TOPOLOGY_WITHOUT_DEVICES)
def pods_without_cpus_are_admitted(node: LockstepNode) -> None:
    """Under single-numa-node pods without exclusive CPUs are admitted.
    They have no preference for a NUMA node."""
    node.boot(aligning_alone(node, SINGLE))
    node.run(best_effort("a"))
    node.run(guaranteed("b", "500m"))


# -- restricted ----------------------------------------------------------------------------------

_row(
    "topology/restricted-refuses-scattered",
    "Under restricted a request that now needs more NUMA nodes than on an empty machine is refused",
    """On an empty machine one NUMA node could hold it, so a hint for two NUMA nodes is not
    preferred.""",
    lambda node: _refuses(node, RESTRICTED, _scatter),
    needs=_SCATTERED, capabilities=REJECTIONS,
)  # fmt: skip
_row(
    "topology/restricted-admits-the-fewest",
    "Under restricted a request that needs two NUMA nodes on any machine lies in two",
    "A request one CPU larger than a NUMA node.",
    lambda node: _lies_in_two(node, RESTRICTED, _larger_than_a_node),
    needs=_SCATTERED,
)

# -- best-effort and none ------------------------------------------------------------------------

_row(
    "topology/best-effort-admits-scattered",
    "Under best-effort a request that fits no single NUMA node gets its CPUs in two",
    "What restricted refuses, on a machine in the same state.",
    lambda node: _lies_in_two(node, BEST_EFFORT, _scatter),
    needs=_SCATTERED,
)
_row(
    "topology/best-effort-keeps-together",
    "Under best-effort a container's CPUs lie in one NUMA node where one has room",
    "It admits every pod, and aligns a pod if it can.",
    lambda node: _keeps_together(node, BEST_EFFORT),
)


@_topology(sources.TOPOLOGY_POLICIES, needs=TWO_NODES, capabilities=REJECTIONS)
def best_effort_lacks_cpus(node: LockstepNode) -> None:
    """Under best-effort a request for more than is free is refused for lack of CPUs.
    The whole node lacks CPUs, so the CPU manager refuses the pod."""
    node.boot(aligning_alone(node, BEST_EFFORT))
    whole = node.view.shared_pool
    node.apply(guaranteed("a", len(node.free) + 1))
    promise_rejected(node, status_of(node, "a"), "UnexpectedAdmissionError")
    node.promise_pool("The pool is whole", whole)


@_policy(since="1.20")
def none_admits_every_pod(node: LockstepNode) -> None:
    """Under policy none a request larger than any NUMA node is admitted, whatever the scope.
    The Topology Manager does nothing by default."""
    node.boot(aligning_alone(node, "none", scope="pod"))
    count = _node_size(node) + 1
    node.run(guaranteed("a", count))
    promise_count(node, count)


# -- scope ---------------------------------------------------------------------------------------


def _apply_divided(node: LockstepNode) -> tuple[CPUSet, CPUSet]:
    """A pod of two containers: one for all that is left in the first NUMA node, and one more CPU.
    Other nodes have room for both."""
    node.apply(guaranteed("before", len(node.reserved) + 1))
    left = len(_free_in_first(node))
    node.run(guaranteed("a", left, 1))
    one, two = node.taken("a", "c1"), node.taken("a", "c2")
    node.promise_equal("Each has its CPUs", "CPUs of c1 and c2", (left, 1), (len(one), len(two)))
    return one, two


@_scope()
def pod_scope_keeps_containers_together(node: LockstepNode) -> None:
    """Under scope pod all containers of a pod lie in one NUMA node.
    The first container alone would fit where the two do not."""
    node.boot(aligning_alone(node, SINGLE, scope="pod"))
    one, two = _apply_divided(node)
    _promise_within(node, "c1 and c2", one | two, count=len(one) + len(two))


@_policy(source=sources.TOPOLOGY_SCOPES, needs=_SPLIT)
def container_scope_lets_containers_differ(node: LockstepNode) -> None:
    """Under scope container each container of a pod has a NUMA node of its own.
    The first container fills up a NUMA node, the second lies in another."""
    node.boot(aligning_alone(node, SINGLE))
    one, two = _apply_divided(node)
    _promise_within(node, "a/c1", one, count=len(one))
    _promise_within(node, "a/c2", two, count=1)
    differ = node.topology.numa_node_ids(one) != node.topology.numa_node_ids(two)
    rule, what = "They lie in different ones", "NUMA nodes of a/c1 and a/c2"
    node.promise_that(differ, rule, what, "two", "one")


@_scope(capabilities=REJECTIONS)
def pod_scope_refuses_the_sum(node: LockstepNode) -> None:
    """Under scope pod containers that fit no NUMA node together are refused, though each fits one.
    Under scope container the same pod would run."""
    node.boot(aligning_alone(node, SINGLE, scope="pod"))
    half = _node_size(node) // 2
    node.apply(guaranteed("a", half, half + 1))
    _promise_refused(node)


@_policy(source=sources.TOPOLOGY_PAGE, capabilities=REJECTIONS)
def refusal_returns_what_was_taken(node: LockstepNode) -> None:
    """A pod whose second container is refused leaves no CPU assigned to its first one.
    Containers are admitted one after the other, pods as a whole."""
    node.boot(aligning_alone(node, SINGLE))
    whole = node.view.shared_pool
    node.apply(guaranteed("a", 1, _node_size(node) + 1))
    _promise_refused(node)
    node.pass_admission()
    node.promise_taken("It holds no CPU", "a", CPUSet(), "c1")
    node.promise_pool("The pool is whole", whole)


@_policy(source=sources.INIT_CONTAINERS)
def app_lies_with_its_init_container(node: LockstepNode) -> None:
    """An app container lies in the NUMA node of the init container whose CPUs it reuses.
    It asks for as many CPUs as that NUMA node had to give, those of the init container
    included."""
    node.boot(aligning_alone(node, RESTRICTED))
    room = _free_in_first(node)
    setup = exclusive("setup", 1, kind=Kind.INIT)
    node.run(guaranteed_of("a", [setup, exclusive("main", len(room))]))
    node.promise_taken(
        "The app container has all that was free there, the reused CPU too", "a", room, "main"
    )


# -- restart -------------------------------------------------------------------------------------


def _keeps_over_restart(node: LockstepNode, policy: str, scope: str) -> None:
    node.boot(aligning_alone(node, policy, scope=scope))
    one, two = _apply_divided(node)
    node.restart()
    promise_running(node, "a")
    node.promise_taken("The first keeps its CPUs", "a", one, "c1")
    node.promise_taken("The second too", "a", two, "c2")


_row(
    "topology/restart-keeps-containers",
    "After a restart containers keep the CPUs that single-numa-node gave them",
    "Only the NUMA nodes of the CPUs that they hold are considered.",
    lambda node: _keeps_over_restart(node, SINGLE, "container"),
    source=sources.TOPOLOGY_PAGE, needs=_SPLIT, capabilities=[Capability.RESTART],
)  # fmt: skip
_row(
    "topology/restart-keeps-pods",
    "After a restart a pod keeps the CPUs that scope pod gave it",
    "The pod is asked for as a whole again, and holds it already.",
    lambda node: _keeps_over_restart(node, RESTRICTED, "pod"),
    level=Level.EXTENDED, source=sources.TOPOLOGY_SCOPES, since="1.20", needs=_SPLIT,
    capabilities=[Capability.RESTART],
)  # fmt: skip


@_policy(level=Level.EXTENDED, needs=_SCATTERED, capabilities=[Capability.RESTART])
def restart_keeps_both_nodes(node: LockstepNode) -> None:
    """After a restart a container keeps CPUs of two NUMA nodes that restricted gave it.
    It needs two on any machine. Others hold what it left, so that too few CPUs are free now, and
    the NUMA nodes that it needs are counted over all CPUs."""
    node.boot(aligning_alone(node, RESTRICTED))
    held = take(node, "wide", _larger_than_a_node(node))
    promise_running(node, "wide")
    promise_full_nodes_kept(node, "The pod runs")
    node.promise_taken("It keeps both NUMA nodes", "wide", held)
    node.promise_cpuset("It was not moved", "wide", held)


@_scope(needs=TWO_NODES, capabilities=[Capability.RESTART])
def restart_keeps_full_pods(node: LockstepNode) -> None:
    """After a restart a pod that holds a whole NUMA node keeps it under scope pod.
    No other NUMA node has room for the pod, which keeps the CPUs that it holds."""
    node.boot(aligning_alone(node, SINGLE, scope="pod"))
    promise_full_nodes_kept(node, "The pod runs")


@_scope(needs=TWO_NODES, since="1.29", capabilities=[Capability.RESTART])
def restart_counts_what_sidecars_hold(node: LockstepNode) -> None:
    """After a restart a pod that fills a NUMA node with its sidecar keeps it under scope pod.
    No NUMA node has room for the pod, if the CPUs of its sidecar do not count as its own."""

    def with_sidecar(name: str, cpus: int) -> Pod:
        sidecar = exclusive("side", cpus // 2, kind=Kind.SIDECAR)
        return guaranteed_of(name, [sidecar, exclusive("c", cpus - cpus // 2)])

    node.boot(aligning_alone(node, SINGLE, scope="pod"))
    promise_full_nodes_kept(node, "The pod runs", with_sidecar)


@_scope(needs=TWO_NODES, capabilities=[Capability.RESTART])
def restart_counts_what_init_containers_hold(node: LockstepNode) -> None:
    """After a restart a pod whose init container fills a NUMA node keeps it under scope pod.
    Its app container has half of these CPUs, and the init container, which has ended, holds all of
    them. No NUMA node has room for the pod, if what the init container holds does not count."""

    def with_init(name: str, cpus: int) -> Pod:
        setup = exclusive("setup", cpus, kind=Kind.INIT)
        return guaranteed_of(name, [setup, exclusive("c", max(cpus // 2, 1))])

    node.boot(aligning_alone(node, SINGLE, scope="pod"))
    promise_full_nodes_kept(node, "The pod runs", with_init)


@_topology(sources.TOPOLOGY_POLICIES, needs=_SCATTERED, capabilities=(*CONFIGURES, *REJECTIONS))
def stricter_policy_applies_to_running_pods(node: LockstepNode) -> None:
    """A pod that lies in more NUMA nodes than needed is refused once restricted is configured.
    The kubelet admits every pod again at each start, also one that holds CPUs."""
    node.boot(aligning_alone(node, BEST_EFFORT))
    node.run(guaranteed("a", _scatter(node)))
    restart_with(node, aligning_alone(node, RESTRICTED))
    promise_rejected(node, status_of(node, "a"), "TopologyAffinityError")


# -- what hints count ----------------------------------------------------------------------------


@_policy(needs=_SPLIT)
def every_container_follows_its_hint(node: LockstepNode) -> None:
    """Under single-numa-node a pod's second container lies in one NUMA node as its first does.
    The second asks for more than the first has left in its NUMA node. Without its hint it would
    begin there and go on in another."""
    node.boot(aligning_alone(node, SINGLE))
    count = _too_large_for_the_first(node)
    node.apply(guaranteed("a", 1, count))
    _promise_within(node, "a/c1", node.taken("a", "c1"), count=1)
    _promise_within(node, "a/c2", node.taken("a", "c2"), count=count)


@_policy(source=sources.HINTS_IN_TURN, needs=_SPLIT)
def hints_count_earlier_containers(node: LockstepNode) -> None:
    """Under single-numa-node two containers that fit no NUMA node together lie in one each.
    What the first has taken is gone for the second, so its hint is another NUMA node."""
    node.boot(aligning_alone(node, SINGLE))
    count = _node_size(node) // 2 + 1
    node.run(guaranteed("a", count, count))
    for name in ("c1", "c2"):
        _promise_within(node, f"a/{name}", node.taken("a", name), count=count)


@_policy(needs=replace(TWO_NODES, numa_nodes=4))
def restricted_admits_three_numa_nodes(node: LockstepNode) -> None:
    """Under restricted a request that needs three NUMA nodes on any machine lies in three.
    Three are the fewest for it, so a hint of three is preferred."""
    topology = node.topology
    several_in_a_socket = topology.num_numa_nodes > topology.num_sockets
    if several_in_a_socket and not node.release_has(Behaviour.ORDERED_ALLOCATION):
        raise DoesNotApply(
            "needs a socket for each NUMA node: up to 1.21 chance decides which of two sockets "
            "gives its cores first"
        )
    node.boot(aligning_alone(node, RESTRICTED))
    _runs_within(node, 2 * _node_size(node) + 1, nodes=3)


@_scope(needs=TWO_NODES, capabilities=REJECTIONS)
def pod_scope_counts_init_containers(node: LockstepNode) -> None:
    """Under scope pod an init container larger than any NUMA node has its pod refused.
    The pod needs as much as the largest of its init containers, though its app container would
    fit any NUMA node."""
    node.boot(aligning_alone(node, SINGLE, scope="pod"))
    whole = node.view.shared_pool
    setup = exclusive("setup", _node_size(node) + 1, kind=Kind.INIT)
    node.apply(guaranteed_of("a", [setup, exclusive("main", 1)]))
    _promise_refused(node)
    node.promise_pool("No CPU is taken", whole)


@_policy(source=sources.SIDECARS_AND_HINTS, since="1.29", capabilities=REJECTIONS)
def pod_scope_counts_sidecars(node: LockstepNode) -> None:
    """Under scope pod sidecars larger together than any NUMA node have their pod refused.
    They run at the same time, though each of them would fit any NUMA node."""
    node.boot(aligning_alone(node, SINGLE, scope="pod"))
    whole = node.view.shared_pool
    count = _node_size(node) // 2 + 1
    sidecars = [exclusive(name, count, kind=Kind.SIDECAR) for name in ("one", "two")]
    node.apply(guaranteed_of("a", [*sidecars, exclusive("main", 1)]))
    _promise_refused(node)
    node.promise_pool("No CPU is taken", whole)


@_topology(sources.INIT_PINS_NODE, needs=TWO_NODES, capabilities=REJECTIONS)
def init_container_pins_its_pod(node: LockstepNode) -> None:
    """An init container in a NUMA node without room for its app container has the pod refused.
    A known defect: the init container took the last free CPU of the first NUMA node. The app
    container has to reuse this CPU, so it does not fit into one NUMA node. The other NUMA nodes are
    empty."""
    node.boot(aligning_alone(node, SINGLE))
    _fill_first(node, left=1)
    node.apply(guaranteed_of("a", [exclusive("setup", 1, kind=Kind.INIT), exclusive("main", 2)]))
    _promise_refused(node)
    node.run(guaranteed("b", 2))


# -- options -------------------------------------------------------------------------------------


@_closest(level=Level.CORE)
def closest_numa_nodes(node: LockstepNode) -> None:
    """Under prefer-closest-numa-nodes a request for two NUMA nodes gets two that are close.
    With the first node full, the lowest pair spans both sockets and the highest does not."""
    node.boot(aligning_alone(node, RESTRICTED, options=_PREFER_CLOSEST))
    _fill_first(node)
    taken = _lies_within(node, _larger_than_a_node(node), nodes=2)
    _promise_in_one_socket(node, "Both lie in one socket", "sockets", taken)


@_closest()
def each_pod_gets_close_numa_nodes(node: LockstepNode) -> None:
    """Under prefer-closest-numa-nodes two pods that need two NUMA nodes each get close ones.
    One after the other, each in a socket of its own."""
    node.boot(aligning_alone(node, RESTRICTED, options=_PREFER_CLOSEST))
    for pod in ("a", "b"):
        taken = _lies_within(node, _larger_than_a_node(node), nodes=2, pod=pod)
        _promise_in_one_socket(node, "Both lie in one socket", f"sockets of {pod}/c", taken)


@_closest(level=Level.CORE)
def close_numa_nodes_where_one_would_do(node: LockstepNode) -> None:
    """Under prefer-closest-numa-nodes best-effort takes two close ones for what one could hold.
    The first NUMA node is full and each other one more than half full, so that none has room and no
    hint is preferred. The lowest two that have room lie in two sockets."""
    node.boot(aligning_alone(node, BEST_EFFORT, options=_PREFER_CLOSEST))
    _fill_first(node)
    count = _node_size(node) // 2 + 2
    for number in range(node.topology.num_numa_nodes - 1):
        node.apply(guaranteed(f"half-{number}", count))
    taken = _runs_within(node, count, nodes=2)
    _promise_in_one_socket(node, "Both lie in one socket", "sockets of a/c", taken)


@_closest(level=Level.CORE, machine="1s-1n-4c-smt1")
def closest_counts_every_distance(node: LockstepNode) -> None:
    """Under prefer-closest-numa-nodes three NUMA nodes are those that are all near to each other.
    The first one is as near to the second as to the third, and these two are far from each
    other. The fifth is near to the first and to the second."""
    config = aligning_alone(node, RESTRICTED, options=_PREFER_CLOSEST)
    node.boot(config, machine=machine(_MESHED))
    numa = node.topology.numa_node_ids(take(node, "a", 2 * _node_size(node) + 1))
    node.promise_equal("Each is near to each other", "NUMA nodes of a/c", [0, 1, 4], numa)


@_closest()
def far_numa_nodes_where_close_ones_are_full(node: LockstepNode) -> None:
    """Under prefer-closest-numa-nodes best-effort takes far NUMA nodes where close ones lack room.
    The second node of each socket is full, so the two that have room lie in two sockets."""
    node.boot(aligning_alone(node, BEST_EFFORT, options=_PREFER_CLOSEST))
    size = _node_size(node)
    node.apply(guaranteed("one", len(_free_in(node, 0))))
    for pod in ("two", "three", "four"):
        node.apply(guaranteed(pod, size))
    for pod in ("one", "three"):
        node.delete(pod)
    sockets = len(node.topology.socket_ids(_runs_within(node, size + 1, nodes=2)))
    node.promise_equal("They lie in two sockets", "sockets of a/c", 2, sockets)


@_closest(since="1.19")  # before, nodes of one socket came first
def lowest_numa_nodes(node: LockstepNode) -> None:
    """Without prefer-closest-numa-nodes a request for two NUMA nodes gets those with the lowest
    ids.
    Even where they are far from each other."""
    node.boot(aligning_alone(node, RESTRICTED))
    _fill_first(node)
    numa = node.topology.numa_node_ids(take(node, "a", _larger_than_a_node(node)))
    second_and_third = list(node.topology.numa_masks)[1:3]
    node.promise_equal(
        "It lies in the second and the third", "NUMA nodes of a/c", second_and_third, numa
    )


@_by_socket()
def align_by_socket_widens_restricted(node: LockstepNode) -> None:
    """Under align-by-socket restricted admits what fits a socket, though no NUMA node has room.
    Two NUMA nodes of one socket have room between them, the others are full."""
    node.boot(aligning_with(node, RESTRICTED, "align-by-socket"))
    size = _node_size(node)
    for number, count in enumerate((len(_free_in_first(node)), size, size, size)):
        node.apply(guaranteed(f"fills-{number}", count))
    node.delete("fills-1")
    node.apply(guaranteed("takes-one", 1))
    node.delete("fills-0")
    taken = _runs_within(node, size, nodes=2)
    _promise_in_one_socket(node, "They lie in one socket", "sockets", taken)


@_by_socket()
def align_by_socket_widens_the_hint(node: LockstepNode) -> None:
    """Under align-by-socket a request as large as a socket lies in one, wherever its hint begins.
    The first NUMA node is taken, so the two lowest free ones lie in two sockets. The second
    socket is free."""
    node.boot(aligning_with(node, RESTRICTED, "align-by-socket"))
    _fill_first(node)
    taken = _runs_within(node, 2 * _node_size(node), nodes=2)
    _promise_in_one_socket(node, "They lie in one socket", "sockets", taken)


refused(
    "topology/align-by-socket-excludes-single-numa-node",
    "Option align-by-socket under policy single-numa-node keeps the kubelet from starting",
    sources.BY_SOCKET,
    "One asks for sockets, the other for NUMA nodes.",
    lambda node: aligning_with(node, SINGLE, "align-by-socket"),
    "policy is incompatible with CPUManager align-by-socket policy option",
    level=Level.CORE, since="1.25",
)  # fmt: skip


# -- settings ------------------------------------------------------------------------------------


refused(
    "topology/unknown-policy-is-refused",
    "A Topology Manager policy that does not exist keeps the kubelet from starting",
    sources.TOPOLOGY_PAGE,
    "A typing error must not become the policy none.",
    lambda node: aligning_alone(node, "restrict"),
    "topologyManagerPolicy",
    "restrict",
    level=Level.CORE, since="1.20",
)  # fmt: skip
refused(
    "topology/unknown-scope-is-refused",
    "A Topology Manager scope that does not exist keeps the kubelet from starting",
    sources.TOPOLOGY_PAGE,
    "Even under policy none, which has no use for a scope.",
    lambda node: aligning_alone(node, "none", scope="node"),
    "topologyManagerScope",
    "node",
    level=Level.CORE, since="1.20",
)  # fmt: skip


@core(sources.TOPOLOGY_PAGE, area="topology", machine="1s-1n-4c-smt1", capabilities=START_ERROR)
def nine_numa_nodes_are_refused(node: LockstepNode) -> None:
    """Under a Topology Manager policy the kubelet does not start on more than eight NUMA nodes.
    NUMA nodes without CPUs count too."""
    node.boot(aligning_alone(node, BEST_EFFORT), machine=machine("1s-1n-4c-smt1-mem8"))
    node.promise_refusal("unsupported on machines with more than 8 NUMA Nodes")


@_topology(sources.TOPOLOGY_PAGE, machine="1s-1n-4c-smt1")
def none_starts_on_nine_numa_nodes(node: LockstepNode) -> None:
    """Under policy none the kubelet starts on more than eight NUMA nodes.
    No hints are made under policy none."""
    node.boot(machine=machine("1s-1n-4c-smt1-mem8"))
    node.run(guaranteed("a", 1))


@core(sources.TOPOLOGY_PAGE, area="topology", since="1.18", machine="1s-1n-4c-smt1")
def ids_of_numa_nodes_have_no_limit(node: LockstepNode) -> None:
    """The limit of eight NUMA nodes counts them, whatever their ids are.
    The second of two NUMA nodes has id 8. The kubelet starts, and aligns a pod in it, as the first
    one lacks room."""
    node.boot(aligning_alone(node, SINGLE), machine=machine("2s-2n-8c-smt1-nodestep8"))
    node.promise_equal("The kubelet runs", "whether it runs", True, node.view.running)
    _fill_first(node, left=1)
    held = _runs_within(node, 2)
    seen = node.topology.numa_node_ids(held)
    node.promise_equal("They lie in the other one", "NUMA nodes of a/c", [8], seen)


@core(sources.NUMA_LIMIT, area="topology", since="1.31", machine="1s-1n-4c-smt1")
def max_allowable_numa_nodes(node: LockstepNode) -> None:
    """Option max-allowable-numa-nodes lifts the limit of eight NUMA nodes.
    The value of the option is the new limit."""
    limit = {"max-allowable-numa-nodes": "9"}
    node.boot(aligning_alone(node, SINGLE, options=limit), machine=machine("1s-1n-4c-smt1-mem8"))
    _runs_within(node, 1)


refused(
    "topology/too-low-a-limit-is-refused",
    "A limit of fewer than eight NUMA nodes keeps the kubelet from starting",
    sources.NUMA_LIMIT,
    "Every kubelet supports eight NUMA nodes.",
    lambda node: aligning_alone(node, RESTRICTED, options={"max-allowable-numa-nodes": "7"}),
    'the minimum value of "max-allowable-numa-nodes" should not be less than 8',
    since="1.31", machine="1s-1n-4c-smt1",
)  # fmt: skip
refused(
    "topology/unknown-option-is-refused",
    "A Topology Manager option that does not exist keeps the kubelet from starting",
    sources.TOPOLOGY_PAGE,
    "A typing error must not go unnoticed.",
    lambda node: aligning_alone(node, RESTRICTED, options={"prefer-close-numa-nodes": "true"}),
    'unknown Topology Manager Policy option: "prefer-close-numa-nodes"',
    level=Level.CORE, since="1.26",
)  # fmt: skip
