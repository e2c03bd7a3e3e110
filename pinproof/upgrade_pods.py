"""Which pods an upgrade is rehearsed with where none are named."""

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
    """Pods that leave a physical core to one that comes later, and the one of them that is gone by
    the upgrade: where it was there is a gap, so that a kubelet that hands CPUs out again moves the
    others. On a machine with one core for pods, a pod that has it."""
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
    """Pods of every kind that the release keeps CPUs for, the most usual first, each with how many
    CPUs it takes of a node."""
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
    """Those that come later, of one physical core each, beside ``pods``."""
    return pods_of_later(_core(topology), {pod.name for pod in pods})
