"""Device managers and Topology Managers that are wrong about devices, in one way each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from conformance.subjects.miniatures.policies import preferring_fewest
from reference.devicemanager.manager import DeviceManager
from reference.devicemanager.pod_devices import Held, PodDevices
from reference.errors import DeviceError, TopologyAffinityError
from reference.pods.pod import Container, Kind, Pod
from reference.releases import AnyRelease
from reference.steps import Device
from reference.topologymanager.hint import ANY, Hint
from reference.topologymanager.topology_manager import HintProvider, TopologyManager, affinity_error

_MANY: Final = 4


class IgnoresDeviceHints(DeviceManager):
    """Hands out devices, and gives the Topology Manager no hint."""

    def _hints(
        self, resource: str, requested: int, held: Held | None, reusable: Collection[str]
    ) -> list[Hint] | None:
        return None


class HintsHeldDevicesAfresh(DeviceManager):
    """Gives a container that holds devices the hints of one that holds none."""

    def _hints(
        self, resource: str, requested: int, held: Held | None, reusable: Collection[str]
    ) -> list[Hint] | None:
        return super()._hints(resource, requested, None, reusable)


class PrefersFreeDevices(DeviceManager):
    """Prefers the fewest NUMA nodes that free devices need, even if an empty machine would need
    fewer."""

    def _hints(
        self, resource: str, requested: int, held: Held | None, reusable: Collection[str]
    ) -> list[Hint] | None:
        hints = super()._hints(resource, requested, held, reusable)
        return hints and preferring_fewest(hints)


class BindsByEveryDevice(DeviceManager):
    """Treats a device that names no NUMA node as a device of the last NUMA node."""

    def register(self, resource: str, devices: Sequence[Device]) -> None:  # type: ignore[override]
        last = self._numa_nodes[-1:]
        super().register(
            resource, [one if one.numa_nodes else replace(one, numa_nodes=last) for one in devices]
        )


class BindsByEmptyLists(DeviceManager):
    """Treats a device with an empty list of NUMA nodes as a device that none of them can serve."""

    def _hints(
        self, resource: str, requested: int, held: Held | None, reusable: Collection[str]
    ) -> list[Hint] | None:
        every = self._all_devices.get(resource, {})
        if any(one.names_none for one in every.values()):
            return []
        return super()._hints(resource, requested, held, reusable)


class AsksForTheFirstContainer(DeviceManager):
    """Under scope pod, counts only the devices of a pod's first container."""

    def pod_topology_hints(self, pod: Pod, resource: str) -> list[Hint] | None:
        return super().pod_topology_hints(replace(pod, containers=pod.containers[:1]), resource)


class AddsUpInitDevices(DeviceManager):
    """Under scope pod, asks for the devices of all containers of a pod together."""

    def pod_topology_hints(self, pod: Pod, resource: str) -> list[Hint] | None:
        apps = tuple(replace(one, kind=Kind.APP) for one in pod.containers)
        return super().pod_topology_hints(replace(pod, containers=apps), resource)


class BindsEveryContainer(DeviceManager):
    """Gives each container of a pod the hints for the devices of all its containers."""

    def topology_hints(self, pod: Pod, container: Container, resource: str) -> list[Hint] | None:
        return self.pod_topology_hints(pod, resource)


class LendsNoInitDevices(DeviceManager):
    """Keeps the device of an init container from its pod's other containers."""

    def allocate(self, pod: Pod, container: Container, resource: str, hint: Hint | None) -> None:
        super().allocate(pod, container, resource, hint)
        self._to_reuse.clear()


class LendsDevicesOfSidecars(DeviceManager):
    """Gives an app container the devices of a sidecar that runs beside it."""

    def allocate(self, pod: Pod, container: Container, resource: str, hint: Hint | None) -> None:
        lends = container.kind is Kind.SIDECAR
        super().allocate(
            pod, replace(container, kind=Kind.INIT) if lends else container, resource, hint
        )


class KnowsOneNodeOfADevice(DeviceManager):
    """Takes a device that is near to several NUMA nodes for one of the first of them."""

    def register(self, resource: str, devices: Iterable[Device]) -> None:
        known = [replace(one, numa_nodes=one.numa_nodes[:1]) for one in devices]
        super().register(resource, known)


