"""The device manager: which devices there are, and who holds them.

What belongs here: registration, admission of containers that request devices, and what a restart
leaves. What never does: the plugin, which is asked only for its preference, and CPUs.
Source: ``devicemanager/manager.go``, 1.20 to 1.37.

A kubelet that starts knows from its checkpoint who holds which devices, but no device is healthy
until its plugin has registered again. From 1.28 on (and in late patches of 1.25 to 1.27) a
container that was not running when the kubelet started is then refused; before, it kept its devices
unchecked (kubernetes/kubernetes#109595, #118559).

Where a kubelet may choose among several devices, Go's map order would decide. The plugin's
preference (``GetPreferredAllocation``) takes its place: the lowest ids.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from reference.behaviours import Behaviour
from reference.copies import flat_copy
from reference.devicemanager.pod_devices import Held, PodDevices
from reference.devicemanager.topology_hints import (
    device_has_topology_alignment,
    generate_device_topology_hints,
)
from reference.errors import DeviceError, NotModelled
from reference.pods.pod import Container, Kind, Pod
from reference.releases import AnyRelease, has, minor_of
from reference.steps import Device
from reference.topologymanager.hint import ANY, Hint
from reference.view import Offered

#: What a plugin says of a call of Allocate that is to fail.
NOT_READY: Final = "the devices are not ready"

#: Since this minor a container counts as running that was restarted before the kubelet was
#: (kubernetes/kubernetes#135485).
_RESTARTED_KNOWN_SINCE: Final = 36


class DeviceManager:
    """``ManagerImpl`` of one run of the kubelet.

    ``numa_nodes``: those of the machine. ``kept``: what the checkpoint has. ``running``: the (pod
    uid, container) that ran when the kubelet started. ``doubtful``: those among them that have an
    ended container in the runtime too, which a release may take for them. ``active_pods`` and
    ``sources_ready`` as :class:`reference.cpumanager.cpu_manager.CPUManager` has them.
    """

    def __init__(
        self,
        numa_nodes: Sequence[int] = (),
        *,
        release: AnyRelease,
        kept: PodDevices | None = None,
        running: Collection[tuple[str, str]] = (),
        doubtful: Collection[tuple[str, str]] = (),
    ) -> None:
        self.active_pods: Callable[[], Iterable[Pod]] = tuple
        self.sources_ready = False
        #: Who held what when the checkpoint was written last (``writeCheckpoint``). The kubelet
        #: does not write it when a pod's devices become free.
        self.checkpoint = PodDevices() if kept is None else kept
        self.pod_devices = self.checkpoint.copy()
        self._numa_nodes = tuple(numa_nodes)
        self._running, self._doubtful = frozenset(running), frozenset(doubtful)
        self._release = release
        self.last_admitted: tuple[Pod, ...] = ()
        #: Whether it is unknown which pod was admitted last.
        self.last_by_chance = False
        #: How many calls of Allocate the plugin of a resource lets fail from now on.
        self.failures: dict[str, int] = {}
        #: How long such a call takes, and how long all calls took.
        self.seconds: dict[str, int] = {}
        self.waited = 0
        self._all_devices: dict[str, Mapping[str, Device]] = {}
        self._gone: set[str] = set()
        self._to_reuse: dict[tuple[str, str], set[str]] = {}
        self._at_start: dict[str, Hint | None] = {}

    def copy(self) -> DeviceManager:
        """An independent copy."""
        twin = flat_copy(self)
        twin.pod_devices = self.pod_devices.copy()
        twin.failures, twin.seconds = dict(self.failures), dict(self.seconds)
        twin._all_devices, twin._gone = dict(self._all_devices), set(self._gone)
        twin._to_reuse = {key: set(ids) for key, ids in self._to_reuse.items()}
        twin._at_start = dict(self._at_start)
        return twin

    def register(self, resource: str, devices: Iterable[Device]) -> None:
        """A plugin has registered and named its devices, or reports others
        (``genericDeviceUpdateCallback``). Where an id comes twice, the later one counts."""
        self._gone.discard(resource)
        self.pod_devices.resources.add(resource)
        self._all_devices[resource] = {one.id: one for one in devices}
        self.checkpoint = self.pod_devices.copy()

    def has_plugin(self, resource: str) -> bool:
        """Whether a plugin serves a resource."""
        return resource in self._all_devices and resource not in self._gone

    def end_plugin(self, resource: str) -> None:
        """The plugin of a resource has gone away (``markResourceUnhealthy``): no device of it is
        healthy."""
        self._gone.add(resource)

    def offered(self, resource: str) -> Offered:
        """``GetCapacity``: the devices of a resource in the node's status. They are in it for five
        minutes after the plugin has gone away (``endpointStopGracePeriod``)."""
        return Offered(len(self._all_devices.get(resource, {})), len(self._healthy(resource)))

    def _healthy(self, resource: str) -> Held:
        """``healthyDevices`` of a resource."""
        if resource in self._gone:
            return {}
        every = self._all_devices.get(resource, {})
        return {one.id: one for one in every.values() if one.healthy}

    def of_each_resource(self) -> list[DevicesOf]:
        """A hint provider for each resource that the kubelet knows (``isDevicePluginResource``)."""
        return [DevicesOf(self, each) for each in sorted(self.pod_devices.resources)]

    def healthy_devices(self) -> dict[str, Held]:
        """``GetAllocatableDevices``: the healthy ones by resource."""
        every = {resource: self._healthy(resource) for resource in self._all_devices}
        return {resource: held for resource, held in every.items() if held}

    def update_allocated_devices(self) -> None:
        """``UpdateAllocatedDevices``: forget what pods held that are not active any more. Raises
        :class:`NotModelled` where that may be the pod that was admitted last."""
        if not self.sources_ready:
            return
        active = {pod.uid for pod in self.active_pods()}
        by_chance = self.last_by_chance and self.last_admitted
        if by_chance and not self.pod_devices.held.keys() <= active:
            raise NotModelled(f"devices of a refused pod after a start of release {self._release}")
        self.pod_devices.keep_only(active | {pod.uid for pod in self.last_admitted})

    # -- one resource ----------------------------------------------------------------------------

    def topology_hints(self, pod: Pod, container: Container, resource: str) -> list[Hint] | None:
        """``GetTopologyHints``."""
        self._note_admission(pod)
        self.update_allocated_devices()
        requested = dict(container.devices).get(resource)
        if requested is None:
            return None
        held = self.pod_devices.container_devices(pod.uid, container.name, resource)
        reusable = self._to_reuse.get((pod.uid, resource), set())
        if (held or reusable) and _nearness_by_chance(self.pod_devices, pod, resource):
            raise NotModelled(f"pod {pod.name}: hints by devices that Go's map order has chosen")
        return self._hints(resource, requested, held, reusable)

    def pod_topology_hints(self, pod: Pod, resource: str) -> list[Hint] | None:
        """``GetPodTopologyHints``. Raises :class:`NotModelled` for a sidecar that requests
        devices: releases differ in how they count it."""
        self._note_admission(pod)
        self.update_allocated_devices()
        requested = _pod_device_request(pod, resource)
        if requested is None:
            return None
        return self._hints(resource, requested, self.pod_devices.pod_devices(pod.uid, resource), ())

    def _hints(
        self, resource: str, requested: int, held: Held | None, reusable: Collection[str]
    ) -> list[Hint] | None:
        every = self._all_devices.get(resource, {})
        if not device_has_topology_alignment(every):
            return None
        available: Collection[str] = self._available_devices(resource)
        if held:
            available, reusable = held, ()
            if len(held) != requested:
                return []
        elif len({*available, *reusable}) < requested:
            return []
        return generate_device_topology_hints(
            every, available, reusable, requested, self._numa_nodes, release=self._release
        )

    def _available_devices(self, resource: str) -> set[str]:
        """``getAvailableDevices``: healthy, and held by no container."""
        return {*self._healthy(resource)} - self.pod_devices.devices(resource)

    def allocate(self, pod: Pod, container: Container, resource: str, hint: Hint | None) -> None:
        """``Allocate``: devices of one resource, first those near to the hint's NUMA nodes. What an
        init container gets, its pod's later containers use again. Devices of pods that are gone are
        freed only if the container requests devices of this resource. Raises
        :class:`DeviceError`."""
        self._note_admission(pod)
        key = (pod.uid, resource)
        self._to_reuse = {own: ids for own, ids in self._to_reuse.items() if own[0] == pod.uid}
        reusable = self._to_reuse.setdefault(key, set())
        requested = dict(container.devices).get(resource)
        if requested is not None:
            self.update_allocated_devices()
            chosen = self._devices_to_allocate(pod, container, resource, requested, reusable, hint)
            if chosen and not self.has_plugin(resource):
                raise NotModelled(f"pod {pod.name}: {resource} is allocated without its plugin")
            if chosen:
                self._call_plugin(container, resource)
                devices = {one: self._all_devices[resource][one] for one in chosen}
                self.pod_devices.insert(pod.uid, container.name, resource, devices)
                self.checkpoint = self.pod_devices.copy()
        held = self.pod_devices.container_devices(pod.uid, container.name, resource) or {}
        if container.kind is Kind.INIT:
            reusable.update(held)
        else:
            reusable.difference_update(held)

    def _call_plugin(self, container: Container, resource: str) -> None:
        """``Allocate`` of the plugin. Raises :class:`DeviceError` where it fails: the container's
        devices are free again. Raises :class:`NotModelled` where Go's map order decides which
        resource comes first."""
        self.waited += self.seconds.get(resource, 0)
        if not self.failures.get(resource):
            return
        if len(container.devices) > 1:
            raise NotModelled(f"container {container.name}: one of its device plugins fails")
        self.failures[resource] -= 1
        raise DeviceError(f"rpc error: code = Unavailable desc = {NOT_READY}")

    def allocate_pod(self, pod: Pod, hint: Hint | None) -> None:
        """``AllocatePod``: nothing yet (1.36 and later); each container gets its devices when it
        starts."""
        self._at_start[pod.uid] = hint

    def allocates_at_start(self, pod: Pod) -> bool:
        """Whether the pod's containers get their devices as they start."""
        return pod.uid in self._at_start

    def allocatable(self, pod: Pod, resource: str) -> int:
        """``GetCapacity``, and ``sanitizeNodeAllocatable``: how many devices the node predicates
        take the node to have, as they look at this pod."""
        healthy = len(self._healthy(resource))
        if pod.uid not in self.pod_devices.held:
            return healthy
        return max(healthy, len(self.pod_devices.devices(resource)))

    def start_container(self, uid: str, name: str) -> None:
        """``GetDeviceRunContainerOptions``: what a container requests and does not hold is
        allocated as it starts. Raises :class:`NotModelled` where that fails: the kubelet tries it
        again and again."""
        pod = next((one for one in self.active_pods() if one.uid == uid), None)
        if pod is None or uid not in self._at_start:
            return
        # An ephemeral container is not among them, and requests nothing.
        container = next((one for one in pod.containers if one.name == name), Container(name))
        for resource, _ in container.devices:
            known = resource in self.pod_devices.resources
            if not known or self.pod_devices.container_devices(uid, name, resource) is not None:
                continue
            try:
                self.allocate(pod, container, resource, self._at_start[uid])
            except DeviceError as error:
                raise NotModelled(f"pod {pod.name}: {name} cannot start: {error}") from error

    def _devices_to_allocate(
        self,
        pod: Pod,
        container: Container,
        resource: str,
        required: int,
        reusable: Collection[str],
        hint: Hint | None,
    ) -> list[str]:
        """``devicesToAllocate``: empty where there is nothing to hand out."""
        held = self.pod_devices.container_devices(pod.uid, container.name, resource)
        if held is not None and len(held) != required:
            raise DeviceError(
                f'pod "{pod.uid}" container "{container.name}" changed request for resource '
                f'"{resource}" from {len(held)} to {required}'
            )
        if has(self._release, Behaviour.DEVICES_CHECKED_AT_RESTART):
            if not self.sources_ready and self._runs_already(pod, container):
                return []
            self._require_healthy(resource, held or {})
        if held is not None or not required:
            return []
        chosen = sorted(reusable)[:required]
        unknown = self.pod_devices.some_by_chance(pod.uid, resource)
        if chosen and (required < len(reusable) or unknown):
            self.pod_devices.by_chance.add((pod.uid, container.name, resource))
        needed = required - len(chosen)
        if not needed:
            return chosen
        available = self._available_devices(resource) - set(chosen)
        if len(available) < needed:
            raise DeviceError(
                f"requested number of devices unavailable for {resource}. Requested: {needed}, "
                f"Available: {len(available)}"
            )
        near = self._filter_by_affinity(resource, available, hint)
        in_order = [*sorted(near), *sorted(available - near)]
        return chosen + in_order[:needed]

    def _runs_already(self, pod: Pod, container: Container) -> bool:
        """``isContainerAlreadyRunning``. Raises :class:`NotModelled` where Go's map order
        decides."""
        key = (pod.uid, container.name)
        if key in self._doubtful and minor_of(self._release) < _RESTARTED_KNOWN_SINCE:
            raise NotModelled(
                f"Start: container {pod.name}/{container.name} has devices and was restarted, by "
                f"release {self._release}"
            )
        return key in self._running

    def _require_healthy(self, resource: str, held: Held) -> None:
        healthy = self._healthy(resource)
        ending = f"; cannot allocate unhealthy devices {resource}"
        if not healthy:
            raise DeviceError(f"no healthy devices present{ending}")
        if not held.keys() <= healthy.keys():
            raise DeviceError(f"previously allocated devices are no longer healthy{ending}")

    def _filter_by_affinity(
        self, resource: str, available: Collection[str], hint: Hint | None
    ) -> set[str]:
        """``filterByAffinity``: those near to one of the hint's NUMA nodes."""
        nodes = None if hint is None else hint.nodes
        if nodes is ANY:
            return set()
        every = self._all_devices[resource]
        return {
            one for one in available if any(nodes >> node & 1 for node in every[one].numa_nodes)
        }

    def _note_admission(self, pod: Pod) -> None:
        if has(self._release, Behaviour.LAST_ADMITTED_STAYS):
            self.last_admitted, self.last_by_chance = (pod,), False


