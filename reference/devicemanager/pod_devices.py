"""Which container holds which devices, as the device manager's checkpoint keeps it.

What belongs here: ``podDevices`` and what outlives a kubelet. What never does: choosing devices
(``manager``). Source: ``devicemanager/pod_devices.go``, 1.20 to 1.37.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from reference.steps import Device

#: The devices of one container and resource, by id.
Held: TypeAlias = Mapping[str, Device]


@dataclass(slots=True)
class PodDevices:
    """``podDevices``: by pod uid, then container, then resource; and the resources that were ever
    registered. ``by_chance``: the (pod uid, container, resource) whose devices are some of those
    that the pod's init containers left over; which ones, Go's map order decides."""

    held: dict[str, dict[str, dict[str, Held]]] = field(default_factory=dict)
    resources: set[str] = field(default_factory=set)
    by_chance: set[tuple[str, str, str]] = field(default_factory=set)

    def copy(self) -> PodDevices:
        """An independent copy."""
        held = {
            uid: {name: dict(resources) for name, resources in containers.items()}
            for uid, containers in self.held.items()
        }
        return PodDevices(held, set(self.resources), set(self.by_chance))

    def container_devices(self, uid: str, container: str, resource: str) -> Held | None:
        """``containerDevices``: ``None`` where nothing was ever handed out."""
        return self.held.get(uid, {}).get(container, {}).get(resource)

    def insert(self, uid: str, container: str, resource: str, devices: Held) -> None:
        """``insert``: these are the container's."""
        self.held.setdefault(uid, {}).setdefault(container, {})[resource] = devices

    def devices(self, resource: str) -> set[str]:
        """``devices``: the ids that containers hold."""
        return {
            each
            for containers in self.held.values()
            for resources in containers.values()
            for each in resources.get(resource, ())
        }

    def pod_devices(self, uid: str, resource: str) -> Held:
        """``podDevices``: the same of one pod."""
        found: dict[str, Device] = {}
        for resources in self.held.get(uid, {}).values():
            found |= resources.get(resource, {})
        return found

    def some_by_chance(self, uid: str, resource: str) -> bool:
        """Whether Go's map order decided which devices of this resource a container of the pod
        has."""
        return any((pod, other) == (uid, resource) for pod, _, other in self.by_chance)

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget every other pod (``delete``)."""
        self.held = {uid: held for uid, held in self.held.items() if uid in uids}
        self.by_chance = {own for own in self.by_chance if own[0] in uids}