class GivesDevicesTwice(DeviceManager):
    """Hands out devices that another container already holds."""

    def _available_devices(self, resource: str) -> set[str]:
        return {*self._all_devices.get(resource, ())}


class GivesUnhealthyDevices(DeviceManager):
    """Hands out devices that their plugin has reported as unhealthy, too."""

    def register(self, resource: str, devices: Iterable[Device]) -> None:
        super().register(resource, [replace(one, healthy=True) for one in devices])


class ForgetsUnhealthyDevices(DeviceManager):
    """Takes those devices from the capacity that were unhealthy before their plugin went away."""

    def end_plugin(self, resource: str) -> None:
        self._all_devices[resource] = self._healthy(resource)
        super().end_plugin(resource)


class KeepsDevicesOfTheDead(DeviceManager):
    """Never takes back the devices of a deleted pod."""

    def update_allocated_devices(self) -> None:
        """Nothing is stale."""


class LosesDevicesOfFailedCalls(DeviceManager):
    """Treats the free devices of a resource as held once its plugin has failed to allocate one."""

    _lost: frozenset[str] = frozenset()

    def _call_plugin(self, container: Container, resource: str) -> None:
        try:
            super()._call_plugin(container, resource)
        except DeviceError:
            self._lost |= self._available_devices(resource)
            raise

    def _available_devices(self, resource: str) -> set[str]:
        return super()._available_devices(resource) - self._lost


class ForgetsDevices(DeviceManager):
    """Starts without the checkpoint of the device manager."""

    def __init__(self, numa_nodes: Sequence[int] = (), *, release: AnyRelease, **_: object) -> None:
        super().__init__(numa_nodes, release=release)


class RefusesLateDevices(DeviceManager):
    """Refuses running pods too, until their device plugin registers again."""

    def __init__(
        self,
        numa_nodes: Sequence[int] = (),
        *,
        release: AnyRelease,
        kept: PodDevices | None = None,
        **_: object,
    ) -> None:
        super().__init__(numa_nodes, release=release, kept=kept)


class ReportsFreeDevicesAlone(DeviceManager):
    """Reports only free devices as allocatable."""

    def healthy_devices(self) -> dict[str, Mapping[str, Device]]:
        return {
            resource: {one: held[one] for one in self._available_devices(resource)}
            for resource, held in super().healthy_devices().items()
        }


class ReportsEmptyLists(DeviceManager):
    """Reports a device with an empty list of NUMA nodes as allocatable."""

    def healthy_devices(self) -> dict[str, Mapping[str, Device]]:
        return {
            resource: {one.id: replace(one, names_none=False) for one in held.values()}
            for resource, held in super().healthy_devices().items()
        }


class AsksTheFirstProvider(TopologyManager):
    """Uses the hints of one resource, and ignores the hints of all others."""

    def merged(self, every: Sequence[list[Hint] | None]) -> Hint:
        given = [hints for hints in every if hints is not None]
        return super().merged(given[:1] or every)


class AlignsUnderNone(TopologyManager):
    """Under policy none too, allocates by the first hint of the first provider."""

    def _container_affinity(
        self, pod: Pod, container: Container, providers: Sequence[HintProvider]
    ) -> Hint | None:
        hints = next(filter(None, (one.hints(pod, container) for one in providers)), [])
        return next(iter(hints), None)


class AdmitsWithoutRoom(TopologyManager):
    """Admits pods under every policy as best-effort does."""

    def _affinity(self, pod: Pod, every: Sequence[list[Hint] | None]) -> Hint | None:
        try:
            return super()._affinity(pod, every)
        except TopologyAffinityError:
            return None


class RefusesManyResources(TopologyManager):
    """Refuses a request with hints of four resources, instead of merging the hints."""

    def merged(self, every: Sequence[list[Hint] | None]) -> Hint:
        """None is good enough, and best-effort takes no CPUs either."""
        if len(every) >= _MANY:
            raise affinity_error(self._release)
        return super().merged(every)


class RefusesWithoutRoom(TopologyManager):
    """Under best-effort too, refuses a request that cannot be aligned."""

    def _affinity(self, pod: Pod, every: Sequence[list[Hint] | None]) -> Hint | None:
        best = self.merged(every)
        if not best.preferred:
            raise self.refusal(pod)
        return None if best.nodes is ANY else best
