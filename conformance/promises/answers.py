"""The promises about the kubelet's answers: its metrics, and its pod-resources socket.

What belongs here: whether an answer agrees with the state file. What never does: the state file
itself (``views``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from conformance.checks import each
from conformance.promises.situation import Situation, Violation
from reference import CPUSet
from reference.cpumanager.metrics import EXCLUSIVE, POOL
from reference.cpumanager.policy_options import ACROSS_NUMA, BY_SOCKET, FULL_PCPUS, is_true
from reference.pods.labels import runs_on_reserved
from reference.pods.pod_level_resources import as_decoded
from reference.pods.qos import as_judged, exclusive_cpus
from reference.view import View

EXCLUSIVE_ALONE: Final = "The kubelet reports CPUs only for containers with exclusive CPUs"
ALLOCATABLE: Final = "The kubelet reports all CPUs except the reserved ones as allocatable"
GAUGES: Final = "The gauges of exclusive CPUs and of the shared pool agree with the state file"
NEAR_EVERY_DEVICE: Final = (
    "Under distribute-cpus-across-numa a container whose devices are near several NUMA nodes gets "
    "CPUs of each of these NUMA nodes"
)
SOCKET_OF_DEVICES: Final = (
    "Under align-by-socket a container whose devices are near one socket gets CPUs of that socket"
)


def misreported(view: View, situation: Situation) -> Iterator[Violation]:
    """Contradictions between the answers that ``view`` has and the rest of it."""
    if view.pod_resources is not None:
        yield from _shared_reported(view, situation)
        yield from _near_devices(view, situation)
    if view.allocatable is not None and situation.reserved is not None:
        owed = situation.cpus - situation.reserved - situation.lost
        if view.allocatable != owed:
            yield Violation.of(ALLOCATABLE, "allocatable CPUs", owed, view.allocatable)
    if view.metrics is not None:
        yield from _gauges(view, situation)


def _shared_reported(view: View, situation: Situation) -> Iterator[Violation]:
    for pod, container, cpus in each(view.pod_resources or {}):
        applied = situation.pods.get(pod)
        if applied is None or not cpus or not container:
            continue
        gates, release = situation.config.feature_gates, situation.release
        judged = as_judged(as_decoded(applied, gates, release=release), release=release)
        owed = {one.name: exclusive_cpus(judged, one) for one in judged.containers}
        if not owed.get(container) or runs_on_reserved(applied, release=release):
            what = f"CPUs that the kubelet reports for {pod}/{container}"
            yield Violation.of(EXCLUSIVE_ALONE, what, CPUSet(), cpus)


def _gauges(view: View, situation: Situation) -> Iterator[Violation]:
    metrics, pool = view.metrics or {}, view.shared_pool - (situation.reserved or CPUSet())
    owed = {EXCLUSIVE: len(situation.exclusive(view)), POOL: len(pool) * 1000}
    for name, count in owed.items():
        if name in metrics and metrics[name] != count:
            yield Violation.of(GAUGES, name, str(count), f"{metrics[name]:.0f}")


def _near_devices(view: View, situation: Situation) -> Iterator[Violation]:
    """Judged only if the Topology Manager follows hints. Enough CPUs must still be free in each
    NUMA node or in the socket, so that they were free when the container came."""
    topology, config = situation.topology, situation.config
    if topology is None or config.topology_manager_policy == "none":
        return
    options = {name for name, value in config.policy_options.items() if is_true(value)}
    free = view.shared_pool - (situation.reserved or CPUSet())
    group = topology.cpus_per_core if FULL_PCPUS in options else 1
    for pod, containers in view.devices.items():
        for container, devices in containers.items():
            held = view.assignments.get(pod, {}).get(container, CPUSet())
            nodes = {node for one in devices for node in one.numa_nodes}
            if not held or not nodes:
                continue
            parts = [topology.cpus_in_numa_nodes(node) for node in nodes]
            usable = held | free
            if (
                ACROSS_NUMA in options
                and BY_SOCKET not in options
                and len(held) >= group * len(nodes)
            ):
                share = len(held) // (len(nodes) * group) * group
                room = all(len(part & usable) >= share for part in parts)
                if room and any(not part & held for part in parts):
                    what = f"NUMA nodes of {pod}/{container}"
                    near = CPUSet(sorted(nodes))
                    seen = CPUSet(sorted(topology.numa_node_ids(held)))
                    yield Violation.of(NEAR_EVERY_DEVICE, what, str(near), str(seen))
            if BY_SOCKET in options:
                near_sockets = {one for part in parts for one in topology.socket_ids(part)}
                whole = topology.cpus_in_sockets(*near_sockets)
                if len(near_sockets) == 1 and len(whole & usable) >= len(held) and held - whole:
                    what = f"CPUs of {pod}/{container} outside of its devices' socket"
                    yield Violation.of(SOCKET_OF_DEVICES, what, CPUSet(), held - whole)