class DevicesOf:
    """The devices of one resource as a hint provider of the Topology Manager."""

    def __init__(self, manager: DeviceManager, resource: str) -> None:
        self._manager = manager
        self._resource = resource

    def hints(self, pod: Pod, container: Container) -> list[Hint] | None:
        """For a container; ``None`` where it requests none, or no device names its NUMA nodes."""
        return self._manager.topology_hints(pod, container, self._resource)

    def pod_hints(self, pod: Pod) -> list[Hint] | None:
        """The same for a whole pod."""
        return self._manager.pod_topology_hints(pod, self._resource)

    def allocate(self, pod: Pod, container: Container, hint: Hint | None) -> None:
        """Hand devices out. Raises :class:`DeviceError`."""
        self._manager.allocate(pod, container, self._resource, hint)

    def allocate_pod(self, pod: Pod, hint: Hint | None) -> None:
        """For a pod that gets its CPUs as a whole."""
        self._manager.allocate_pod(pod, hint)


def _nearness_by_chance(every: PodDevices, pod: Pod, resource: str) -> bool:
    """Whether Go's map order decided near which NUMA nodes the devices of a container are."""
    held = every.pod_devices(pod.uid, resource)
    if len({one.numa_nodes for one in held.values()}) < 2:
        return False
    return every.some_by_chance(pod.uid, resource)


def _pod_device_request(pod: Pod, resource: str) -> int | None:
    """``getPodDeviceRequest``: those of the app containers together, or of the init container that
    requests most."""
    counts = [
        (one.kind, count)
        for one in pod.containers
        for name, count in one.devices
        if name == resource
    ]
    if not counts:
        return None
    if any(kind is Kind.SIDECAR for kind, _ in counts):
        raise NotModelled(f"pod {pod.name}: devices of a sidecar under scope pod")
    apps = sum(count for kind, count in counts if kind is Kind.APP)
    return max([apps, *(count for kind, count in counts if kind is Kind.INIT)])
