"""CPU manager and kubelet up to 1.17, which know containers by their ids.

What belongs here: what is different from :mod:`reference.manager` and :mod:`reference.kubelet`
where CPUs are taken when a container is about to start, and given back when it is stopped. What
never does: choosing CPUs (``policy``), or the file (``checkpoint``).

The state is keyed by container id, so nothing of it outlives a container. Admission takes no CPUs:
the Topology Manager, where it is on, only decides where they are to lie. A container is created
without a cpuset and updated before it starts. A reconcile round updates every container, and takes
CPUs for those that have none in the state yet: after the loss of the state file, and for init
containers that have ended long ago. CPUs of stopped containers are free at once; what else is
stale goes only once every container of every active pod is known, and never while there is no pod.
Source: ``cpu_manager.go``, ``policy_static.go``, ``internal_container_lifecycle.go`` of 1.13 to
1.17; seen on 1.17.17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from reference.behaviours import Behaviour
from reference.cpuset import CPUSet
from reference.errors import AllocationError, NotModelled
from reference.hints import Hint
from reference.kubelet import Kubelet
from reference.manager import CPUManager
from reference.policy import StaticPolicy
from reference.releases import has
from reference.steps import Container, Kind, Pod

__all__ = ["KubeletByContainer", "ManagerByContainer"]

#: Pod uid and container name.
_Owner: TypeAlias = tuple[str, str]
#: The state's key for all containers.
_NO_POD = ""


class ManagerByContainer(CPUManager):
    """The CPU manager up to 1.17."""

    _by_owner: dict[_Owner, str]
    _affinities: dict[str, Mapping[str, Hint | None]]

    def start(
        self, state_file: str | None, containers: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        """See :meth:`CPUManager.start`; what the runtime runs does not matter."""
        self._by_owner, self._affinities = {}, {}
        super().start(state_file)

    def copy(self) -> ManagerByContainer:
        """An independent copy."""
        twin = super().copy()
        assert isinstance(twin, ManagerByContainer)
        twin._by_owner, twin._affinities = dict(self._by_owner), dict(self._affinities)
        return twin

    def admit(self, pod: Pod, active: Iterable[Pod]) -> None:
        """No CPUs are taken; the Topology Manager decides where they will lie, each container for
        itself. Raises :class:`TopologyAffinityError`."""
        self._affinities[pod.uid] = self._aligner.affinities(pod, self._desk(tuple(active)))

    def remove_stale_state(self, active: Iterable[Pod]) -> None:
        """Nothing by name: see :meth:`remove_stale`."""

    def held(self, container_id: str) -> CPUSet | None:
        """The exclusive CPUs of a container, if it has any."""
        return self.state.get(_NO_POD, container_id)

    def add(self, pod: Pod, container: Container, container_id: str) -> CPUSet:
        """``AddContainer``: the CPUs that the container is given. Raises
        :class:`AllocationError`."""
        policy = self.policy
        if isinstance(policy, StaticPolicy):
            count = policy.count(pod, container)
            if count and self.held(container_id) is None:
                self._return_init_cpus(pod, container)
                hint = self._affinities.get(pod.uid, {}).get(container.name)
                taken = policy.take_near(policy.available(self.state), count, hint)
                self.state.set_default(self.state.default - taken)
                self.state.set(_NO_POD, container_id, taken)
        self._by_owner[pod.uid, container.name] = container_id
        return self.cpus_of(container_id)

    def cpus_of(self, container_id: str) -> CPUSet:
        """Its own CPUs, or the shared pool."""
        own = self.held(container_id)
        return self.state.default if own is None else own

    def _return_init_cpus(self, pod: Pod, container: Container) -> None:
        """From 1.16 on, before a container takes CPUs, those of its pod's init containers return:
        they have ended by then."""
        if not has(self._release, Behaviour.INIT_CPUS_RETURNED):
            return
        for one in pod.containers:
            if one.kind is not Kind.APP and one.name != container.name:
                container_id = self._by_owner.get((pod.uid, one.name))
                if container_id is not None:
                    self.remove(container_id)

    def remove(self, container_id: str) -> None:
        """``RemoveContainer``: before a container is stopped."""
        self.policy.remove_container(self.state, _NO_POD, container_id)
        self._by_owner = {
            owner: known for owner, known in self._by_owner.items() if known != container_id
        }

    def remove_stale(self, known: Iterable[str | None]) -> None:
        """Forget all but these containers: of every active pod each, ``None`` where its id is not
        known yet. Nothing goes where one is not, or where there is no pod."""
        ids = list(known)
        if not ids or None in ids:
            return
        for container_id in list(self.state.entries.get(_NO_POD, {})):
            if container_id not in ids:
                self.remove(container_id)


class KubeletByContainer(Kubelet):
    """One run of a kubelet up to 1.17; its manager is a :class:`ManagerByContainer`."""

    @property
    def by_container(self) -> ManagerByContainer:
        """The CPU manager."""
        assert isinstance(self._manager, ManagerByContainer)
        return self._manager

    def _wants_cpus(self, pod: Pod) -> bool:
        """Whether some container of the pod takes CPUs that it does not hold yet."""
        policy = self._manager.policy
        if not isinstance(policy, StaticPolicy):
            return False
        return any(
            policy.count(pod, one) > 0 and self._held(pod, one) is None for one in pod.containers
        )

    def _held(self, pod: Pod, container: Container) -> CPUSet | None:
        box = self.runtime.of(pod.uid).get(container.name)
        return self.by_container.held(box.id) if box else None

    def settle(self) -> None:
        """Stop the containers of pods that are not there, and go through a reconcile round."""
        wanted = {pod.uid for pod in self._admitted.values()}
        for uid in self.runtime.uids():
            if uid not in wanted:
                for box in self.runtime.of(uid).values():
                    if box.running:
                        self.by_container.remove(box.id)
                self.runtime.remove_pod(uid)
        if self._manager.policy.name != "none":
            self._reconcile()

    def _reconcile(self) -> None:
        manager = self.by_container
        ids: list[str | None] = []
        for pod in self._admitted.values():
            boxes = self.runtime.of(pod.uid)
            ids += [boxes[one.name].id if one.name in boxes else None for one in pod.containers]
        manager.remove_stale(ids)
        for pod in self._admitted.values():
            for container in pod.containers:
                self._reconcile_one(pod, container, manager.add)

    def _reconcile_one(
        self, pod: Pod, container: Container, add: Callable[[Pod, Container, str], CPUSet]
    ) -> None:
        box = self.runtime.of(pod.uid).get(container.name)
        if box is None:
            return
        try:
            cpus = add(pod, container, box.id)
        except AllocationError:
            return  # tried again in the next round
        if cpus:
            self.runtime.update(pod.uid, container.name, cpus)

    def _run(self, pod: Pod) -> None:
        """Create each without a cpuset and give it its CPUs before it starts."""
        for container in pod.containers:
            if container.name in self.runtime.of(pod.uid):
                continue
            box = self.runtime.create(pod, container, CPUSet())
            try:
                cpus = self.by_container.add(pod, container, box.id)
            except AllocationError as error:
                raise NotModelled(
                    f"Apply: container {pod.name}/{container.name} cannot start ({error}); up to "
                    "1.17 the kubelet tries again later and later"
                ) from error
            if cpus:
                self.runtime.update(pod.uid, container.name, cpus)
            box.running = container.kind is not Kind.INIT
