"""The kubelet's pod-resources API, service ``v1``: its calls, and CPUs, devices and memory in
answers.

Answers of a kubelet are not trusted.

The socket is ``ROOT_DIR/pod-resources/kubelet.sock`` (``pkg/kubelet/kubelet.go``,
``ListenAndServePodResources``), and exists by default since 1.15. The service ``v1``, with CPUs,
came in 1.20 (KEP 2043), ``GetAllocatableResources`` in 1.21 (by default in 1.23) and ``Get`` in
1.27 (by default in 1.34). Ids come in no order. For a container without exclusive CPUs the kubelet
reports the shared pool up to 1.22, and no CPUs from 1.23 on (pull request 97415). A sidecar is
listed from 1.30 on, any other init container never.
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

#: By pod (namespace and name in the kubelet), then container; CPUs of the pod as a whole under
#: ``""``.
CPUsByPod: TypeAlias = dict[tuple[str, str], dict[str, CPUSet]]

DevicesByPod: TypeAlias = dict[tuple[str, str], dict[str, frozenset[HeldDevice]]]

MemoryByPod: TypeAlias = dict[tuple[str, str], dict[str, frozenset[HeldMemory]]]

_Set = TypeVar("_Set", CPUSet, frozenset[HeldDevice], frozenset[HeldMemory])

#: The largest ``NR_CPUS`` of any kernel; none has more NUMA nodes.
_CPUS: Final = 1 << 16


class NoCPUs(Exception):
    """An answer names a CPU or a NUMA node that cannot exist; ``str()`` says which."""


def cpus_by_pod(pods: Iterable[pb.PodResources]) -> CPUsByPod:
    """The CPUs of each pod. Raises :class:`NoCPUs`."""
    return _by_pod(pods, lambda one: cpus(one.cpu_ids), lambda pod: cpus(pod.cpu_ids))


def _by_pod(
    pods: Iterable[pb.PodResources],
    held: Callable[[pb.ContainerResources], _Set],
    as_a_whole: Callable[[pb.PodResources], _Set | None] = lambda pod: None,
) -> dict[tuple[str, str], dict[str, _Set]]:
    """What the containers of each pod hold, and what the pod holds as a whole, if anything. A pod
    that ends and its successor may have the same name: what both hold is joined."""
    found: dict[tuple[str, str], dict[str, _Set]] = {}
    for pod in pods:
        of_pod = found.setdefault((pod.namespace, pod.name), {})
        every = [(one.name, held(one)) for one in pod.containers]
        whole = as_a_whole(pod)
        if whole:
            every.append((WHOLE_POD, whole))
        for name, more in every:
            of_pod[name] = of_pod[name] | more if name in of_pod else more
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
    """The memory of these entries, with huge pages. Raises :class:`NoCPUs`."""
    return frozenset(
        HeldMemory(tuple(sorted(_numa_nodes(one.topology))), one.size, one.memory_type)
        for one in given
    )


def by_own_names(
    reported: Mapping[tuple[str, str], Mapping[str, _Set]], called: Mapping[tuple[str, str], str]
) -> dict[str, dict[str, _Set]]:
    """What pods of a scenario hold, by the scenario's names. ``called`` has the scenario's name by
    namespace and name in the kubelet; namespace ``""`` stands for any."""
    found: dict[str, dict[str, _Set]] = {}
    for (namespace, name), containers in reported.items():
        own_name = called.get((namespace, name), called.get(("", name)))
        if own_name is not None:
            of_pod = found.setdefault(own_name, {})
            for container, held in containers.items():
                of_pod[container] = of_pod[container] | held if container in of_pod else held
    return found
