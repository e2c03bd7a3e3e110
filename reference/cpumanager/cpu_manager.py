"""The CPU manager: one policy, one state, and what was last sent to the runtime.

What belongs here: what happens at start, at admission, when a container is created, and in a
reconcile round. What never does: choosing CPUs (``policy_static``), or the rest of the kubelet
(``node``). Source: ``pkg/kubelet/cm/cpumanager/cpu_manager.go``, 1.18 to 1.37.

Nothing is freed when a container ends. An entry that no active pod needs any more is *stale*. It is
removed at the next admission or reconcile round, once all pod sources are ready. A reconcile round
sends a container its CPUs only where they differ from what was sent to it last, so a cpuset that
another program changed is left alone; up to 1.21 it sent every container its CPUs, every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Final

from reference.behaviours import Behaviour
from reference.copies import flat_copy
from reference.cpumanager.metrics import EXCLUSIVE_OF_NODE, EXCLUSIVE_OF_POD, SHARED_BY_POD, Metrics
from reference.cpumanager.policy import Policy
from reference.cpumanager.policy_none import new_none_policy
from reference.cpumanager.policy_options import require_options_allowed
from reference.cpumanager.policy_static import StaticPolicy, new_static_policy
from reference.cpumanager.state.state_checkpoint import Checkpoint, keeps_baselines
from reference.cpumanager.state.state_mem import State, assigned
from reference.cpuset import CPUSet
from reference.errors import AllocationError, ConfigurationError, NotModelled
from reference.machine.topology import CPUTopology
from reference.pods.labels import runs_on_reserved
from reference.pods.pod import Container, Pod, container_names
from reference.pods.quantity import QuantityTooWide, milli_value, reserved
from reference.releases import NEWEST, AnyRelease, has, minor_of
from reference.steps import KubeletConfig
from reference.topologymanager.hint import Hint

_COUNTED_TWICE_UNTIL: Final = 32


class CPUManager:
    """``manager``: the CPU manager of one run of the kubelet.

    It is a hint provider of the Topology Manager. ``active_pods`` says which pods are active, the
    one that is being admitted among them.

    ``sources_ready``: whether all pod sources are ready; until then nothing is stale.
    ``last_admitted_stays``: whether the pod admitted last counts as active, even when it was
    refused. ``metrics``: what it has counted; ``allocatable_cpus``: what ``GetAllocatableCPUs``
    answers once it has started."""

    def __init__(
        self,
        policy: Policy,
        *,
        release: AnyRelease = NEWEST,
        feature_gates: Mapping[str, bool] | None = None,
        active_pods: Callable[[], Iterable[Pod]] = tuple,
    ) -> None:
        self.policy = policy
        self.active_pods = active_pods
        self.state = State(policy.name)
        self.sources_ready = False
        self._release = release
        self._always = not has(release, Behaviour.UPDATED_ON_CHANGE)
        self._gauges_follow = has(release, Behaviour.GAUGES_FOLLOW_THE_STATE)
        self._reads_labels = has(release, Behaviour.PLATFORM_PODS_ON_RESERVED)
        self.last_admitted_stays = has(release, Behaviour.LAST_ADMITTED_STAYS)
        #: The pod admitted last, where that counts (:attr:`last_admitted_stays`).
        self.last_admitted: tuple[Pod, ...] = ()
        #: Whether it is unknown which pod that is: the kubelet has just started beside several.
        self.last_by_chance = False
        self.allocatable_cpus = CPUSet()
        self.metrics = Metrics()
        #: How many containers were admitted one by one.
        self.served = 0
        self.feature_gates = dict(feature_gates or {})
        self._last_sent: dict[tuple[str, str], CPUSet] = {}
        self._before: dict[tuple[str, str], CPUSet] = {}
        self._known: set[tuple[str, str]] = set()

    def start(
        self, state_file: str | None, containers: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        """``Start``: restore the state and have the policy judge it.

        ``containers``: (pod uid, container name) by the ids of the runtime's containers. Raises
        :class:`CheckpointError`, :class:`StateError`; the manager must not be used afterwards.
        """
        self._known = set((containers or {}).values())
        crash, self.state = self.state.crash, self.restore(state_file, containers or {})
        self.state.crash = crash
        if self.state.changes:
            self.state.killed_at_birth()
        self.policy.start(self.state)
        self.allocatable_cpus = self._allocatable()
        if isinstance(self.policy, StaticPolicy):
            pool, held = len(self.policy.available(self.state)), assigned(self.state.entries)
            self.metrics = Metrics(pool=pool, exclusive=self._count_exclusive())
            self._count_by_numa(held)

    def _count_exclusive(self) -> int:
        """``countExclusiveCPUs``. Up to 1.32 it counted a CPU for each container that has it (seen
        on 1.32.2): twice if an init container left it to another."""
        if minor_of(self._release) > _COUNTED_TWICE_UNTIL:
            return len(assigned(self.state.entries))
        return sum(len(one) for named in self.state.entries.values() for one in named.values())

    def _allocatable(self) -> CPUSet:
        if not isinstance(self.policy, StaticPolicy):
            return CPUSet()
        if has(self._release, Behaviour.ALLOCATABLE_IS_WHOLE):
            return self.policy.topology.cpus - self.policy.reserved
        return self.policy.available(self.state)

    def restore(self, state_file: str | None, containers: Mapping[str, tuple[str, str]]) -> State:
        """The state from the file; a fresh one where there is none."""
        baselines = keeps_baselines(self._release, self.feature_gates)
        if state_file is None:
            return State.fresh(self.policy.name, keeps_baselines=baselines)
        checkpoint = Checkpoint.loads(
            state_file,
            policy=self.policy.name,
            release=self._release,
            feature_gates=self.feature_gates,
            containers=containers,
        )
        return State.restored(checkpoint, keeps_baselines=baselines)

    def copy(self) -> CPUManager:
        """An independent copy; the policy, whose facts never change, is copied flat."""
        twin = flat_copy(self)
        twin.policy = flat_copy(self.policy)
        twin.state = self.state.copy()
        twin._last_sent = dict(self._last_sent)
        twin._known = set(self._known)
        return twin

    @property
    def sent(self) -> Mapping[tuple[str, str], CPUSet]:
        """What was last sent to the runtime, by pod uid and container."""
        return self._last_sent

    def state_file(self) -> str:
        """The text of the state file as it would be written now."""
        return self.state.checkpoint().dumps(
            release=self._release, feature_gates=self.feature_gates
        )

    def allocate(self, pod: Pod, container: Container, hint: Hint | None = None) -> None:
        """``Allocate``: admission of one container, near the NUMA nodes of ``hint`` (``None``:
        anywhere). Raises :class:`AllocationError`."""
        self.begin_admission(pod)
        policy, owner = self.policy, (pod.uid, container.name)
        counted = isinstance(policy, StaticPolicy) and policy.count(pod, container) > 0
        before = self.state.get(*owner)
        try:
            policy.allocate(self.state, pod, container, hint)
        except AllocationError:
            if counted:
                self.metrics = self._counted(0, failed=True)
            raise
        if counted:
            taken = CPUSet() if before is not None else self.exclusive_cpus(*owner)
            self.metrics = self._counted(len(taken), failed=False)
            if taken:
                self.metrics = self.metrics.assigned("node", [EXCLUSIVE_OF_NODE])
                self._count_place(taken, assigned(self.state.entries))
        self.served += 1

    def _counted(self, taken: int, *, failed: bool) -> Metrics:
        policy = self.policy
        whole = isinstance(policy, StaticPolicy) and policy.options.full_pcpus_only
        return self.metrics.answered(taken=taken, failed=failed, whole_cores=whole)

    def _count_place(self, taken: CPUSet, held: CPUSet) -> None:
        """``updateMetricsOnAllocate``: of CPUs just ``taken``, while containers are known to hold
        these."""
        if isinstance(self.policy, StaticPolicy) and self.policy.is_in_one_cache(taken):
            in_one_cache = self.metrics.in_one_cache + 1
            self.metrics = self.metrics._replace(in_one_cache=in_one_cache)
        self._count_by_numa(held)

    def _count_by_numa(self, held: CPUSet) -> None:
        """``updateAllocationPerNUMAMetric``: of the NUMA nodes that have exclusive CPUs. It is not
        modelled up to 1.37 where pods may get CPUs as a whole: 1.36.4 counts fewer after a start
        beside such a pod than its entries have. From 1.38 on all gauges follow the state
        (``updateMetricsFromState``)."""
        policy = self.policy
        if not isinstance(policy, StaticPolicy):
            return
        masks = policy.topology.numa_masks.items()
        if self._gauges_follow:
            held = assigned(self.state.entries)
            for cpus in self.state.pod_entries.values() if policy.pod_managers else ():
                held |= cpus
            self.metrics = self.metrics._replace(
                pool=len(policy.available(self.state)),
                exclusive=len(held),
                per_numa={numa: (mask & held.mask).bit_count() for numa, mask in masks},
            )
        elif not policy.pod_managers:
            counts = {
                numa: (mask & held.mask).bit_count() for numa, mask in masks if mask & held.mask
            }
            self.metrics = self.metrics.counted_by_numa(counts)

    def allocate_pod(self, pod: Pod, hint: Hint | None = None) -> None:
        """``AllocatePod``: admission of a whole pod with pod-level resources, as
        :meth:`allocate`."""
        self.begin_admission(pod)
        policy, before, held = self.policy, self.state.default, assigned(self.state.entries)
        restored = set(self.state.entries.get(pod.uid, {}))
        try:
            policy.allocate_pod(self.state, pod, hint)
        except AllocationError:
            self.metrics = self.metrics.refused_whole()
            raise
        # CPUs that are in no shared pool are taken where cores have unequal numbers of threads.
        taken = self.state.pod_entries.get(pod.uid)
        if not taken or not isinstance(policy, StaticPolicy):
            return
        counts = policy.counts(pod)
        kinds = {one: EXCLUSIVE_OF_POD if many else SHARED_BY_POD for one, many in counts.items()}
        exclusive = sum(map(bool, counts.values()))
        if before != self.state.default:
            whole = self.metrics.answered_whole(taken=len(taken), exclusive=exclusive)
            self.metrics = whole.assigned("pod", kinds.values())
            self._count_place(taken, held)  # the pod's own CPUs are entered afterwards
        elif has(self._release, Behaviour.POD_POOL_KEPT):
            whole = self.metrics.answered_whole(taken=0, exclusive=exclusive)
            missing = [kind for name, kind in kinds.items() if name not in restored]
            self.metrics = whole.assigned("pod", missing)

    def hints(self, pod: Pod, container: Container) -> list[Hint] | None:
        """``GetTopologyHints``: where the container's CPUs could be. ``None``: no preference; an
        empty list: nowhere."""
        self.begin_admission(pod)
        return self.policy.hints(self.state, pod, container)

    def pod_hints(self, pod: Pod) -> list[Hint] | None:
        """``GetPodTopologyHints``: the same for a whole pod."""
        self.begin_admission(pod)
        return self.policy.pod_hints(self.state, pod)

    def begin_admission(self, pod: Pod) -> None:
        """At each question of an admission the manager first removes what is stale."""
        if self.last_admitted_stays:
            self.last_admitted, self.last_by_chance = (pod,), False
        self.remove_stale_state()

    def affinity(self, uid: str, container: str) -> CPUSet:
        """``GetCPUAffinity``: the CPUs a container is created with: its own, or the shared pool.
        The empty set asks for nothing. Forks may run some pods on the reserved CPUs instead."""
        if isinstance(self.policy, StaticPolicy) and self._reads_labels:
            pods = (pod for pod in self.active_pods() if pod.uid == uid)
            if any(runs_on_reserved(pod, release=self._release) for pod in pods):
                return self.policy.reserved
        own = self.state.get(uid, container)
        return self.state.default if own is None else own

    def exclusive_cpus(self, uid: str, container: str) -> CPUSet:
        """``GetExclusiveCPUs``: the container's own CPUs, as other components see them."""
        return self.state.get(uid, container) or CPUSet()

    def isolates(self, pod: Pod, container: Container) -> bool:
        """Whether a container has CPUs that no other container of its pod has either
        (``GetResourceIsolationLevel``)."""
        policy = self.policy
        if not self.exclusive_cpus(pod.uid, container.name):
            return False
        if not isinstance(policy, StaticPolicy) or not policy.serves_whole(pod):
            return True
        return policy.count(pod, container) > 0

    def add_container(self, uid: str, container: str) -> None:
        """``AddContainer``: a container is about to start; CPUs of its own count as sent."""
        own = self.state.get(uid, container)
        if own is not None:
            self._last_sent[uid, container] = own
        self._known.add((uid, container))

    def remove_container(self, uid: str, container: str) -> None:
        """``RemoveContainer``: forget a container and take its CPUs back."""
        before, held = self.state.default, self.state.get(uid, container)
        whole = self.state.pod_entries.get(uid)
        self.policy.remove_container(self.state, uid, container)
        if whole is not None:
            freed = CPUSet() if uid in self.state.pod_entries else whole
        else:
            freed = self.state.default - before
            if held is not None and held & before:  # another container has had them, too
                freed |= (held & before) - assigned({uid: self.state.entries.get(uid, {})})
        self.metrics = self.metrics.returned(len(freed))
        if held is not None and uid not in self.state.pod_entries:
            self._count_by_numa(assigned(self.state.entries) - freed)
        self._last_sent.pop((uid, container), None)
        self._known.discard((uid, container))

    def remove_stale_state(self) -> None:
        """``removeStaleState``: forget what belongs to no container of an active pod."""
        if not self.sources_ready:
            return
        wanted = {pod.uid: pod for pod in (*self.active_pods(), *self.last_admitted)}
        stale = [
            (uid, name)
            for uid, named in self.state.entries.items()
            for name in named
            if uid not in wanted or name not in container_names(wanted[uid])
        ]
        stale += sorted(key for key in self._known if key[0] not in wanted)
        held = [self.state.get(*one) or CPUSet() for one in dict.fromkeys(stale)]
        for uid, name in stale:
            self.remove_container(uid, name)
        self._forget_counts(held)

    def _forget_counts(self, removed: Iterable[CPUSet]) -> None:
        """Drop the counts of NUMA nodes that depend on the order of the removals, which is that of
        a Go map: there several ``removed`` containers held all that the node had, or others hold
        CPUs of one of them, too (cores of different sizes)."""
        if not isinstance(self.policy, StaticPolicy) or self._gauges_follow:
            return
        held, counts = assigned(self.state.entries).mask, dict(self.metrics.per_numa)
        gone = [cpus.mask for cpus in removed if cpus]
        for numa, mask in self.policy.topology.numa_masks.items():
            if mask & held:
                differ = len(gone) > 1 and any(cpus & held & mask for cpus in gone)
            else:
                differ = sum(1 for cpus in gone if cpus & mask) > 1
            if differ:
                counts.pop(numa, None)
        self.metrics = self.metrics._replace(per_numa=counts)

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        """``reconcileState``, one round: the (pod uid, container, CPUs) that are sent to the
        runtime, in order. Containers that do not run are skipped, and so is an empty shared pool.
        The policy ``none`` has no rounds."""
        if self.policy.name == "none":
            return []
        self.remove_stale_state()
        sent = []
        self._before = {}
        for pod in self.active_pods():
            for container in pod.containers:
                key = (pod.uid, container.name)
                if not running(*key):
                    continue
                self._known.add(key)
                desired = self.affinity(*key)
                if desired and (self._always or desired != self._last_sent.get(key, CPUSet())):
                    self._before[key] = self._last_sent.get(key, CPUSet())
                    self._last_sent[key] = desired
                    sent.append((*key, desired))
        return sent

    def update_failed(self, uid: str, container: str) -> None:
        """The runtime has refused what the last round sent, so what was sent before counts."""
        self._last_sent[uid, container] = self._before[uid, container]


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
    """Refuse what the kubelet refuses before it makes any manager (``cmd/kubelet/app/server.go``).
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
    """:func:`reserved_amount` in thousandths, rounded up."""
    return milli_value(reserved_amount(config, release=release))


def reserved_amount(config: KubeletConfig, *, release: AnyRelease = NEWEST) -> Fraction:
    """How many CPUs are reserved: the size of an explicit list, which takes the place of the
    amounts (from 1.17 on), or system and kube reservation together, as ``release`` takes them.
    Raises :class:`ConfigurationError` with the kubelet's text for what is no quantity."""
    if config.reserved_system_cpus and has(release, Behaviour.RESERVED_CPU_LIST):
        return Fraction(len(config.reserved_system_cpus))
    for flag, text in (("kube", config.kube_reserved), ("system", config.system_reserved)):
        try:
            reserved(text, release=release)
        except QuantityTooWide as error:
            raise NotModelled(f"a cpu reservation: {error}") from error
        except ConfigurationError as error:
            failing = f"--{flag}-reserved value failed to parse: "
            named = has(release, Behaviour.RESERVATION_FLAG_NAMED)
            raise ConfigurationError(f"{failing if named else ''}{error}") from error
    return reserved(config.system_reserved, config.kube_reserved, release=release)
