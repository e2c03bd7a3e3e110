"""The CPU manager: one policy, one state, and what was last sent to the runtime.

What belongs here: what happens at start, at admission, when a container is created, and in a
reconcile round. What never does: choosing CPUs (``policy``), or the rest of the kubelet
(``node``). Source: ``pkg/kubelet/cm/cpumanager/cpu_manager.go``, 1.36.

Nothing is freed when a container ends. What no active pod needs any more is *stale*, and goes at
the next admission or reconcile round, once all pod sources have been heard. A reconcile round
sends a container its CPUs only where they differ from what was sent to it last, so a cpuset that
somebody else changed is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy

from reference.checkpoint import Checkpoint
from reference.cpuset import CPUSet
from reference.errors import AllocationError
from reference.policy import Policy
from reference.releases import NEWEST, AnyRelease
from reference.state import State
from reference.steps import Container, Pod

__all__ = ["CPUManager"]


class CPUManager:
    """The CPU manager of one run of the kubelet.

    ``sources_ready`` says whether all pod sources have been heard; until then nothing is stale.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        release: AnyRelease = NEWEST,
        feature_gates: Mapping[str, bool] | None = None,
    ) -> None:
        self.policy = policy
        self.state = State(policy.name)
        self.sources_ready = False
        self._release = release
        self._feature_gates = dict(feature_gates or {})
        self._last_sent: dict[tuple[str, str], CPUSet] = {}
        self._known: set[tuple[str, str]] = set()

    def start(
        self, state_file: str | None, containers: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        """Restore the state and have the policy judge it.

        ``containers``: (pod uid, container name) by the ids of the runtime's containers. Raises
        :class:`CheckpointError`, :class:`StateError`; afterwards the manager is of no use.
        """
        self._known = set((containers or {}).values())
        self.state = self.restore(state_file, containers or {})
        self.policy.start(self.state)

    def restore(self, state_file: str | None, containers: Mapping[str, tuple[str, str]]) -> State:
        """The state from the file; a fresh one where there is none."""
        if state_file is None:
            return State.fresh(self.policy.name)
        checkpoint = Checkpoint.loads(
            state_file,
            policy=self.policy.name,
            release=self._release,
            feature_gates=self._feature_gates,
            containers=containers,
        )
        return State.restored(checkpoint)

    def copy(self) -> CPUManager:
        """An independent copy; the policy, whose facts never change, is copied flat."""
        twin = copy(self)
        twin.policy = copy(self.policy)
        twin.state = self.state.copy()
        twin._last_sent = dict(self._last_sent)
        twin._known = set(self._known)
        return twin

    def state_file(self) -> str:
        """The text of the state file as it would be written now."""
        return self.state.checkpoint().dumps(
            release=self._release, feature_gates=self._feature_gates
        )

    def allocate(self, pod: Pod, container: Container, active: Iterable[Pod]) -> None:
        """Admission of one container; ``active`` are the active pods, ``pod`` among them.
        Raises :class:`AllocationError`."""
        self.remove_stale_state(active)
        self.policy.allocate(self.state, pod, container)

    def wants_cpus(self, pod: Pod) -> bool:
        """Whether admitting the pod takes CPUs that it does not hold yet."""
        before = self.state.changes
        trial = self.copy()
        try:
            for container in pod.containers:
                trial.policy.allocate(trial.state, pod, container)
        except AllocationError:
            return True
        return trial.state.changes != before

    def affinity(self, uid: str, container: str) -> CPUSet:
        """The CPUs a container is created with: its own, or the shared pool. The empty set asks
        for nothing."""
        own = self.state.get(uid, container)
        return self.state.default if own is None else own

    def add_container(self, uid: str, container: str) -> None:
        """A container is about to start; CPUs of its own count as sent."""
        own = self.state.get(uid, container)
        if own is not None:
            self._last_sent[uid, container] = own
        self._known.add((uid, container))

    def remove_container(self, uid: str, container: str) -> None:
        """Forget a container and take its CPUs back."""
        self.policy.remove_container(self.state, uid, container)
        self._last_sent.pop((uid, container), None)
        self._known.discard((uid, container))

    def remove_stale_state(self, active: Iterable[Pod]) -> None:
        """Forget what belongs to no container of an ``active`` pod."""
        if not self.sources_ready:
            return
        wanted = {pod.uid: {one.name for one in pod.containers} for pod in active}
        stale = [
            (uid, name)
            for uid, named in self.state.entries.items()
            for name in named
            if name not in wanted.get(uid, ())
        ]
        stale += sorted(key for key in self._known if key[0] not in wanted)
        for uid, name in stale:
            self.remove_container(uid, name)

    def reconcile(
        self, active: Iterable[Pod], running: Callable[[str, str], bool]
    ) -> list[tuple[str, str, CPUSet]]:
        """One reconcile round: the (pod uid, container, CPUs) that are sent to the runtime, in
        order. Containers that do not run are passed over, and so is an empty shared pool. The
        policy ``none`` has no rounds."""
        if self.policy.name == "none":
            return []
        pods = list(active)
        self.remove_stale_state(pods)
        sent = []
        for pod in pods:
            for container in pod.containers:
                key = (pod.uid, container.name)
                if not running(*key):
                    continue
                self._known.add(key)
                desired = self.affinity(*key)
                if desired and desired != self._last_sent.get(key, CPUSet()):
                    self._last_sent[key] = desired
                    sent.append((*key, desired))
        return sent
