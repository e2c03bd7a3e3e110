"""Device managers and Topology Managers that are wrong about devices, in one way each.

What belongs here: subclasses of the model's managers with one step overridden. What never does:
which scenario catches them (the package).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from reference.devicemanager.manager import DeviceManager
from reference.devicemanager.pod_devices import Held, PodDevices
from reference.errors import TopologyAffinityError
from reference.pods.pod import Container, Pod
from reference.releases import AnyRelease
from reference.steps import Device
from reference.topologymanager.hint import ANY, Hint
from reference.topologymanager.topology_manager import (
    HintProvider,
    TopologyManager,
    affinity_error,
)

_MANY: Final = 4


class IgnoresDeviceHints(DeviceManager):
    """Hands devices out and gives the Topology Manager no hint."""

    def _hints(
        self, resource: str, requested: int, held: Held | None, reusable: Collection[str]
    ) -> list[Hint] | None:
        """No preference."""
        return None


class BindsByEveryDevice(DeviceManager):
    """Takes a device that names no NUMA node to be near to the last one."""

    def register(self, resource: str, devices: Sequence[Device]) -> None:  # type: ignore[override]
        """Every device names one."""
        last = self._numa_nodes[-1:]
        super().register(
            resource, [one if one.numa_nodes else replace(one, numa_nodes=last) for one in devices]
        )


class AsksForTheFirstContainer(DeviceManager):
    """Under scope pod, counts the devices of a pod's first container alone."""

    def pod_topology_hints(self, pod: Pod, resource: str) -> list[Hint] | None:
        """As of a pod with one container."""
        return super().pod_topology_hints(replace(pod, containers=pod.containers[:1]), resource)


class BindsEveryContainer(DeviceManager):
    """Gives each container of a pod the hints of the devices of all of them."""

    def topology_hints(self, pod: Pod, container: Container, resource: str) -> list[Hint] | None:
        """As of the whole pod."""
        return self.pod_topology_hints(pod, resource)


class LendsNoInitDevices(DeviceManager):
    """Keeps the device of an init container from its pod's other containers."""

    def allocate(self, pod: Pod, container: Container, resource: str, hint: Hint | None) -> None:
        """Nothing is used again."""
        super().allocate(pod, container, resource, hint)
        self._to_reuse.clear()


class GivesDevicesTwice(DeviceManager):
    """Hands out devices that a container holds already."""

    def _available_devices(self, resource: str) -> set[str]:
        """All that are healthy."""
        return {*self._all_devices.get(resource, ())}


class KeepsDevicesOfTheDead(DeviceManager):
    """Never takes back the devices of a deleted pod."""

    def update_allocated_devices(self) -> None:
        """Nothing is stale."""


class ForgetsDevices(DeviceManager):
    """Starts without its checkpoint."""

    def __init__(
        self,
        numa_nodes: Sequence[int] = (),
        *,
        release: AnyRelease,
        kept: PodDevices | None = None,
        running: Collection[tuple[str, str]] = (),
    ) -> None:
        super().__init__(numa_nodes, release=release)


class RefusesLateDevices(DeviceManager):
    """Refuses running pods too until their device plugin has registered again."""

    def __init__(
        self,
        numa_nodes: Sequence[int] = (),
        *,
        release: AnyRelease,
        kept: PodDevices | None = None,
        running: Collection[tuple[str, str]] = (),
    ) -> None:
        super().__init__(numa_nodes, release=release, kept=kept)


class ReportsFreeDevicesAlone(DeviceManager):
    """Leaves devices that are held out of those that pods could have."""

    def healthy_devices(self) -> dict[str, Mapping[str, Device]]:
        """Those that nobody holds."""
        return {
            resource: {one: held[one] for one in self._available_devices(resource)}
            for resource, held in super().healthy_devices().items()
        }


class AsksTheFirstProvider(TopologyManager):
    """Counts the hints of one resource and of no other."""

    def merged(self, every: Sequence[list[Hint] | None]) -> Hint:
        """The first that has any."""
        given = [hints for hints in every if hints is not None]
        return super().merged(given[:1] or every)


class AlignsUnderNone(TopologyManager):
    """Has providers take from the last NUMA node under policy none."""

    def _container_affinity(
        self, pod: Pod, container: Container, providers: Sequence[HintProvider]
    ) -> Hint | None:
        """The first hint of the first provider that has one."""
        hints = next(filter(None, (one.hints(pod, container) for one in providers)), [])
        return next(iter(hints), None)


class AdmitsWithoutRoom(TopologyManager):
    """Admits under every policy, as best-effort does."""

    def _affinity(self, pod: Pod, every: Sequence[list[Hint] | None]) -> Hint | None:
        """Where no hint is good enough, anywhere."""
        try:
            return super()._affinity(pod, every)
        except TopologyAffinityError:
            return None


class RefusesManyResources(TopologyManager):
    """Refuses what has hints of four resources, instead of merging them."""

    def merged(self, every: Sequence[list[Hint] | None]) -> Hint:
        """None is good enough, and best-effort takes no CPUs either."""
        if len(every) >= _MANY:
            raise affinity_error(self._release)
        return super().merged(every)


class RefusesWithoutRoom(TopologyManager):
    """Refuses under best-effort too what cannot be aligned."""

    def _affinity(self, pod: Pod, every: Sequence[list[Hint] | None]) -> Hint | None:
        """As restricted does."""
        best = self.merged(every)
        if not best.preferred:
            raise self.refusal(pod)
        return None if best.nodes is ANY else best
