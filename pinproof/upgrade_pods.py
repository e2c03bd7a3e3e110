"""The pods that an upgrade is rehearsed with where none are named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.pods import exclusive, guaranteed, guaranteed_of, pooled
from conformance.pods import later_pods as pods_of_later
from pinproof.simulation import reserved_of
from reference import CPUTopology
from reference.behaviours import Behaviour
from reference.pods.pod_level_resources import pod_managers_on
from reference.releases import has
from reference.steps import Kind, KubeletConfig, Pod


def _core(topology: CPUTopology) -> int:
    return max(topology.cpus_per_core, 1)


def usual_pods(
    topology: CPUTopology, config: KubeletConfig, release: str
) -> tuple[tuple[Pod, ...], tuple[str, ...]]:
    """The pods, and the names of those that are deleted before the upgrade. They leave a physical
    core to a later pod. The deleted one leaves a gap, so that a kubelet that allocates all CPUs
    again moves the others. If pods have one core in all, one pod has it."""
    core = _core(topology)
    left = len(topology.cpus - reserved_of(topology, config, release)) - core
    if left < core:
        return (guaranteed("pod1", core),), ()
    left -= 2 * core if left >= 8 * core else 0  # for each of those that come later
    fitting: list[Pod] = []
    for pod, takes in _wanted_pods(core, config, release):
        if takes <= left:
            fitting.append(pod)
            left -= takes
    return (guaranteed("gone", core), *fitting), ("gone",)


def _wanted_pods(core: int, config: KubeletConfig, release: str) -> Iterator[tuple[Pod, int]]:
    """Pods of every kind that the release keeps CPUs for, the most usual first, each with the
    number of CPUs that it takes."""
    yield guaranteed("pod1", core), core
    yield guaranteed("pod2", "0.5"), 1
    yield guaranteed("pod3", 2 * core), 2 * core
    init = exclusive("init", core, kind=Kind.INIT)
    yield guaranteed_of("pod4", [init, exclusive("c", core)]), core
    if has(release, Behaviour.SIDECARS_KEEP_CPUS):
        sidecar = exclusive("side", core, kind=Kind.SIDECAR)
        yield guaranteed_of("pod5", [sidecar, exclusive("c", core)]), 2 * core
    if pod_managers_on(config.feature_gates, release=release):
        yield pooled("pod6", 2 * core), 2 * core


def later_pods(topology: CPUTopology, pods: Sequence[Pod]) -> list[Pod]:
    """Pods of one physical core each that are applied later than ``pods``."""
    return pods_of_later(_core(topology), {pod.name for pod in pods})
