"""Resizes of several containers, of fractions of a CPU, and of sizes that leave the node fuller or
emptier than its shared pool says: up to 1.37 no release moves exclusive CPUs with a resize.

Feature gate InPlacePodVerticalScalingExclusiveCPUs lets such a resize through. What moves the CPUs
(kubernetes/kubernetes#129719, its parts in #140629) is in no release yet.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import API_SERVER, QUOTAS, REJECTIONS, RESIZES
from conformance.scenarios.hint_parts import promise_phase, promise_refused
from conformance.scenarios.in_cluster import in_cluster
from conformance.scenarios.outcomes import promise_quota
from conformance.scenarios.resize import (
    AS_REQUESTED,
    INFEASIBLE,
    LET_THROUGH,
    NOT_MOVED,
    REFUSED,
    promise_granted,
    promise_pending,
    promise_unmoved,
)
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.steps import Kind, KubeletConfig, Pod
from reference.view import Phase

MOVES: Final = sources.pull(140629, "a resize moves exclusive CPUs, and keeps those of the start")
EXCLUSIVE: Final = sources.kep(
    "5554-in-place-update-pod-resources-alongside-static-cpu-manager-policy",
    "In-place Update of Pod Resources alongside Static CPU Manager Policy",
)

_refused: Final = partial(
    promised, source=REFUSED, area="resize", since="1.32", capabilities=API_SERVER
)
_granted: Final = partial(
    promised, source=NOT_MOVED, area="resize", since="1.27", until="1.37", needs=Needs(free=3)
)
_COUNTED: Final = Needs(free=3, counted_once=True)


def _let_through(node: LockstepNode, *, topology_manager: str = "none") -> KubeletConfig:
    """A configuration whose kubelet refuses no resize for its policy."""
    gates = LET_THROUGH if node.release_has(Behaviour.RESIZE_REFUSED) else {}
    return in_cluster(node, topology_manager=topology_manager, gates=gates)


# -- refused ---------------------------------------------------------------------------------------


@_refused(needs=Needs(free=4))
def one_container_of_two_infeasible(node: LockstepNode) -> None:
    """The kubelet refuses to give one of a Guaranteed pod's containers more exclusive CPUs.
    Neither container loses or gets a CPU, and their weights stay."""
    node.boot_with(guaranteed("a", 2, 1), config=in_cluster(node))
    names, pool = ("c1", "c2"), node.view.shared_pool
    held = {name: (node.taken("a", name), node.shares("a", name)) for name in names}
    promise_pending(node, node.resize(guaranteed("a", 2, 2)), INFEASIBLE)
    for name, (cpus, shares) in held.items():
        node.promise_cpus("It keeps its CPUs", f"CPUs of a/{name}", cpus, node.taken("a", name))
        node.promise_cpuset("Its cpuset stays", "a", cpus, name)
        seen = node.shares("a", name)
        node.promise_equal("Its weight stays", f"CPU shares of a/{name}", shares, seen)
    node.promise_pool("The shared pool stays", pool)


@_refused(since="1.33", needs=Needs(free=4))
def sidecar_infeasible_too(node: LockstepNode) -> None:
    """The kubelet refuses to give a Guaranteed pod's sidecar more exclusive CPUs.
    The sidecar and the app container keep their CPUs and their weights."""

    def pod(cpus: int) -> Pod:
        sidecar = exclusive("side", cpus, kind=Kind.SIDECAR)
        return guaranteed_of("a", [sidecar, exclusive("c", 1)])

    node.boot_with(pod(1), config=in_cluster(node))
    held = {name: (node.taken("a", name), node.shares("a", name)) for name in ("side", "c")}
    promise_pending(node, node.resize(pod(2)), INFEASIBLE)
    for name, (cpus, shares) in held.items():
        node.promise_cpus("It keeps its CPUs", f"CPUs of a/{name}", cpus, node.taken("a", name))
        seen = node.shares("a", name)
        node.promise_equal("Its weight stays", f"CPU shares of a/{name}", shares, seen)


@_refused(needs=Needs(free=2))
def fractions_infeasible_too(node: LockstepNode) -> None:
    """The kubelet refuses to resize a Guaranteed pod that has no exclusive CPU as well.
    It asks for half a CPU and then for a whole one. Refused, it shares as before."""
    node.boot_with(guaranteed("a", "500m"), config=in_cluster(node))
    pool = node.view.shared_pool
    promise_pending(node, node.resize(guaranteed("a", 1)), INFEASIBLE)
    node.promise_taken("It gets no exclusive CPU", "a", CPUSet())
    node.promise_cpuset("Its cpuset is the shared pool", "a", pool)
    node.promise_pool("The shared pool stays", pool)


@_refused(needs=Needs(free=3), since="1.34", capabilities=RESIZES)
def taken_back_waits_no_more(node: LockstepNode) -> None:
    """A resize that is infeasible ends when the pod asks for its old size again.
    Its CPUs stay all the time, and over a restart."""
    node.boot_with(guaranteed("a", 2), config=in_cluster(node))
    cpus, pool = node.taken("a"), node.view.shared_pool
    promise_pending(node, node.resize(guaranteed("a", 3)), INFEASIBLE)
    promise_granted(node, node.resize(guaranteed("a", 2)))
    promise_unmoved(node, "a", cpus, pool)
    node.restart()
    promise_granted(node, node.view.pods["a"])
    promise_unmoved(node, "a", cpus, pool)


# -- granted, and nothing moves --------------------------------------------------------------------


@_granted(needs=_COUNTED, capabilities=(*RESIZES, *REJECTIONS))
def granted_shrink_frees_nothing(node: LockstepNode) -> None:
    """Where the kubelet grants a Guaranteed pod fewer CPUs, those it gives up stay exclusive.
    A known defect up to 1.31, and from 1.32 on with feature gate
    InPlacePodVerticalScalingExclusiveCPUs: a pod has all CPUs that can be exclusive, and is granted
    1 CPU. The node then has room for a second pod by its requests, and no CPU for it: the second
    pod is admitted by one count and refused by the other."""
    pool = node.boot(_let_through(node)).shared_pool
    node.apply(guaranteed("a", len(node.free)))
    cpus = node.taken("a")
    node.expect_broken(AS_REQUESTED)
    promise_granted(node, node.resize(guaranteed("a", 1)))
    promise_unmoved(node, "a", cpus, pool - cpus)
    node.restart()
    promise_unmoved(node, "a", cpus, pool - cpus)
    status = node.apply(guaranteed("b", 1))
    promise_phase(node, "b", status, Phase.REJECTED)
    node.promise_equal("The reason is named", "reason", "UnexpectedAdmissionError", status.reason)
    node.delete("a", passing=True)
    node.promise_pool("All CPUs come back", pool)


@_granted(since="1.33", needs=_COUNTED, capabilities=(*API_SERVER, *REJECTIONS))
def granted_growth_fills_the_node(node: LockstepNode) -> None:
    """Where the kubelet grants a Guaranteed pod more CPUs, it refuses pods for which CPUs are free.
    A known defect with feature gate InPlacePodVerticalScalingExclusiveCPUs: two pods leave one CPU,
    and the smaller one is granted it. The CPU stays in the shared pool, and by its requests the
    node has no room for a third pod."""
    node.boot(_let_through(node))
    node.apply(guaranteed("most", len(node.free) - 2))
    node.apply(guaranteed("b", 1))
    cpus, pool = node.taken("b"), node.view.shared_pool
    node.expect_broken(AS_REQUESTED)
    promise_granted(node, node.resize(guaranteed("b", 2)))
    promise_unmoved(node, "b", cpus, pool)
    promise_refused(node, node.apply(guaranteed("a", 1)), "OutOfcpu")


def _grant_a_whole_cpu(node: LockstepNode) -> CPUSet:
    """Container ``c2`` of pod ``a`` had half a CPU, and is granted one; the CPU of ``c1``."""
    node.boot_with(guaranteed("a", 1, "500m"), config=_let_through(node))
    node.expect_broken(AS_REQUESTED)
    promise_granted(node, node.resize(guaranteed("a", 1, 1)))
    return node.taken("a", "c1")


def _promise_pinned(node: LockstepNode, beside: CPUSet) -> None:
    cpus = node.taken("a", "c2")
    node.promise_equal("It has a CPU", "number of CPUs of a/c2", 1, len(cpus))
    node.promise_cpuset("It runs there", "a", cpus, "c2")
    node.promise_cpus("The other keeps its CPU", "CPUs of a/c1", beside, node.taken("a", "c1"))


@_granted(since="1.35", until="1.36", capabilities=RESIZES)
def granted_whole_cpu_is_pinned(node: LockstepNode) -> None:
    """In 1.35 and 1.36 a container that is granted a whole CPU instead of a fraction gets it.
    With feature gate InPlacePodVerticalScalingExclusiveCPUs the resize is admitted like a pod: who
    has no exclusive CPUs gets some, and who has some keeps just these. Over a restart too."""
    beside = _grant_a_whole_cpu(node)
    _promise_pinned(node, beside)
    node.restart()
    _promise_pinned(node, beside)


@_granted(since="1.37", until="1.37", capabilities=RESIZES)
def granted_whole_cpu_waits_for_a_start(node: LockstepNode) -> None:
    """In 1.37 a container that is granted a whole CPU instead of a fraction gets it at a restart.
    A known defect: with feature gate InPlacePodVerticalScalingExclusiveCPUs the static policy
    ignores the resize. The container stays in the shared pool until a kubelet starts, which finds a
    whole CPU requested and takes one."""
    beside = _grant_a_whole_cpu(node)
    node.promise_cpus("It gets no CPU", "CPUs of a/c2", CPUSet(), node.taken("a", "c2"))
    node.promise_cpuset("It shares", "a", node.view.shared_pool, "c2")
    node.restart()
    _promise_pinned(node, beside)


@_granted(since="1.35", capabilities=RESIZES)
def granted_fraction_keeps_its_cpu(node: LockstepNode) -> None:
    """A container that is granted a fraction instead of a whole CPU keeps its exclusive CPU.
    A known defect with feature gate InPlacePodVerticalScalingExclusiveCPUs: the container requests
    half a CPU, and no other container may run on its whole one, also after a restart."""
    node.boot_with(guaranteed("a", 1), config=_let_through(node))
    cpus, pool = node.taken("a"), node.view.shared_pool
    node.expect_broken(AS_REQUESTED)
    promise_granted(node, node.resize(guaranteed("a", "500m")))
    promise_unmoved(node, "a", cpus, pool)
    node.restart()
    promise_unmoved(node, "a", cpus, pool)


@_granted(source=MOVES, capabilities=RESIZES)
def granted_size_is_kept_under_best_effort(node: LockstepNode) -> None:
    """A Guaranteed pod that was granted more CPUs keeps those of its start under best-effort.
    Also over a restart, at which the Topology Manager finds CPUs of another number than is
    requested: it has no hint of them, and admits the pod."""
    config = _let_through(node, topology_manager="best-effort")
    node.boot_with(guaranteed("a", 2), config=config)
    cpus, pool = node.taken("a"), node.view.shared_pool
    node.expect_broken(AS_REQUESTED)
    promise_granted(node, node.resize(guaranteed("a", 3)))
    promise_unmoved(node, "a", cpus, pool)
    node.restart()
    promise_phase(node, "a", node.view.pods["a"], Phase.RUNNING)
    promise_unmoved(node, "a", cpus, pool)


@_granted(source=EXCLUSIVE, since="1.33", capabilities=(*API_SERVER, *QUOTAS))
def granted_size_sets_no_quota(node: LockstepNode) -> None:
    """A container with exclusive CPUs that is granted another size has no CFS quota.
    Its weight follows its request. Its CPUs do not, up to 1.37."""
    node.boot_with(guaranteed("a", 2), config=_let_through(node))
    node.expect_broken(AS_REQUESTED)
    promise_granted(node, node.resize(guaranteed("a", 3)))
    promise_quota(node, "It has no quota", "a/c", None)
    node.promise_equal("Its weight is the new one", "CPU shares of a/c", 3072, node.shares("a"))


@_granted(source=MOVES, since="1.37", capabilities=(*RESIZES, Capability.STATE_FILE))
def baseline_outlives_a_resize(node: LockstepNode) -> None:
    """With InPlacePodVerticalScalingExclusiveCPUs the state file keeps the CPUs of a pod's start.
    They are its baseline: neither a resize nor a restart changes it. It goes with the pod."""
    node.boot_with(guaranteed("a", 2), config=_let_through(node))
    expected = [str(node.taken("a"))]
    node.promise_equal("It is the pod's CPUs", "baselines", expected, _baselines(node))
    node.expect_broken(AS_REQUESTED)
    promise_granted(node, node.resize(guaranteed("a", 3)))
    node.promise_equal("It stays", "baselines", expected, _baselines(node))
    node.restart()
    node.promise_equal("It outlives a restart", "baselines", expected, _baselines(node))
    node.delete("a")
    node.promise_equal("It goes with the pod", "baselines", [], _baselines(node))


def _baselines(node: LockstepNode) -> list[str]:
    """Those of all containers, as the state file has them."""
    state = json.loads(node.view.state_file or "{}")
    content = json.loads(state["data"]) if "data" in state else state
    found = content.get("baselines") or {}
    return [one["baseline"] for named in found.values() for one in named.values()]
