"""CPU managers and static policies that are wrong about many containers, about names that are
alike, or about what happens again, in one way each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from conformance.subjects.miniatures.managers import NeverUpdates
from reference import CPUManager, CPUSet
from reference.cpumanager.policy_static import StaticPolicy
from reference.cpumanager.state.state_mem import State
from reference.pods.qos import exclusive_cpus
from reference.steps import Container, Kind, Pod
from reference.topologymanager.hint import Hint

_KEY: Final = 32
_FEW: Final = 4


class JudgesByAppContainers(StaticPolicy):
    """Takes a pod for Guaranteed whose app containers alone are."""

    def count(self, pod: Pod, container: Container) -> int:
        apps = tuple(one for one in pod.containers if one.kind is Kind.APP)
        return exclusive_cpus(replace(pod, containers=apps), container)


class RemovesByContainerName(StaticPolicy):
    """Takes back the CPUs of every container that has the name of the one that is removed."""

    def remove_container(self, state: State, uid: str, container: str) -> None:
        for other in [other for other, named in state.entries.items() if container in named]:
            super().remove_container(state, other, container)


class CutsContainerNames(StaticPolicy):
    """Knows containers by the first 32 characters of their names."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """A container of whose pod another with these characters holds CPUs is given the same."""
        named = state.entries.get(pod.uid, {})
        alike = [one for one in named if one[:_KEY] == container.name[:_KEY]]
        if alike and self.count(pod, container):
            state.set(pod.uid, container.name, named[alike[0]])
        else:
            super().allocate(state, pod, container, hint)


class CutsUids(CPUManager):
    """Knows pods by the first 32 characters of their uids when it looks for those that are gone."""

    def remove_stale_state(self) -> None:
        """A pod that is gone counts as active while another with these characters is."""
        active, wanted = self.active_pods, {pod.uid[:_KEY]: pod for pod in self.active_pods()}
        alike = [
            replace(wanted[uid[:_KEY]], uid=uid)
            for uid in self.state.entries
            if uid[:_KEY] in wanted
        ]
        self.active_pods = lambda: [*alike, *active()]
        try:
            super().remove_stale_state()
        finally:
            self.active_pods = active


class FreesByPodName(CPUManager):
    """Keeps the CPUs of a pod that is gone while another of its name is active."""

    _names: Mapping[str, str] = {}

    def begin_admission(self, pod: Pod) -> None:
        self._names = {**self._names, pod.uid: pod.name}
        super().begin_admission(pod)

    def remove_stale_state(self) -> None:
        active, wanted = self.active_pods, {pod.name: pod for pod in self.active_pods()}
        namesakes = [
            replace(wanted[self._names[uid]], uid=uid)
            for uid in self.state.entries
            if self._names.get(uid) in wanted
        ]
        self.active_pods = lambda: [*namesakes, *active()]
        try:
            super().remove_stale_state()
        finally:
            self.active_pods = active


class UpdatesFourContainers(NeverUpdates):
    """Sends changes of the shared pool to the first four containers of each pod alone."""

    def reached(self, containers: Sequence[Container]) -> Sequence[Container]:
        return containers[:_FEW]


class UpdatesFourPods(CPUManager):
    """Sends changes of the shared pool to the four pods alone that were admitted first."""

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        first = [pod.uid for pod in self.active_pods()][:_FEW]
        return [one for one in super().reconcile(running) if one[0] in first]


class UpdatesOnePodARound(CPUManager):
    """Ends a reconcile round after the first pod that it has updated."""

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        sent = super().reconcile(running)
        return [one for one in sent if one[0] == sent[0][0]]


class StopsAtARefusal(CPUManager):
    """Ends a reconcile round at the first update that the runtime refuses."""

    _round: list[tuple[str, str, CPUSet]]

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        self._round = super().reconcile(running)
        return self._round

    def update_failed(self, uid: str, container: str) -> None:
        """The kubelet goes through the list of the round, and ends where it ends."""
        at = [one[:2] for one in self._round].index((uid, container))
        for owner, name, _ in self._round[at:]:
            super().update_failed(owner, name)
        del self._round[at + 1 :]


class StopsAtTheEnded(CPUManager):
    """Ends a reconcile round at the first container that does not run."""

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        goes_on = True

        def reached(uid: str, name: str) -> bool:
            nonlocal goes_on
            goes_on = goes_on and running(uid, name)
            return goes_on

        return super().reconcile(reached)


class ForgetsWhatSidecarsReuse(StaticPolicy):
    """Offers app containers CPUs of an init container that a sidecar has reused."""

    def reusable_after(self, before: CPUSet, container: Container, cpus: CPUSet) -> CPUSet:
        if container.kind is Kind.SIDECAR:
            return before
        return super().reusable_after(before, container, cpus)


class KeepsWhatWasLeftOver(StaticPolicy):
    """Offers a pod that comes back what its init containers left over in its first time."""

    _left: Mapping[str, CPUSet] = {}

    def reusable(self, pod: Pod) -> CPUSet:
        return self._left.get(pod.uid, CPUSet())

    def _offer(self, pod: Pod, container: Container, cpus: CPUSet) -> None:
        left = self.reusable_after(self.reusable(pod), container, cpus)
        self._left = {**self._left, pod.uid: left}


class FreesWhatOthersStarted(CPUManager):
    """Takes CPUs back when a container ends that a kubelet before it has started."""

    _found: frozenset[tuple[str, str]] = frozenset()

    def start(
        self, state_file: str | None, containers: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        self._found = frozenset((containers or {}).values())
        super().start(state_file, containers)

    def add_container(self, uid: str, container: str) -> None:
        """The end of the former container is handled once the next one is there."""
        super().add_container(uid, container)
        if (uid, container) in self._found:
            self._found -= {(uid, container)}
            self.remove_container(uid, container)


class CountsStartsAsUpdates(CPUManager):
    """Takes a shared container to have the pool of the moment in which it starts."""

    def add_container(self, uid: str, container: str) -> None:
        super().add_container(uid, container)
        self._last_sent.setdefault((uid, container), self.state.default)


class SendsThePoolOfTheRoundsStart(CPUManager):
    """Sends shared containers the shared pool as it was when the reconcile round began."""

    _pool: CPUSet | None = None

    def affinity(self, uid: str, container: str) -> CPUSet:
        own = self.state.get(uid, container)
        if own is None and self._pool is not None:
            return self._pool
        return super().affinity(uid, container)

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        self.remove_stale_state()
        self._pool = self.state.default
        try:
            return super().reconcile(running)
        finally:
            self._pool = None


class StartsAgainAnywhere(CPUManager):
    """Starts a container again without a cpuset, which the next reconcile round sends."""

    _started: frozenset[tuple[str, str]] = frozenset()
    _reconciling = False

    def affinity(self, uid: str, container: str) -> CPUSet:
        """Nothing is asked for where the container was started before; a round asks by itself."""
        again = (uid, container) in self._started and not self._reconciling
        return CPUSet() if again else super().affinity(uid, container)

    def add_container(self, uid: str, container: str) -> None:
        self._started |= {(uid, container)}
        super().add_container(uid, container)

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        self._reconciling = True
        try:
            return super().reconcile(running)
        finally:
            self._reconciling = False
