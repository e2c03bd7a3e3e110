"""Pods with pod-level resources, and what several of their scenarios promise."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed_of
from conformance.scenario import Needs, promised
from conformance.scenarios.aligning import aligning
from conformance.scenarios.outcomes import promise_running
from conformance.scenarios.sources import POD_LEVEL_MANAGERS
from reference.steps import Container, Kind, KubeletConfig, Pod, PodResources

MEMORY: Final = "256Mi"
ROOM: Final = Needs(numa_nodes=2, free=8, numa_cores=4, even=True)

#: A scenario of what comes with feature gate PodLevelResourceManagers.
of_managers: Final = partial(
    promised, area="pod-level", source=POD_LEVEL_MANAGERS, since="1.36", needs=ROOM
)


def managed(
    node: LockstepNode, policy: str = "restricted", *, scope: str = "pod", on: bool = True
) -> KubeletConfig:
    """The node's configuration under this Topology Manager policy and scope, with feature gate
    PodLevelResourceManagers ``on`` or as it is by default."""
    aligned = aligning(node, policy, scope=scope)
    gates = {"PodLevelResourceManagers": True} if on else {}
    return replace(aligned, feature_gates={**aligned.feature_gates, **gates})


def pod_of(name: str, cpus: int | str, *containers: Container, memory: str = MEMORY) -> Pod:
    """A Guaranteed pod of ``cpus`` CPUs and this memory as a whole."""
    whole = PodResources(str(cpus), str(cpus), memory, memory)
    return replace(guaranteed_of(name, containers), resources=whole)


def shared(name: str, *, kind: Kind = Kind.APP) -> Container:
    """A container that asks for nothing itself."""
    return Container(name, kind=kind)


def promise_no_exclusive_cpus(node: LockstepNode, pod: str) -> None:
    """Promise that a pod runs, and that none of its containers has exclusive CPUs."""
    promise_running(node, pod)
    held = dict(node.view.assignments.get(pod, {}))
    node.promise_equal("No container has CPUs of its own", f"exclusive CPUs of {pod}", {}, held)
