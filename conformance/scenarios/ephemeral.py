"""Ephemeral containers: they run beside the containers of a pod, and have no CPUs of their own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, guaranteed
from conformance.promises import EXCLUSIVE_TO_ONE
from conformance.scenario import Needs, Source, promised
from conformance.scenarios.abilities import API_SERVER, ENDS, RESIZES
from conformance.scenarios.in_cluster import in_cluster
from conformance.scenarios.outcomes import take
from conformance.scenarios.pod_level_parts import ROOM, pod_of, shared
from conformance.scenarios.sources import POD_LEVEL_MANAGERS
from reference import CPUSet

_SHARED: Final = Source(
    "Documentation: Control CPU Management Policies on the Node",
    "https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/",
)
_NOT_VISITED: Final = Source(
    "Source: reconcileState, which goes through init containers and containers alone (1.36)",
    "https://github.com/kubernetes/kubernetes/blob/v1.36.4/pkg/kubelet/cm/cpumanager/"
    "cpu_manager.go",
)
_AS_STATE_FILE: Final = "A running container's cpuset is what the state file says"

_shared_pool: Final = partial(
    promised, area="ephemeral", source=_SHARED, since="1.32", needs=Needs(free=2)
)


def _promise_debug(
    node: LockstepNode, pod: str, cpus: CPUSet, rule: str = "It runs in the shared pool"
) -> None:
    """Promise the cpuset of the ephemeral container."""
    node.promise_cpuset(rule, pod, cpus, "debug")


@_shared_pool(capabilities=(*API_SERVER, *ENDS))
def beside_exclusive_cpus(node: LockstepNode) -> None:
    """An ephemeral container in a pod with exclusive CPUs runs in the shared pool.
    It cannot ask for CPUs, so it runs where every container without CPUs of its own runs, and
    not on those of its pod. The state file does not know it. Its end releases nothing, and it is
    not started again."""
    node.boot(in_cluster(node))
    cpus = take(node, "a", 2)
    pool, text = node.view.shared_pool, node.view.state_file
    node.add_ephemeral("a", "debug")
    _promise_debug(node, "a", pool)
    node.promise_taken("The pod keeps its CPUs", "a", cpus)
    node.promise_equal("The state file stays", "state file", text, node.view.state_file)
    node.kill_container("a", "debug", exit_code=0)
    node.promise_taken("The pod keeps its CPUs", "a", cpus)
    node.promise_equal("The state file stays", "state file", text, node.view.state_file)
    _promise_debug(node, "a", CPUSet(), "The ephemeral container is gone")


@_shared_pool(capabilities=RESIZES)
def over_a_restart(node: LockstepNode) -> None:
    """A pod with an ephemeral container keeps its exclusive CPUs over a restart.
    The kubelet that starts again finds a container that its state file does not know. The pod
    keeps its CPUs, and the ephemeral container stays off them."""
    node.boot(in_cluster(node))
    cpus, pool = take(node, "a", 2), node.view.shared_pool
    node.add_ephemeral("a", "debug")
    node.restart()
    node.await_reconcile()
    node.promise_taken("The pod keeps its CPUs", "a", cpus)
    _promise_debug(node, "a", pool)


@_shared_pool(capabilities=API_SERVER)
def in_a_shared_pod(node: LockstepNode) -> None:
    """An ephemeral container in a pod without exclusive CPUs runs in the shared pool as it is.
    It starts on the shared pool that another pod's exclusive CPUs have left."""
    node.boot_with(best_effort("s"), guaranteed("a", 2), config=in_cluster(node))
    pool = node.view.shared_pool
    node.add_ephemeral("s", "debug")
    _promise_debug(node, "s", pool)


@_shared_pool(source=_NOT_VISITED, needs=Needs(free=3), capabilities=API_SERVER)
def pool_changes_pass_it_by(node: LockstepNode) -> None:
    """An ephemeral container keeps the cpuset that it started with when the shared pool shrinks.
    A known defect: reconcile rounds skip ephemeral containers. An ephemeral container that
    already runs when a pod gets exclusive CPUs may run on these CPUs too. The entry and the cpuset
    of that pod are right."""
    node.boot_with(best_effort("s"), config=in_cluster(node))
    node.add_ephemeral("s", "debug")
    pool = node.view.shared_pool
    node.expect_broken(EXCLUSIVE_TO_ONE, _AS_STATE_FILE)
    cpus = take(node, "a", 2)
    node.await_reconcile()
    node.promise_cpuset("The pod gets exclusive CPUs", "a", cpus)
    node.promise_on_pool("The other container of its pod follows the pool", "s", "c")
    _promise_debug(node, "s", pool, "The ephemeral container stays as it was")


@promised(POD_LEVEL_MANAGERS, area="ephemeral", since="1.36", needs=ROOM, capabilities=API_SERVER)
def beside_a_pod_pool(node: LockstepNode) -> None:
    """An ephemeral container in a pod with CPUs as a whole runs outside of them, in the shared
    pool.
    The pod's containers share the CPUs that it has as a whole. An ephemeral container is none of
    those that the pod's CPUs were allocated for: it runs in the shared pool of the node."""
    gates = {"PodLevelResourceManagers": True}
    node.boot(replace(in_cluster(node, gates=gates), topology_manager_scope="pod"))
    node.apply(pod_of("a", 2, shared("main")))
    pool, text = node.view.shared_pool, node.view.state_file
    node.add_ephemeral("a", "debug")
    _promise_debug(node, "a", pool, "The ephemeral container runs in the shared pool")
    node.promise_equal("The state file stays", "state file", text, node.view.state_file)
