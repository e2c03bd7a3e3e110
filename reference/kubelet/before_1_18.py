"""A kubelet up to 1.17, which knows containers by their ids.

What belongs here: what is different from :mod:`reference.kubelet.kubelet`: CPUs are taken when a
container is about to start, and given back when it is stopped. What never does: the CPU manager of
the time (:mod:`reference.cpumanager.before_1_18`).

A container is created without a cpuset and updated before it starts; a reconcile round updates
every container.
"""

from __future__ import annotations

from typing import Final

from reference.behaviours import Behaviour
from reference.cpumanager.before_1_18 import ManagerByContainer
from reference.cpumanager.cpu_manager import CPUManager
from reference.cpuset import CPUSet
from reference.errors import AllocationError, NotModelled
from reference.kubelet.container_manager import ContainerManager
from reference.kubelet.kubelet import Kubelet
from reference.kubelet.runtime import RuntimeContainer
from reference.pods.pod import Container, Kind, Pod
from reference.view import Asked

#: The most rounds until nothing changes any more. Two are enough, except for init containers: each
#: round may take CPUs from one for another (1.16 and 1.17) and end as it began.
_MOST_ROUNDS: Final = 8


class ContainerManagerByContainer(ContainerManager):
    """The container manager up to 1.17; its CPU manager is a :class:`ManagerByContainer`."""

    def admit(self, pod: Pod) -> None:
        """No CPUs are taken; the Topology Manager decides near which NUMA nodes they will be, for
        each container on its own. Raises :class:`TopologyAffinityError`.

        In 1.16 it looks only at pods whose status says Guaranteed, and ignores static pods.
        """
        manager = _by_container(self.cpu_manager)
        if manager.has(Behaviour.STATIC_PODS_ALIGNED):
            manager.affinities[pod.uid] = self.topology_manager.affinities(pod, manager)


def _by_container(manager: CPUManager) -> ManagerByContainer:
    assert isinstance(manager, ManagerByContainer)
    return manager


class KubeletByContainer(Kubelet):
    """One run of a kubelet up to 1.17; its manager is a :class:`ManagerByContainer`."""

    @property
    def by_container(self) -> ManagerByContainer:
        return _by_container(self._cpu_manager)

    @property
    def _pins(self) -> bool:
        return self._cpu_manager.policy.name != "none"

    def begin(self) -> None:
        """The first reconcile round meets no container: no pod is known yet."""
        if self._pins:
            self.by_container.remove_unmet(())

    def unsaved_state(self) -> str | None:
        """See :meth:`Kubelet.unsaved_state`; 1.8 writes none."""
        return super().unsaved_state() if self.by_container.has(Behaviour.STATE_FILE) else None

    @property
    def _takes_turns(self) -> bool:
        """Each pod has a worker of its own, and the workers start containers side by side."""
        return False

    def _wants_cpus(self, pod: Pod) -> bool:
        """Whether some container of the pod takes CPUs that it does not hold yet."""
        manager, boxes = self.by_container, self.runtime.of(pod.uid)
        retakes = manager.has(Behaviour.LOST_CPUS_TAKEN_ANEW)
        for one in pod.containers:
            box = boxes.get(one.name)
            missing = box is None or (retakes and manager.held(box.id) is None)
            if missing and manager.owed(pod, one):
                return True
        return False

    def end_gone(self) -> None:
        """Stop the containers of pods that are not there, which returns CPUs in most releases."""
        wanted = {pod.uid for pod in self._admitted.values()}
        for uid in self.runtime.uids():
            if uid not in wanted:
                for box in self.runtime.of(uid).values():
                    if box.running or self._removal_returns:
                        self.by_container.remove(box.id)
                self.runtime.remove_pod(uid)

    def settle(self) -> None:
        """Stop the containers of pods that are not there, and go through a reconcile round."""
        self.end_gone()
        for _ in range(_MOST_ROUNDS if self._pins else 0):
            before = self._cpu_manager.state.copy().checkpoint()
            self._reconcile()
            # The next round corrects containers that were sent the pool before this one took CPUs.
            if self._cpu_manager.state.checkpoint() == before:
                break

    @property
    def _removal_returns(self) -> bool:
        """Up to 1.13 only its removal returns the CPUs of a container that has ended; later a round
        has done so before."""
        manager = self.by_container
        return not (
            manager.has(Behaviour.UNMET_CONTAINERS_FORGOTTEN)
            or manager.has(Behaviour.STALE_CONTAINERS_FORGOTTEN)
        )

    def _reconcile(self) -> None:
        manager = self.by_container
        every = [(pod, one) for pod in self._admitted.values() for one in pod.containers]
        boxes = [self.runtime.of(pod.uid).get(one.name) for pod, one in every]
        manager.remove_stale(box.id if box else None for box in boxes)
        met = []
        for (pod, container), box in zip(every, boxes, strict=True):
            if box is not None and self._is_found(container):
                met.append(box.id)
                self._reconcile_one(pod, container, box)
        manager.remove_unmet(met)

    def _is_found(self, container: Container) -> bool:
        """Whether a round finds the container's id in the pod's status."""
        app = container.kind is Kind.APP
        return app or self.by_container.has(Behaviour.INIT_CONTAINERS_RECONCILED)

    def _reconcile_one(self, pod: Pod, container: Container, box: RuntimeContainer) -> None:
        cpus = self.by_container.settled(pod, container, box.id)
        if cpus:
            self.runtime.update(pod.uid, container.name, cpus)

    def _run(self, pod: Pod, *, raced: bool) -> None:
        """Create each without a cpuset and give it its CPUs before it starts."""
        for container in pod.containers:
            if container.name in self.runtime.of(pod.uid):
                continue
            box = self.runtime.create(pod, container, CPUSet())
            box.cfs = self._managers.cfs(pod, container)
            try:
                cpus = self.by_container.add(pod, container, box.id)
            except AllocationError as error:
                raise NotModelled(
                    f"Apply: container {pod.name}/{container.name} cannot start ({error}); up to "
                    "1.17 the kubelet tries again later and later"
                ) from error
            if cpus:
                self.runtime.update(pod.uid, container.name, cpus)
            box.asked = Asked(cpus or None, None, id=box.id, raced=raced)
            box.running = container.kind is not Kind.INIT
