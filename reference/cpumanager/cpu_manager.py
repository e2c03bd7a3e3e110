"""The CPU manager: one policy, one state, and what was last sent to the runtime.

What belongs here: what happens at start, at admission, when a container is created, and in a
reconcile round. What never does: choosing CPUs (``policy_static``), or the rest of the kubelet
(``node``). Source: ``pkg/kubelet/cm/cpumanager/cpu_manager.go``, 1.18 to 1.37.

Nothing is freed when a container ends. What no active pod needs any more is *stale*, and goes at
the next admission or reconcile round, once all pod sources have been heard. A reconcile round
sends a container its CPUs only where they differ from what was sent to it last, so a cpuset that
somebody else changed is left alone; up to 1.21 it sent every container its CPUs, every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Final, Protocol

from reference.behaviours import Behaviour
from reference.cpumanager.policy import Policy
from reference.cpumanager.policy_none import new_none_policy
from reference.cpumanager.policy_options import require_options_allowed
from reference.cpumanager.policy_static import new_static_policy
from reference.cpumanager.state.state_checkpoint import Checkpoint, keeps_baselines
from reference.cpumanager.state.state_mem import State
from reference.cpuset import CPUSet
from reference.errors import AllocationError, ConfigurationError, NotModelled, TopologyAffinityError
from reference.machine.topology import CPUTopology
from reference.pods.quantity import QuantityTooWide, reserved_milli
from reference.releases import NEWEST, AnyRelease, has
from reference.steps import Container, KubeletConfig, Pod
from reference.topologymanager.hint import Hint
from reference.topologymanager.topology_manager import Provider

__all__ = ["CPUManager", "make_policy", "require_settings", "reserved_milli_cpus"]


class Aligner(Protocol):
    """Who decides near which NUMA nodes CPUs are taken
    (:class:`reference.topologymanager.topology_manager.TopologyManager`)."""

    def admit(self, pod: Pod, provider: Provider) -> None:
        """Have the CPUs of the pod's containers allocated, one container after the other."""

    def affinities(self, pod: Pod, provider: Provider) -> Mapping[str, Hint | None]:
        """Where each container's CPUs are to lie, by its name (up to 1.17)."""


class _Unaligned:
    """No NUMA node is better than another (Topology Manager policy ``none``)."""

    def admit(self, pod: Pod, provider: Provider) -> None:
        for container in pod.containers:
            provider.allocate(pod, container, None)

    def affinities(self, pod: Pod, provider: Provider) -> Mapping[str, Hint | None]:
        return {}


_UNALIGNED: Final = _Unaligned()


