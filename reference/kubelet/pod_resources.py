"""What the kubelet answers at its pod-resources socket, service ``v1``: CPUs, devices and memory.

What belongs here: which pods, containers, CPUs, devices and memory an answer names, by release.
What never does: how it is asked. Source: ``pkg/kubelet/apis/podresources/server_v1.go``.

The memory manager forgets pods that have ended as it admits the next pod, and the CPU manager in
each round. So an ended pod that is listed still has its memory there, and no CPU
(kubernetes/kubernetes#132020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reference.behaviours import Behaviour
from reference.cpumanager.cpu_manager import CPUManager
from reference.cpuset import CPUSet
from reference.devicemanager.manager import DeviceManager
from reference.devicemanager.pod_devices import Held
from reference.errors import NotModelled
from reference.feature_gates import enabled
from reference.memorymanager.state import Blocks, ids
from reference.memorymanager.state import State as MemoryState
from reference.pods.pod_level_resources import has_pod_level_resources, is_guaranteed_alone
from reference.releases import AnyRelease, has, minor_of
from reference.steps import AskAllocatable, AskPodResources, Container, Kind, Pod
from reference.view import HeldDevice, HeldMemory, View

#: The name under which CPUs and memory of a pod as a whole are reported.
WHOLE_POD = ""

#: The first minor whose ``Get`` finds neither refused pods nor ended ones (seen on 1.36.4).
_GETS_ACTIVE_SINCE = 36
#: The first minor whose socket has ``Get`` (seen on 1.26.15).
_GET_SINCE = 27

_VERSION = '{server_api_version="v1"}'
#: The counters of calls at ``/metrics``: of all, and of each by its name.
ASKED = f"kubelet_pod_resources_endpoint_requests_total{_VERSION}"
ASKED_LIST = f"kubelet_pod_resources_endpoint_requests_list{_VERSION}"
ASKED_ALLOCATABLE = f"kubelet_pod_resources_endpoint_requests_get_allocatable{_VERSION}"
ASKED_GET = f"kubelet_pod_resources_endpoint_requests_get{_VERSION}"
#: Of these calls, those of ``Get`` that are answered with an error.
FAILED_GET = f"kubelet_pod_resources_endpoint_errors_get{_VERSION}"
COUNTERS = frozenset({ASKED, ASKED_LIST, ASKED_ALLOCATABLE, ASKED_GET, FAILED_GET})


#: Calls that are answered at once, and in each second after that; and how others are refused.
BURST, CALLS_A_SECOND = 10, 100
OVER_THE_LIMIT = "rejected by rate limit"


def flood_answers(times: int, *, release: AnyRelease) -> dict[str, int]:
    """How many of that many calls at once are answered with each error (``""``: none)."""
    limited = has(release, Behaviour.POD_RESOURCES_LIMITED) and times > BURST
    return {"": BURST, OVER_THE_LIMIT: times - BURST} if limited else {"": times}


class Refused(Exception):
    """The call is answered with an error; ``str()`` is its text."""


@dataclass(frozen=True, slots=True)
class PodResources:
    """What one kubelet answers: its CPU ``manager`` and device manager, what its memory manager
    knows (``None`` under policy None), its ``active`` pods, and ``every`` pod whose manifest is
    there."""

    manager: CPUManager
    device_manager: DeviceManager
    memory: MemoryState | None
    active: Sequence[Pod]
    every: Sequence[Pod]
    release: AnyRelease

    def listed(self) -> dict[str, dict[str, CPUSet]]:
        """``List``: CPUs by pod, then container, those of a pod as a whole under
        :data:`WHOLE_POD`. The empty set where a container is named without a CPU."""
        return {pod.name: self._cpus(pod) for pod in self._listed}

    def listed_devices(self) -> dict[str, dict[str, frozenset[HeldDevice]]]:
        """``List``: the devices of the same containers."""
        self.device_manager.update_allocated_devices()
        return {
            pod.name: {
                one.name: reported(held_by(self.device_manager, pod.uid, one.name))
                for one in pod.containers
                if self._is_reported(one)
            }
            for pod in self._listed
        }

    def listed_memory(self) -> dict[str, dict[str, frozenset[HeldMemory]]]:
        """``List``: the memory of the same containers and pods."""
        return {pod.name: self._memory_of(pod) for pod in self._listed}

    def allocatable_memory(self) -> frozenset[HeldMemory]:
        """``GetAllocatableResources``: the memory of each NUMA node that has some for pods."""
        machine = self.memory.machine if self.memory else {}
        return frozenset(
            HeldMemory((node,), table.allocatable, kind)
            for node, one in machine.items()
            for kind, table in one.tables.items()
            if table.allocatable
        )

    def _memory_of(self, pod: Pod) -> dict[str, frozenset[HeldMemory]]:
        found = {
            one.name: self._memory(pod, one) for one in pod.containers if self._is_reported(one)
        }
        whole = self.memory.pods.get(pod.uid) if self.memory else None
        if whole and has(self.release, Behaviour.POD_POOLS_REPORTED):
            found[WHOLE_POD] = _held(whole)
        return found

    def _memory(self, pod: Pod, container: Container) -> frozenset[HeldMemory]:
        held = self.memory.get(pod.uid, container.name) if self.memory else None
        shares = has_pod_level_resources(pod) and not is_guaranteed_alone(container)
        if held is None or (shares and has(self.release, Behaviour.POD_POOLS_REPORTED)):
            return frozenset()
        return _held(held)

    @property
    def _listed(self) -> Sequence[Pod]:
        gates = self.manager.feature_gates
        active = enabled("KubeletPodResourcesListUseActivePods", gates, release=self.release)
        return self.active if active else self.every

    def got(self, name: str) -> dict[str, CPUSet]:
        """``Get``: the same of one pod. Raises :class:`Refused`."""
        if minor_of(self.release) < _GET_SINCE:
            raise Refused("unknown method Get for service v1.PodResourcesLister")
        if not has(self.release, Behaviour.POD_RESOURCES_GET):
            raise Refused("PodResources API Get method disabled")
        for pod in self.active if minor_of(self.release) >= _GETS_ACTIVE_SINCE else self.every:
            if pod.name == name:
                return self._cpus(pod)
        raise Refused(f"pod {name} in namespace default not found")

    def _cpus(self, pod: Pod) -> dict[str, CPUSet]:
        reported = filter(self._is_reported, pod.containers)
        found = {one.name: self._own_cpus(pod, one) for one in reported}
        whole = self.manager.state.pod_entries.get(pod.uid)
        if whole and has(self.release, Behaviour.POD_POOLS_REPORTED):
            found[WHOLE_POD] = whole
        return found

    def _is_reported(self, container: Container) -> bool:
        if container.kind is Kind.SIDECAR:
            return has(self.release, Behaviour.SIDECARS_REPORTED)
        return container.kind is Kind.APP

    def _own_cpus(self, pod: Pod, container: Container) -> CPUSet:
        if has(self.release, Behaviour.SHARED_POOL_REPORTED):
            return self.manager.affinity(pod.uid, container.name)
        isolated = self.manager.isolates(pod, container)
        if not isolated and has(self.release, Behaviour.POD_POOLS_REPORTED):
            return CPUSet()
        return self.manager.exclusive_cpus(pod.uid, container.name)


def _held(blocks: Blocks) -> frozenset[HeldMemory]:
    """Blocks as an answer has them; an entry may hold none."""
    return frozenset(HeldMemory(tuple(ids(one.nodes)), one.size, one.type) for one in blocks)


def held_by(manager: DeviceManager, uid: str, container: str) -> Mapping[str, Held]:
    """The devices of a container, by resource (``GetDevices``). Raises :class:`NotModelled` where
    chance decided which they are."""
    if any(own[:2] == (uid, container) for own in manager.pod_devices.by_chance):
        raise NotModelled(f"{container}: Go's map order has chosen its devices")
    return manager.pod_devices.held.get(uid, {}).get(container, {})


def allocatable_devices(manager: DeviceManager) -> frozenset[HeldDevice]:
    """``GetAllocatableResources``: the healthy devices. The answer has an entry for each NUMA node
    of a device, so it has none of one that names an empty list of them
    (``containerDevicesFromResourceDeviceInstances``, ``pkg/kubelet/cm/container_manager.go``; seen
    on 1.36.4)."""
    healthy = manager.healthy_devices()
    return reported(
        {
            resource: {one.id: one for one in held.values() if not one.names_none}
            for resource, held in healthy.items()
        }
    )


def reported(devices: Mapping[str, Held]) -> frozenset[HeldDevice]:
    """Devices by resource as an answer has them."""
    return frozenset(
        HeldDevice(resource, one.id, tuple(sorted(one.numa_nodes)))
        for resource, held in devices.items()
        for one in held.values()
    )


def answer(server: PodResources, step: AskPodResources | AskAllocatable) -> View:
    """The part of a view that the step asks for. Pods have their own names."""
    match step:
        case AskAllocatable():
            return View(
                running=True,
                allocatable=server.manager.allocatable_cpus,
                allocatable_devices=allocatable_devices(server.device_manager),
                allocatable_memory=server.allocatable_memory(),
            )
        case AskPodResources(pod=""):
            return View(
                running=True,
                pod_resources=server.listed(),
                devices=server.listed_devices(),
                memory=server.listed_memory(),
            )
    try:
        return View(running=True, got_pod=server.got(step.pod))
    except Refused as error:
        return View(running=True, pod_resources_error=str(error))


def counters_of(step: AskPodResources | AskAllocatable, answered: View) -> list[str]:
    """The counters at ``/metrics`` that count such a call, and how it was answered."""
    if isinstance(step, AskAllocatable):
        return [ASKED, ASKED_ALLOCATABLE]
    if not step.pod:
        return [ASKED, ASKED_LIST]
    return [ASKED, ASKED_GET, *([FAILED_GET] if answered.pod_resources_error else [])]
