"""Pods that were deleted, and whose containers take their time to end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, guaranteed
from conformance.promises import AS_BOOKED, EXCLUSIVE_TO_ONE
from conformance.scenario import Needs, promised
from conformance.scenarios.abilities import API_SERVER, CALLS
from conformance.scenarios.sources import TASK_PAGE
from reference import CPUSet
from reference.steps import EndStopping, KubeletConfig
from reference.view import Phase

_stopping: Final = partial(promised, area="stopping")


def _in_cluster(node: LockstepNode) -> KubeletConfig:
    return replace(node.default_config(), api_server=True)


@_stopping(TASK_PAGE, since="1.26", needs=Needs(free=4), capabilities=(*API_SERVER, *CALLS))
def keeps_its_cpus(node: LockstepNode) -> None:
    """A pod keeps its exclusive CPUs until its containers have ended.
    Its containers may run for as long as its termination grace period. The pod that comes
    meanwhile gets other CPUs, and only then are the first pod's CPUs free."""
    node.boot_with(guaranteed("a", 2), config=_in_cluster(node))
    held, pool = node.taken("a"), node.view.shared_pool
    node.apply(guaranteed("b", 2), instead_of="a", stopping=True)
    node.promise_cpus("The pod that stops keeps its CPUs", "CPUs of a/c", held, node.taken("a"))
    both = node.taken("b") & held
    node.promise_cpus("The next pod gets other CPUs", "CPUs of both pods", CPUSet(), both)
    node.to_runtime(EndStopping())
    node.await_reconcile()
    node.promise_pool("Its CPUs come back", (pool | held) - node.taken("b"))


@_stopping(TASK_PAGE, since="1.26", needs=Needs(free=3), capabilities=(*API_SERVER, *CALLS))
def its_cpus_are_not_free(node: LockstepNode) -> None:
    """A pod that needs the CPUs of a pod that still stops is refused.
    All free CPUs are the first pod's. Once its containers have ended, a pod as large fits."""
    node.boot(_in_cluster(node))
    every = len(node.free)
    node.apply(guaranteed("a", every))
    node.apply(guaranteed("b", every), instead_of="a", stopping=True)
    phase = node.view.pods["b"].phase
    node.promise_equal("The next pod is refused", "phase of b", Phase.REJECTED, phase)
    node.to_runtime(EndStopping())
    node.pass_admission()
    phase = node.apply(guaranteed("c", every)).phase
    node.promise_equal("A pod as large fits later", "phase of c", Phase.RUNNING, phase)


@_stopping(TASK_PAGE, since="1.26", needs=Needs(free=3), capabilities=(*API_SERVER, *CALLS))
def shared_pod_stays_off_its_cpus(node: LockstepNode) -> None:
    """A shared container starts without the CPUs of a pod that still stops.
    It gets them when the containers of the first pod have ended."""
    pool = node.boot(_in_cluster(node)).shared_pool
    node.apply(guaranteed("a", 2))
    held = node.taken("a")
    node.apply(best_effort("shared"), instead_of="a", stopping=True)
    node.promise_cpuset("It starts without them", "shared", pool - held)
    node.to_runtime(EndStopping())
    node.pass_admission()
    node.await_reconcile()
    node.promise_cpuset("It gets them later", "shared", pool)


@_stopping(TASK_PAGE, since="1.26", needs=Needs(free=3), capabilities=CALLS)
def static_pods_cpus_are_given_away(node: LockstepNode) -> None:
    """CPUs of a static pod are given to another pod while its containers still run.
    A known defect: it breaks the promise that exclusive CPUs belong to one container alone, for
    as long as the containers take to end. The pod manager forgets a static pod as soon as its
    manifest is gone, so the CPU manager does not count it as active (``HandlePodRemoves``,
    ``GetActivePods``, ``pkg/kubelet/kubelet.go``)."""
    node.expect_broken(EXCLUSIVE_TO_ONE, AS_BOOKED)
    node.boot()
    every = len(node.free)
    node.apply(guaranteed("a", every))
    held = node.taken("a")
    node.apply(guaranteed("b", every), instead_of="a", stopping=True)
    node.promise_cpus("The next pod gets the same CPUs", "CPUs of b/c", held, node.taken("b"))
    node.promise_cpuset("The first pod still runs on them", "a", held)
    node.to_runtime(EndStopping())
    node.promise_cpus("The next pod keeps them", "CPUs of b/c", held, node.taken("b"))
