"""The CPU manager up to 1.17, which knows containers by their ids.

What belongs here: what is different from ``cpu_manager`` and :mod:`reference.kubelet`
where CPUs are taken when a container is about to start, and given back when it is stopped. What
never does: choosing CPUs (``policy_static``), or the file (``state_checkpoint``).

The state is keyed by container id, so no entry outlives its container. Admission takes no CPUs:
the Topology Manager, where it is on, only decides near which NUMA nodes they will be. A container
is created without a cpuset and updated before it starts; a reconcile round updates every container.

CPUs of stopped containers are free at once. Other stale entries are removed, by release:

- up to 1.13 with the container itself, so an entry of one that is gone stays for ever;
- from 1.14 to 1.16 at the end of each round, with all that the round did not meet. The first round
  comes before any pod is known, so a start forgets everything;
- in 1.17 once every container of every active pod is known, and never while there is no pod.

A container that runs and is not in the state (its file was lost, or the first round forgot it) is
sent the shared pool up to 1.9, and takes CPUs again from 1.10 on; from 1.15 on so do init
containers that ended long ago.

Sources: ``cpu_manager.go``, ``policy_static.go``, ``state``, ``internal_container_lifecycle.go``,
``kuberuntime`` of 1.8 to 1.17. Kubelets 1.15.12, 1.16.15 and 1.17.17 were observed; of earlier
ones only the sources are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from reference.behaviours import Behaviour
from reference.copies import flat_copy
from reference.cpumanager.cpu_manager import CPUManager
from reference.cpumanager.policy_static import StaticPolicy
from reference.cpumanager.state.state_mem import State, assigned
from reference.cpuset import CPUSet
from reference.errors import AllocationError
from reference.machine.topology import CPUTopology
from reference.pods.pod import Container, Kind, Pod
from reference.pods.qos import as_judged
from reference.releases import has
from reference.topologymanager.hint import Hint

#: Pod uid and container name.
_Owner: TypeAlias = tuple[str, str]
#: The state's key for all containers.
_NO_POD = ""


class ManagerByContainer(CPUManager):
    """The CPU manager up to 1.17. ``affinities``: the hint near which each container gets its CPUs,
    by pod uid and container name."""

    _by_owner: dict[_Owner, str]
    affinities: dict[str, Mapping[str, Hint | None]]
    _file_is_empty: bool

    def has(self, behaviour: Behaviour) -> bool:
        return has(self._release, behaviour)

    # -- starting --------------------------------------------------------------------------------

    def start(
        self, state_file: str | None, containers: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        """See :meth:`CPUManager.start`; ``containers`` are ignored."""
        self._by_owner, self.affinities = {}, {}
        self._file_is_empty = state_file is None and self.has(Behaviour.STATE_FILE_CREATED_EMPTY)
        self.state = self.restore(state_file, {})
        policy = self.policy
        if isinstance(policy, StaticPolicy) and not self.has(Behaviour.STATE_OF_OTHER_CPUS_REFUSED):
            policy = _on_the_machine_of(self.state, policy)
        policy.start(self.state)

    def restore(self, state_file: str | None, containers: Mapping[str, tuple[str, str]]) -> State:
        """The state from the file. Up to 1.11 an empty state is written again. 1.9 forgets a file
        that it cannot read, and so begins with an empty state."""
        state = super().restore(state_file, containers)
        if not self.has(Behaviour.STATE_CHECKSUM) and not state.default and not state.entries:
            return State.fresh(self.policy.name)
        return state

    def state_file(self) -> str:
        """See :meth:`CPUManager.state_file`. A file just created has nothing in it yet in 1.9."""
        if self._file_is_empty and self.state.changes == State.fresh(self.policy.name).changes:
            return ""
        return super().state_file()

    def copy(self) -> ManagerByContainer:
        """An independent copy."""
        twin = super().copy()
        assert isinstance(twin, ManagerByContainer)
        twin._by_owner, twin.affinities = dict(self._by_owner), dict(self.affinities)
        return twin

    # -- admission -------------------------------------------------------------------------------

    def remove_stale_state(self) -> None:
        """Does nothing: see :meth:`remove_stale` and :meth:`remove_unmet`."""

    # -- containers ------------------------------------------------------------------------------

    def owed(self, pod: Pod, container: Container) -> int:
        """How many CPUs of its own a container is to have."""
        policy = self.policy
        if not isinstance(policy, StaticPolicy):
            return 0
        return policy.count(as_judged(pod, release=self._release), container)

    def held(self, container_id: str) -> CPUSet | None:
        """The exclusive CPUs of a container, if it has any."""
        return self.state.get(_NO_POD, container_id)

    def add(self, pod: Pod, container: Container, container_id: str) -> CPUSet:
        """``AddContainer``: the CPUs that the container is given. Raises
        :class:`AllocationError`."""
        policy, count = self.policy, self.owed(pod, container)
        if isinstance(policy, StaticPolicy) and count and self.held(container_id) is None:
            self._return_init_cpus(pod, container)
            hint = self.affinities.get(pod.uid, {}).get(container.name)
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
        """From 1.16 on the CPUs of a pod's init containers, which have ended, return before a later
        container takes CPUs."""
        if not self.has(Behaviour.INIT_CPUS_RETURNED):
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

    # -- reconcile rounds ------------------------------------------------------------------------

    def settled(self, pod: Pod, container: Container, container_id: str) -> CPUSet | None:
        """The CPUs that a round sends a running container, once it has taken some if the container
        needs its own. ``None``: the round leaves the container alone."""
        if not self.has(Behaviour.LOST_CPUS_TAKEN_ANEW):
            return self.cpus_of(container_id)
        try:
            return self.add(pod, container, container_id)
        except AllocationError:  # tried again in the next round
            alone = self.has(Behaviour.FAILED_CONTAINERS_LEFT_ALONE)
            return None if alone else self.cpus_of(container_id)

    def remove_stale(self, known: Iterable[str | None]) -> None:
        """``removeStaleState`` of 1.17: forget all but the ``known`` containers, which are those of
        active pods; ``None`` stands for an id that is not known yet. Nothing is forgotten while an
        id is unknown, or without a pod."""
        ids = list(known)
        if self.has(Behaviour.STALE_CONTAINERS_FORGOTTEN) and ids and None not in ids:
            self._forget_all_but(ids)

    def remove_unmet(self, met: Collection[str]) -> None:
        """The end of a round, 1.14 to 1.16: forget all but the containers that it met."""
        if self.has(Behaviour.UNMET_CONTAINERS_FORGOTTEN):
            self._forget_all_but(met)

    def _forget_all_but(self, ids: Collection[str | None]) -> None:
        for container_id in list(self.state.entries.get(_NO_POD, {})):
            if container_id not in ids:
                self.remove(container_id)


def _on_the_machine_of(state: State, policy: StaticPolicy) -> StaticPolicy:
    """The policy as if the machine had just the CPUs that the state names: so it judges all of the
    state but whether it suits the machine. An empty state is judged by the policy itself, which
    then fills it."""
    if not state.default:
        return policy
    judge = flat_copy(policy)
    known = state.default | assigned(state.entries)
    judge.topology = CPUTopology.of({cpu: (0, 0, cpu, 0) for cpu in known})
    return judge
