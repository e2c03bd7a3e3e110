"""The policy ``static``: which containers get CPUs of their own, and which CPUs.

What belongs here: how many CPUs a container gets, the CPUs that the policy reserves, and how a
state is judged at start. What never does: pods that come and go (``cpu_manager``), or the file.

The static policy gives CPUs to containers that ask for a whole number of them in a Guaranteed pod.
It takes them from the default set without the reserved CPUs, which stay in the default set for all
other containers. CPUs of a pod's init containers are offered again to its later containers. Source:
``policy_static.go``, 1.18 to 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Final

from reference.behaviours import Behaviour
from reference.cpumanager.cpu_assignment import take_by_topology
from reference.cpumanager.pod_level_resources import (
    held_whole,
    is_stale,
    partition,
    pod_total,
    release_stale,
    restore_pod,
    rolling_back,
)
from reference.cpumanager.policy_options import StaticOptions
from reference.cpumanager.state.state_mem import State, assigned
from reference.cpumanager.topology_hints import aligned, cpu_hints, hints_for, pod_exclusive_cpus
from reference.cpuset import CPUSet
from reference.errors import (
    AllocationError,
    ConfigurationError,
    EmptyPodSharedPoolError,
    SMTAlignmentError,
    StateError,
)
from reference.machine.topology import CPUTopology
from reference.pods.labels import runs_on_reserved
from reference.pods.pod import Container, Kind, Pod
from reference.pods.pod_level_resources import (
    empty_pool_fault,
    has_pod_level_resources,
    is_guaranteed_alone,
    pod_managers_on,
)
from reference.pods.qos import GUARANTEED, exclusive_cpus, qos_class
from reference.releases import NEWEST, AnyRelease, has
from reference.steps import KubeletConfig
from reference.topologymanager.hint import Hint

_NO_OPTIONS: Final = StaticOptions()


class StaticPolicy:
    """``staticPolicy`` on one machine with ``reserved`` CPUs and ``options`` in force.
    ``pod_managers``: whether pods with pod-level resources get CPUs
    (:func:`reference.pods.pod_level_resources.pod_managers_on`).

    The methods are the kubelet's own steps, so that a deliberately wrong variant is a subclass
    that overrides one of them: :meth:`validate` (judging the state), :meth:`require_whole_cores`
    (``full-pcpus-only``), :meth:`take` (choosing CPUs), :meth:`count` (who gets how many),
    :meth:`reusable_after` (what later containers of the pod are offered) and
    :meth:`remove_container`.
    """

    name = "static"

    def __init__(
        self,
        topology: CPUTopology,
        reserved: CPUSet,
        *,
        release: AnyRelease = NEWEST,
        options: StaticOptions = _NO_OPTIONS,
        pod_managers: bool = False,
    ) -> None:
        self.topology = topology
        self.reserved = reserved
        self.pod_managers = pod_managers
        self.release = release
        self.options = options
        self.can_refuse_holders = options.full_pcpus_only and not has(
            release, Behaviour.HELD_CPUS_KEPT_FIRST
        )
        self._reusable: tuple[str, CPUSet] = ("", CPUSet())

    def start(self, state: State) -> None:
        """``Start``: judge the state, and fill a fresh one. Raises :class:`StateError`."""
        self.validate(state)
        if not state.default and not state.entries:
            state.set_default(self.managed)

    @property
    def managed(self) -> CPUSet:
        """The CPUs that are either exclusive or shared (``GetAllocatableCPUs`` and the reserved
        ones): all, under a strict reservation all but the reserved ones."""
        everything = self.topology.cpus
        return everything - self.reserved if self.options.strict_reservation else everything

    def validate(self, state: State) -> None:
        """``validateState``: refuse a state that does not suit machine and reservation, in the
        kubelet's order."""
        default, everything = state.default, self.managed
        if not default:
            if state.entries:
                raise StateError("default cpuset cannot be empty")
            return
        self._validate_reserved(default)
        overlaps = [
            f'{self._owner_text(uid, name)} cpuset: "{cpus}" overlaps with default cpuset '
            f'"{default}"'
            for uid, named in sorted(state.entries.items())
            for name, cpus in sorted(named.items())
            if not cpus.isdisjoint(default)
        ]
        if overlaps:
            raise StateError(*overlaps)
        known = default | assigned(state.entries)
        for cpus in state.pod_entries.values() if self.pod_managers else ():
            known |= cpus
        if known != everything:
            raise StateError(
                f'current set of available CPUs "{everything}" doesn\'t match with '
                f'CPUs in state "{known}"'
            )

    def _owner_text(self, uid: str, name: str) -> str:
        """Who holds CPUs; up to 1.17 the name is a container id, and there is no uid."""
        by_pod = has(self.release, Behaviour.KEYED_BY_POD)
        return f"pod: {uid}, container: {name}" if by_pod else f"container id: {name}"

    def _validate_reserved(self, default: CPUSet) -> None:
        if self.options.strict_reservation:
            shared = self.reserved & default
            if shared:
                raise StateError(
                    f'some of strictly reserved cpus: "{shared}" are present in '
                    f'defaultCpuSet: "{default}"'
                )
        elif not self.reserved <= default:
            raise StateError(
                f'not all reserved cpus: "{self.reserved}" are present in '
                f'defaultCpuSet: "{default}"'
            )

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        """``GetTopologyHints``."""
        count = self.count(pod, container)
        return self._hints(state, pod, count, {container.name: count})

    def pod_hints(self, state: State, pod: Pod) -> list[Hint] | None:
        """``GetPodTopologyHints``. From 1.38 on a pod keeps the CPUs that it has as a whole, unless
        they are stale: then they count as free."""
        counts = self.counts(pod)
        total = self.total(pod, counts)
        if not total or not self.serves_whole(pod):
            return self._hints(state, pod, total, counts)
        held = held_whole(state, pod.uid, self.release)
        stale = bool(held) and is_stale(state, pod, held)
        among = partial(
            cpu_hints,
            self.topology,
            count=total,
            release=self.release,
            align_by_socket=self.options.align_by_socket,
        )
        if held and not stale:
            return among(held, CPUSet()) if len(held) == total else []
        if empty_pool_fault(pod, total, counts):
            return []
        if stale:
            return among((state.default | held) - self.reserved, self.reusable(pod))
        return self._hints(state, pod, total, counts)

    def _hints(
        self, state: State, pod: Pod, count: int, counts: Mapping[str, int]
    ) -> list[Hint] | None:
        return hints_for(
            self.topology,
            state,
            self.reserved,
            self.reusable(pod),
            pod.uid,
            count,
            counts,
            release=self.release,
            align_by_socket=self.options.align_by_socket,
        )

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """``Allocate`` (``allocateForAdd``): what is held already is kept, whatever its size."""
        count = self.count(pod, container)
        if not count:
            return
        held = state.get(pod.uid, container.name)
        # Up to 1.36 this comes before the kubelet looks for CPUs that the container holds: such a
        # container is refused after a restart unless as many more are free
        # (kubernetes/kubernetes#129078).
        if self.options.full_pcpus_only and (held is None or self.can_refuse_holders):
            self.require_whole_cores(state, count)
        if held is not None:
            self._offer(pod, container, held)
            return
        taken = self.take_near(self.available(state) | self.reusable(pod), count, hint)
        state.set_default(state.default - taken)
        state.set(pod.uid, container.name, taken)
        self._offer(pod, container, taken)

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        """``AllocatePod`` (``allocatePodForAdd``): CPUs for the pod as a whole, dealt out among its
        containers. Up to 1.37 what the pod holds already does not count: it is given others
        (kubernetes/kubernetes#140989)."""
        counts = self.counts(pod)
        total = self.total(pod, counts)
        if not total:
            return
        take = partial(self.take, hint_nodes=_nodes_of(hint))
        if held := held_whole(state, pod.uid, self.release):
            if not is_stale(state, pod, held):
                restore_pod(state, pod, held, counts, take, self.release)
                return
            release_stale(state, pod.uid, held)
        fault = empty_pool_fault(pod, total, counts)
        if fault:
            raise EmptyPodSharedPoolError(fault)
        if self.options.full_pcpus_only:
            self.require_whole_cores(state, total)
        taken = self.take_near(self.available(state), total, hint)
        state.set_default(state.default - taken)
        state.set_pod(pod.uid, taken)
        with rolling_back(state, pod.uid, taken, self.release):
            given = partition(pod, taken, counts, take)
        for name, cpus in given.items():
            state.set(pod.uid, name, cpus)

    def serves_whole(self, pod: Pod) -> bool:
        """Whether a pod has pod-level resources that count here."""
        return self.pod_managers and has_pod_level_resources(pod)

    def total(self, pod: Pod, counts: Mapping[str, int]) -> int:
        """How many CPUs a pod gets at once (``podGuaranteedCPUs``)."""
        if runs_on_reserved(pod, release=self.release):
            return 0
        if not self.serves_whole(pod):
            return pod_exclusive_cpus(pod, counts, release=self.release)
        return pod_total(pod) if qos_class(pod) == GUARANTEED else 0

    def counts(self, pod: Pod) -> dict[str, int]:
        """How many CPUs of its own each container gets, by name."""
        return {one.name: self.count(pod, one) for one in pod.containers}

    def take_near(self, available: CPUSet, count: int, hint: Hint | None) -> CPUSet:
        """``allocateCPUs``: take from the nodes of the hint first, and what is missing in a second
        search."""
        if hint is None:
            return self.take(available, count)
        near = aligned(self.topology, available, hint, align_by_socket=self.options.align_by_socket)
        taken = self.take(near, min(count, len(near)), _nodes_of(hint))
        return taken | self.take(available - taken, count - len(taken))

    def count(self, pod: Pod, container: Container) -> int:
        """How many CPUs of its own a container gets (``guaranteedCPUs``). From 1.34 on, in a pod
        with pod-level resources, none unless these count here and it would be Guaranteed alone."""
        if runs_on_reserved(pod, release=self.release):
            return 0
        if self.serves_whole(pod):
            return exclusive_cpus(pod, container) if is_guaranteed_alone(container) else 0
        skipped = has(self.release, Behaviour.POD_LEVEL_RESOURCES_SKIPPED)
        if skipped and has_pod_level_resources(pod):
            return 0
        return exclusive_cpus(pod, container)

    def is_in_one_cache(self, cpus: CPUSet) -> bool:
        """Whether all these CPUs have one uncore cache."""
        return len(self.topology.uncore_cache_ids(cpus)) == 1

    def available(self, state: State) -> CPUSet:
        """The CPUs that may be given away (``GetAvailableCPUs``)."""
        return state.default - self.reserved

    def require_whole_cores(self, state: State, count: int) -> None:
        """``enforceSMTAlignment``: under ``full-pcpus-only``, refuse what is no whole cores, or
        more than the free CPUs of cores without a reserved one. Raises
        :class:`SMTAlignmentError`."""
        per_core = self.topology.cpus_per_core
        if per_core and count % per_core:
            raise SMTAlignmentError(count, per_core)
        if not has(self.release, Behaviour.WHOLE_CORES_LEFT_CHECKED):
            return
        free = len(state.default - self.topology.with_siblings(self.reserved))
        if count > free:
            named = free > 0 or has(self.release, Behaviour.WHOLE_CORES_LEFT_ALWAYS_NAMED)
            raise SMTAlignmentError(count, per_core, free=free if named else None)

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        """``takeByTopology``: choose ``count`` CPUs out of ``available``, for a hint with
        ``hint_nodes`` NUMA nodes. Raises :class:`AllocationError`, and :class:`KubeletHangs` where
        the kubelet would search for ever."""
        return _take(self.topology, available, count, self.options, self.release, hint_nodes)

    def reusable(self, pod: Pod) -> CPUSet:
        """CPUs of the pod's init containers. Only the pod handled last has any."""
        uid, cpus = self._reusable
        return cpus if uid == pod.uid else CPUSet()

    def reusable_after(self, before: CPUSet, container: Container, cpus: CPUSet) -> CPUSet:
        """``updateCPUsToReuse``: what the pod may reuse once ``container`` holds ``cpus``: an init
        container's CPUs are free again when the next container starts; sidecars (up to 1.28 taken
        for init containers) and app containers keep theirs."""
        lends = container.kind is Kind.INIT or (
            container.kind is Kind.SIDECAR and not has(self.release, Behaviour.SIDECARS_KEEP_CPUS)
        )
        return before | cpus if lends else before - cpus

    def remove_container(self, state: State, uid: str, container: str) -> None:
        """``RemoveContainer``: CPUs that another container of the pod also holds
        (``getAssignedCPUsOfSiblings``) stay taken from 1.24 on. CPUs of a whole pod return with its
        last container."""
        held = state.get(uid, container)
        if held is None:
            return
        state.delete(uid, container)
        if self.pod_managers and uid in state.pod_entries:
            if uid not in state.entries:
                state.set_default(state.default | state.pod_entries[uid])
                state.delete_pod(uid)
            return
        if has(self.release, Behaviour.SHARED_CPUS_STAY_TAKEN):
            held -= assigned({uid: state.entries.get(uid, {})})
        state.set_default(state.default | held)

    def _offer(self, pod: Pod, container: Container, cpus: CPUSet) -> None:
        self._reusable = (pod.uid, self.reusable_after(self.reusable(pod), container, cpus))