class CPUManager:
    """``manager``: the CPU manager of one run of the kubelet.

    ``aligner``: the Topology Manager that goes with it.

    ``sources_ready`` says whether all pod sources have been heard; until then nothing is stale.
    ``last_stays``: whether the pod admitted last counts as active, even when it was refused.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        release: AnyRelease = NEWEST,
        feature_gates: Mapping[str, bool] | None = None,
        aligner: Aligner = _UNALIGNED,
    ) -> None:
        self.policy = policy
        self._aligner = aligner
        self.state = State(policy.name)
        self.sources_ready = False
        self._release = release
        self._always = not has(release, Behaviour.UPDATED_ON_CHANGE)
        self.last_stays = has(release, Behaviour.LAST_ADMITTED_STAYS)
        self._last_admitted: tuple[Pod, ...] = ()
        self._feature_gates = dict(feature_gates or {})
        self._last_sent: dict[tuple[str, str], CPUSet] = {}
        self._known: set[tuple[str, str]] = set()

    def start(
        self, state_file: str | None, containers: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        """``Start``: restore the state and have the policy judge it.

        ``containers``: (pod uid, container name) by the ids of the runtime's containers. Raises
        :class:`CheckpointError`, :class:`StateError`; afterwards the manager is of no use.
        """
        self._known = set((containers or {}).values())
        self.state = self.restore(state_file, containers or {})
        self.policy.start(self.state)

    def restore(self, state_file: str | None, containers: Mapping[str, tuple[str, str]]) -> State:
        """The state from the file; a fresh one where there is none."""
        baselines = keeps_baselines(self._release, self._feature_gates)
        if state_file is None:
            return State.fresh(self.policy.name, keeps_baselines=baselines)
        checkpoint = Checkpoint.loads(
            state_file,
            policy=self.policy.name,
            release=self._release,
            feature_gates=self._feature_gates,
            containers=containers,
        )
        return State.restored(checkpoint, keeps_baselines=baselines)

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

    def admit(self, pod: Pod, active: Iterable[Pod]) -> None:
        """Admission of a pod; ``active`` are the active pods, ``pod`` among them. What earlier
        containers got before a refusal stays theirs until it is stale. Raises
        :class:`AllocationError`, :class:`TopologyAffinityError`."""
        self._aligner.admit(pod, self._desk(tuple(active)))

    def _desk(self, active: tuple[Pod, ...]) -> _Desk:
        return _Desk(self, active)

    def resize(self, pod: Pod, active: Iterable[Pod]) -> None:
        """Admission of an in-place resize to ``pod``. From 1.37 on nothing is decided or taken;
        before, it went as :meth:`admit`, where CPUs of another number than requested are
        impossible to the Topology Manager, and are kept where it does not object."""
        if has(self._release, Behaviour.RESIZE_LEFT_ALONE):
            self._admitting(pod, active)
        else:
            self.admit(pod, active)

    def allocate(
        self, pod: Pod, container: Container, active: Iterable[Pod], hint: Hint | None = None
    ) -> None:
        """``Allocate``: admission of one container, near the NUMA nodes of ``hint`` (``None``:
        anywhere). Raises :class:`AllocationError`."""
        self._admitting(pod, active)
        self.policy.allocate(self.state, pod, container, hint)

    def allocate_pod(self, pod: Pod, active: Iterable[Pod], hint: Hint | None = None) -> None:
        """``AllocatePod``: admission of a whole pod with pod-level resources, as
        :meth:`allocate`."""
        self._admitting(pod, active)
        self.policy.allocate_pod(self.state, pod, hint)

    def hints(self, pod: Pod, container: Container, active: Iterable[Pod]) -> list[Hint] | None:
        """``GetTopologyHints``: where the container's CPUs could be. ``None``: no preference; an
        empty list: nowhere."""
        self._admitting(pod, active)
        return self.policy.hints(self.state, pod, container)

    def pod_hints(self, pod: Pod, active: Iterable[Pod]) -> list[Hint] | None:
        """``GetPodTopologyHints``: the same for a whole pod."""
        self._admitting(pod, active)
        return self.policy.pod_hints(self.state, pod)

    def _admitting(self, pod: Pod, active: Iterable[Pod]) -> None:
        """Whenever the manager is asked something at admission, it first clears away what is
        stale."""
        if self.last_stays:
            self._last_admitted = (pod,)
        self.remove_stale_state(active)

    def wants_cpus(self, pod: Pod) -> bool:
        """Whether admitting the pod takes CPUs that it does not hold yet."""
        before = self.state.changes
        trial = self.copy()
        trial.sources_ready = False  # so nothing stale goes meanwhile
        try:
            trial.admit(pod, [pod])
        except (AllocationError, TopologyAffinityError):
            return True
        return trial.state.changes != before

    def affinity(self, uid: str, container: str) -> CPUSet:
        """``GetCPUAffinity``: the CPUs a container is created with: its own, or the shared pool.
        The empty set asks for nothing."""
        own = self.state.get(uid, container)
        return self.state.default if own is None else own

    def add_container(self, uid: str, container: str) -> None:
        """``AddContainer``: a container is about to start; CPUs of its own count as sent."""
        own = self.state.get(uid, container)
        if own is not None:
            self._last_sent[uid, container] = own
        self._known.add((uid, container))

    def remove_container(self, uid: str, container: str) -> None:
        """``RemoveContainer``: forget a container and take its CPUs back."""
        self.policy.remove_container(self.state, uid, container)
        self._last_sent.pop((uid, container), None)
        self._known.discard((uid, container))

    def remove_stale_state(self, active: Iterable[Pod]) -> None:
        """``removeStaleState``: forget what belongs to no container of an ``active`` pod."""
        if not self.sources_ready:
            return
        wanted = {
            pod.uid: {one.name for one in pod.containers} for pod in (*active, *self._last_admitted)
        }
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
        """``reconcileState``, one round: the (pod uid, container, CPUs) that are sent to the
        runtime, in order. Containers that do not run are passed over, and so is an empty shared
        pool. The policy ``none`` has no rounds."""
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
                if desired and (self._always or desired != self._last_sent.get(key, CPUSet())):
                    self._last_sent[key] = desired
                    sent.append((*key, desired))
        return sent


class _Desk:
    """The CPU manager as the Topology Manager meets it at the admission of one pod."""

    def __init__(self, manager: CPUManager, active: tuple[Pod, ...]) -> None:
        self._manager = manager
        self._active = active

    def hints(self, pod: Pod, container: Container) -> list[Hint] | None:
        return self._manager.hints(pod, container, self._active)

    def pod_hints(self, pod: Pod) -> list[Hint] | None:
        return self._manager.pod_hints(pod, self._active)

    def allocate(self, pod: Pod, container: Container, hint: Hint | None) -> None:
        self._manager.allocate(pod, container, self._active, hint)

    def allocate_pod(self, pod: Pod, hint: Hint | None) -> None:
        self._manager.allocate_pod(pod, self._active, hint)


def make_policy(
    topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease = NEWEST
) -> Policy:
    """``NewManager``: the policy that ``config`` names, ready for :meth:`Policy.start`.

    Raises :class:`ConfigurationError` with the kubelet's text.
    """
    require_settings(topology, config, release=release)
    if config.policy == "none":
        return new_none_policy(config, release)
    if config.policy != "static":
        raise ConfigurationError(f'unknown policy: "{config.policy}"')
    amount = reserved_milli_cpus(config, release=release)
    return new_static_policy(topology, config, amount, release=release)


def require_settings(
    topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease = NEWEST
) -> None:
    """Refuse what the kubelet does before it makes any manager (``cmd/kubelet/app/server.go``).
    Raises :class:`ConfigurationError`."""
    _require_reservable(topology, config.reserved_system_cpus or CPUSet(), release)
    if has(release, Behaviour.POLICY_OPTIONS):
        require_options_allowed(config.policy_options, config.feature_gates, release=release)


def _require_reservable(topology: CPUTopology, reserved: CPUSet, release: AnyRelease) -> None:
    if not has(release, Behaviour.RESERVED_CPUS_ARE_ONLINE):
        if reserved and max(reserved) >= topology.num_cpus:
            raise ConfigurationError(f'Invalid cpuset "{reserved}" specified by --reserved-cpus')
    elif not reserved <= topology.cpus:
        raise ConfigurationError(
            f"reserved-cpus: {reserved} is not a subset of online-cpus: {topology.cpus}"
        )


def reserved_milli_cpus(config: KubeletConfig, *, release: AnyRelease = NEWEST) -> int:
    """The cpu reservation in thousandths: the size of an explicit list, which takes the place of
    the amounts (from 1.17 on), or system and kube reservation together, as ``release`` rounds
    them. Raises :class:`ConfigurationError` with the kubelet's text for what is no quantity."""
    if config.reserved_system_cpus and has(release, Behaviour.RESERVED_CPU_LIST):
        return len(config.reserved_system_cpus) * 1000
    for flag, text in (("kube", config.kube_reserved), ("system", config.system_reserved)):
        try:
            reserved_milli(text, release=release)
        except QuantityTooWide as error:
            raise NotModelled(f"a cpu reservation: {error}") from error
        except ConfigurationError as error:
            failing = f"--{flag}-reserved value failed to parse: "
            named = has(release, Behaviour.RESERVATION_FLAG_NAMED)
            raise ConfigurationError(f"{failing if named else ''}{error}") from error
    return reserved_milli(config.system_reserved, config.kube_reserved, release=release)
