"""The containers of a node, as its runtime has them.

Containers outlive the kubelet, but not a reboot of the machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from reference.cpuset import CPUSet
from reference.pods.pod import Container, Kind, Pod
from reference.view import CFS, Asked, ReservedCgroup


@lru_cache(maxsize=4096)
def container_id(uid: str, name: str, number: int) -> str:
    """The id of the ``number``-th container of this name that a pod's runtime has made. Runtimes
    choose ids at random; these are made so that two runtimes choose the same."""
    return hashlib.sha256(f"{uid}/{name}/{number}".encode()).hexdigest()


@dataclass(slots=True)
class RuntimeContainer:
    """One container; ``cpuset`` is ``None`` while none was asked for, and ``cfs`` where it is not
    modelled. ``again``: another of its name was there before it. ``recorded``: whether a kubelet
    has written down which resources it gave to the container of this name. ``owed``: it has ended
    while the kubelet was down, and the next one creates it again."""

    spec: Container
    cpuset: CPUSet | None
    id: str
    cfs: CFS | None = None
    asked: Asked | None = None
    running: bool = True
    again: bool = False
    recorded: bool = False
    owed: bool = False

    def copy(self) -> RuntimeContainer:
        """An independent copy."""
        return RuntimeContainer(
            self.spec,
            self.cpuset,
            self.id,
            self.cfs,
            self.asked,
            self.running,
            self.again,
            self.recorded,
            self.owed,
        )


class PodCgroup(NamedTuple):
    """The cgroup of a pod. ``qos``: the class that it is below; ``cfs`` is ``None`` where it is not
    modelled."""

    qos: str
    cfs: CFS | None


class Runtime:
    """All containers, by pod uid, then name. ``refusals``: how many updates it will refuse;
    ``math.inf``: every one. ``refuses``: only updates of containers of this name (``""``: of any).
    ``pod_cgroups``: by pod uid, for each pod that has one. ``sandboxes``: by pod uid, the CFS quota
    that each sandbox was created with (``None``: without one), where that is modelled.
    ``burstable_weight``: that of the cgroup above those of Burstable pods; ``pods_weight``: that of
    the cgroup above all, ``None`` before a kubelet has started; ``pods_cpus``: the cpuset that is
    written into it (``getCgroupConfig``, ``node_container_manager_linux.go``).
    ``reserved_cgroups``: by name, those in which a reservation is enforced."""

    __slots__ = (
        "_boxes",
        "_forgotten",
        "_made",
        "_owners",
        "_peaks",
        "burstable_weight",
        "pod_cgroups",
        "pods_cpus",
        "pods_weight",
        "refusals",
        "refuses",
        "removed",
        "reserved_cgroups",
        "sandboxes",
    )

    def __init__(self) -> None:
        self.refusals: float = 0
        self.refuses = ""
        self.pod_cgroups: dict[str, PodCgroup] = {}
        self.sandboxes: dict[str, int | None] = {}
        self.burstable_weight = 1
        self.pods_weight: int | None = None
        self.pods_cpus = CPUSet()
        self.reserved_cgroups: dict[str, ReservedCgroup] = {}
        self._boxes: dict[str, dict[str, RuntimeContainer]] = {}
        self._made: dict[tuple[str, str], int] = {}
        self._owners: dict[str, tuple[str, str]] = {}
        self._peaks: dict[str, int] = {}
        #: The ids of containers that were ended all at once.
        self._forgotten: frozenset[str] = frozenset()
        #: The pods whose containers were stopped since the machine booted.
        self.removed: set[str] = set()

    def copy(self) -> Runtime:
        """An independent copy."""
        twin = Runtime()
        twin.refusals, twin.refuses = self.refusals, self.refuses
        twin.pod_cgroups, twin.sandboxes = dict(self.pod_cgroups), dict(self.sandboxes)
        twin.burstable_weight, twin.pods_weight = self.burstable_weight, self.pods_weight
        twin.pods_cpus = self.pods_cpus
        twin.reserved_cgroups = dict(self.reserved_cgroups)
        twin._boxes = {
            uid: {name: box.copy() for name, box in boxes.items()}
            for uid, boxes in self._boxes.items()
        }
        twin._made, twin._owners = dict(self._made), dict(self._owners)
        twin._peaks = dict(self._peaks)
        twin._forgotten, twin.removed = self._forgotten, set(self.removed)
        return twin

    def owner(self, container: str) -> tuple[str, str] | None:
        """Pod uid and name of the container of this id, even if it is gone; ``None`` where another
        has taken its place, unless all were ended at once."""
        owner = self._owners.get(container)
        if owner is None:
            return None
        uid, name = owner
        box = self.of(uid).get(name)
        stays = box is None or box.id == container or container in self._forgotten
        return owner if stays else None

    def owners(self) -> dict[str, tuple[str, str]]:
        """Pod uid and name of the containers that there are, by id
        (``buildContainerMapFromRuntime``, ``pkg/kubelet/cm/container_manager_linux.go``)."""
        return {
            box.id: (uid, name) for uid, boxes in self._boxes.items() for name, box in boxes.items()
        }

    def of(self, uid: str) -> Mapping[str, RuntimeContainer]:
        """The containers of a pod, by name."""
        return self._boxes.get(uid, {})

    @property
    def restarted(self) -> set[tuple[str, str]]:
        """Pod uid and name of the containers that run in the place of one that has ended, which the
        kubelet keeps to show its log, or of a pod with the same uid that has just gone, whose
        containers it may still have (seen on 1.26.15)."""
        return {
            (uid, name)
            for uid, boxes in self._boxes.items()
            for name, box in boxes.items()
            if box.running and (box.again or uid in self.removed)
        }

    def uids(self) -> list[str]:
        """The pods that have containers."""
        return list(self._boxes)

    def create(self, pod: Pod, container: Container, cpuset: CPUSet) -> RuntimeContainer:
        """Create and start a container; the empty set asks for nothing."""
        owner = (pod.uid, container.name)
        self._made[owner] = number = self._made.get(owner, 0) + 1
        box = RuntimeContainer(container, cpuset or None, container_id(*owner, number))
        before = self.of(pod.uid).get(container.name)
        box.again, box.recorded = before is not None, before is not None and before.recorded
        self._owners[box.id] = owner
        self._boxes.setdefault(pod.uid, {})[container.name] = box
        return box

    def update(self, uid: str, container: str, cpuset: CPUSet) -> None:
        self._boxes[uid][container].cpuset = cpuset

    def runs(self, uid: str, container: str) -> bool:
        """Whether there is such a container and it runs."""
        box = self.of(uid).get(container)
        return box is not None and box.running

    def set_quota(self, uid: str, container: str, quota: int) -> None:
        """Give a container a CFS quota."""
        box = self._boxes[uid][container]
        box.cfs = replace(box.cfs, quota=quota) if box.cfs else CFS(quota)

    def set_cfs(self, uid: str, container: str, cfs: CFS | None) -> None:
        """Change the processor time of a container."""
        self._peaks[uid] = self._peak(uid)
        self._boxes[uid][container].cfs = cfs
        self._peaks[uid] = self._peak(uid)

    def asked(self) -> dict[str, dict[str, Asked]]:
        """What was asked for each running container, where that is known, and for the init
        containers, which have ended, by pod uid, then name."""
        return {
            uid: {
                name: box.asked
                for name, box in boxes.items()
                if box.asked and (box.running or box.spec.kind is Kind.INIT)
            }
            for uid, boxes in self._boxes.items()
        }

    def try_update(self, uid: str, container: str, cpuset: CPUSet) -> bool:
        """Update the cpuset of a container, unless updates are refused; whether it was done."""
        if self.refusals and self.refuses in ("", container):
            self.refusals -= 1
            return False
        self.update(uid, container, cpuset)
        box = self._boxes[uid][container]
        if box.asked:
            sent = (*box.asked.sent, cpuset)
            box.asked = replace(box.asked, updates=len(sent), sent=sent)
        return True

    def cfs(self) -> dict[str, dict[str, CFS]]:
        """The processor time of every running container for which it is known, by pod uid, then
        name."""
        return {
            uid: {name: box.cfs for name, box in boxes.items() if box.running and box.cfs}
            for uid, boxes in self._boxes.items()
        }

    def pod_cfs(self) -> dict[str, CFS]:
        """The processor time of the cgroup of each pod that has a running container, where it is
        modelled, by pod uid."""
        return {
            uid: cgroup.cfs
            for uid, cgroup in self.pod_cgroups.items()
            if cgroup.cfs and self._has_running(uid)
        }

    def sandbox_quotas(self) -> dict[str, int | None]:
        """The CFS quota that the sandbox of each pod that has a running container was created with,
        where that is modelled, by pod uid."""
        return {uid: quota for uid, quota in self.sandboxes.items() if self._has_running(uid)}

    def peak_quotas(self) -> dict[str, int]:
        """The most that the CFS quotas of each pod's running containers came to at one moment, by
        pod uid, where a container runs."""
        return {uid: self._peak(uid) for uid in self._boxes if self._has_running(uid)}

    def _has_running(self, uid: str) -> bool:
        return any(box.running for box in self.of(uid).values())

    def _peak(self, uid: str) -> int:
        """In microseconds; a container without a quota counts as 0."""
        boxes = self.of(uid).values()
        now = sum(box.cfs.quota or 0 for box in boxes if box.running and box.cfs)
        return max(self._peaks.get(uid, 0), now)

    def end(self, uid: str, container: str, *, owed: bool = False) -> None:
        """A container ends by itself; it stays until it is created again or removed. ``owed``: the
        next kubelet creates it."""
        box = self._boxes[uid][container]
        box.running, box.owed = False, owed

    def remove_pod(self, uid: str) -> None:
        """Stop and remove the containers of a pod."""
        self.pod_cgroups.pop(uid, None)
        self.sandboxes.pop(uid, None)
        self._peaks.pop(uid, None)
        if self._boxes.pop(uid, None):
            self.removed.add(uid)

    def forget_containers(self) -> None:
        """All containers are gone, although the machine has not booted."""
        self._forgotten |= self.owners().keys()
        self.removed.update(self._boxes)
        self._boxes = {}
        self.sandboxes.clear()
        self._peaks.clear()

    def clear(self) -> None:
        """Lose everything, as a reboot does."""
        self._boxes.clear()
        self.sandboxes.clear()
        self._peaks.clear()
        self.pod_cgroups.clear()
        self.pods_cpus = CPUSet()
        self.reserved_cgroups.clear()
        self.removed.clear()

    def running(self) -> dict[str, dict[str, CPUSet | None]]:
        """The cpuset of every running container, by pod uid, then name."""
        shown = {
            uid: {name: box.cpuset for name, box in boxes.items() if box.running}
            for uid, boxes in self._boxes.items()
        }
        return {uid: boxes for uid, boxes in shown.items() if boxes}