def new_static_policy(
    topology: CPUTopology, config: KubeletConfig, reserved_milli: int, *, release: AnyRelease
) -> StaticPolicy:
    """``NewStaticPolicy``, which reserves CPUs. Raises :class:`ConfigurationError` with the
    kubelet's text. ``reserved_milli``: the cpu reservation in thousandths."""
    reserved = config.reserved_system_cpus or CPUSet()
    amount = -(-reserved_milli // 1000)
    if not amount:
        # The kubelet leaves a reservation of 0 out of its sums, so this one is missing rather than
        # 0.
        raise ConfigurationError(
            "[cpumanager] unable to determine reserved CPU resources for static policy"
        )
    try:
        options = _static_options(topology, config, release)
        reserved = reserved or _reserve(topology, amount, options, release)
        _require_amount(reserved, amount)
    except ConfigurationError as error:
        failing = "new static policy error: " if has(release, Behaviour.KEYED_BY_POD) else "panic: "
        texts = (f"{failing}{text}" for text in error.possible)
        raise ConfigurationError(*texts) from error
    return StaticPolicy(
        topology,
        reserved,
        release=release,
        options=options,
        pod_managers=pod_managers_on(config.feature_gates, release=release),
    )


def _require_amount(reserved: CPUSet, amount: int) -> None:
    if len(reserved) != amount:
        raise ConfigurationError(
            "[cpumanager] unable to reserve the required amount of "
            f"CPUs (size of {reserved} did not equal {amount})"
        )


def _static_options(
    topology: CPUTopology, config: KubeletConfig, release: AnyRelease
) -> StaticOptions:
    if not has(release, Behaviour.POLICY_OPTIONS):
        return _NO_OPTIONS  # an unknown field of the configuration is ignored
    options = StaticOptions.parse(config.policy_options, config.feature_gates, release=release)
    options.require_suitable(topology, config.topology_manager_policy)
    return options


def _nodes_of(hint: Hint | None) -> int:
    return 0 if hint is None or hint.nodes is None else hint.nodes.bit_count()


@lru_cache(maxsize=8192)  # a search over histories asks for the same again and again
def _take(
    topology: CPUTopology,
    available: CPUSet,
    count: int,
    options: StaticOptions,
    release: AnyRelease,
    hint_nodes: int = 0,
) -> CPUSet:
    return take_by_topology(
        topology,
        available,
        count,
        release=release,
        strategy=options.strategy,
        group_size=options.group_size(topology),
        align_by_socket=options.align_by_socket,
        hint_nodes=hint_nodes,
    )


def _reserve(
    topology: CPUTopology, amount: int, options: StaticOptions, release: AnyRelease
) -> CPUSet:
    try:
        return _take(topology, topology.cpus, amount, options, release)
    except AllocationError:
        return CPUSet()  # the kubelet drops this error, and then refuses the size
