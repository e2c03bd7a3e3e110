"""What the kubelet's pod-resources interface, service ``v1``, says: its calls, and CPUs, devices
and memory as it names them.

Nothing that a kubelet sent is trusted.

The socket is ``ROOT_DIR/pod-resources/kubelet.sock`` (``pkg/kubelet/kubelet.go``,
``ListenAndServePodResources``), and has been there by default since 1.15. The service ``v1``, with
CPUs, came in 1.20 (KEP 2043), ``GetAllocatableResources`` in 1.21 (by default in 1.23) and ``Get``
in 1.27 (by default in 1.34). Ids come in no order. Up to 1.22 a container without exclusive CPUs
has those of the shared pool there, from 1.23 on none (pull request 97415). A sidecar is listed from
1.30 on, any other init container never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

from conformance.kubelets import pod_resources_pb2 as pb
from reference import CPUSet
from reference.kubelet.pod_resources import WHOLE_POD
from reference.view import HeldDevice, HeldMemory

LIST: Final = "/v1.PodResourcesLister/List"
GET: Final = "/v1.PodResourcesLister/Get"
ALLOCATABLE: Final = "/v1.PodResourcesLister/GetAllocatableResources"

#: By pod (namespace and name, as the kubelet has them), then container; CPUs of the pod as a whole
#: under ``""``.
CPUsByPod: TypeAlias = dict[tuple[str, str], dict[str, CPUSet]]

DevicesByPod: TypeAlias = dict[tuple[str, str], dict[str, frozenset[HeldDevice]]]

MemoryByPod: TypeAlias = dict[tuple[str, str], dict[str, frozenset[HeldMemory]]]

_Set = TypeVar("_Set", CPUSet, frozenset[HeldDevice], frozenset[HeldMemory])

#: ``NR_CPUS`` of no kernel is larger, and no kernel has more NUMA nodes.
_CPUS: Final = 1 << 16


class NoCPUs(Exception):
    """An answer names a CPU or a NUMA node that cannot be; ``str()`` says which."""


def cpus_by_pod(pods: Iterable[pb.PodResources]) -> CPUsByPod:
    """The CPUs of each pod. Raises :class:`NoCPUs`."""
    return _by_pod(pods, lambda one: cpus(one.cpu_ids), lambda pod: cpus(pod.cpu_ids))


def _by_pod(
    pods: Iterable[pb.PodResources],
    held: Callable[[pb.ContainerResources], _Set],
    as_a_whole: Callable[[pb.PodResources], _Set | None] = lambda pod: None,
) -> dict[tuple[str, str], dict[str, _Set]]:
    """What the containers of each pod have, and what the pod has as a whole, if anything. A pod
    that ends and its successor may go by one name: nothing of either is lost."""
    found: dict[tuple[str, str], dict[str, _Set]] = {}
    for pod in pods:
        mine = found.setdefault((pod.namespace, pod.name), {})
        every = [(one.name, held(one)) for one in pod.containers]
        whole = as_a_whole(pod)
        if whole:
            every.append((WHOLE_POD, whole))
        for name, more in every:
            mine[name] = mine[name] | more if name in mine else more
    return found


def cpus(ids: Iterable[int]) -> CPUSet:
    """The CPUs of these ids. Raises :class:`NoCPUs`."""
    return CPUSet(_possible("CPU", ids))


def _numa_nodes(topology: pb.TopologyInfo) -> list[int]:
    return _possible("NUMA node", (node.ID for node in topology.nodes))


def _possible(what: str, ids: Iterable[int]) -> list[int]:
    found = list(ids)
    wrong = [one for one in found if not 0 <= one < _CPUS]
    if wrong:
        raise NoCPUs(f"the kubelet reports a {what} {wrong[0]}")
    return found


def devices_by_pod(pods: Iterable[pb.PodResources]) -> DevicesByPod:
    """The devices of each pod. Raises :class:`NoCPUs`."""
    return _by_pod(pods, lambda one: devices(one.devices))


def devices(given: Iterable[pb.ContainerDevices]) -> frozenset[HeldDevice]:
    """The devices of these entries. A kubelet may name a device in several, one for each of its
    NUMA nodes. Raises :class:`NoCPUs`."""
    nodes: dict[tuple[str, str], set[int]] = {}
    for entry in given:
        for one in entry.device_ids:
            ids = nodes.setdefault((entry.resource_name, one), set())
            ids.update(_numa_nodes(entry.topology))
    return frozenset(HeldDevice(*name, tuple(sorted(ids))) for name, ids in nodes.items())


def memory_by_pod(pods: Iterable[pb.PodResources]) -> MemoryByPod:
    """The memory of each pod. Raises :class:`NoCPUs`."""
    return _by_pod(pods, lambda one: memory(one.memory), lambda pod: memory(pod.memory))


def memory(given: Iterable[pb.ContainerMemory]) -> frozenset[HeldMemory]:
    """The memory of these entries, huge pages among it. Raises :class:`NoCPUs`."""
    return frozenset(
        HeldMemory(tuple(sorted(_numa_nodes(one.topology))), one.size, one.memory_type)
        for one in given
    )


def by_own_names(
    reported: Mapping[tuple[str, str], Mapping[str, _Set]], called: Mapping[tuple[str, str], str]
) -> dict[str, dict[str, _Set]]:
    """What our pods have, by our names. ``called``: our name for a namespace and name; a namespace
    that is not known (``""``) may be any."""
    found: dict[str, dict[str, _Set]] = {}
    for (namespace, name), containers in reported.items():
        ours = called.get((namespace, name), called.get(("", name)))
        if ours is not None:
            mine = found.setdefault(ours, {})
            for container, held in containers.items():
                mine[container] = mine[container] | held if container in mine else held
    return found
