"""The policies: who gets CPUs of its own, and which.

What belongs here: the policies ``none`` and ``static``, the CPUs they reserve, and how a state is
judged at start. What never does: pods that come and go (``manager``), or the file.

The static policy gives CPUs to containers that ask for a whole number of them in a Guaranteed
pod. It takes them from the default set without the reserved CPUs, which stay in the default set
for everybody else to run on. CPUs of a pod's init containers are offered again to its later
containers. Policy options (``options``) are asked where they matter.
Source: ``policy_none.go``, ``policy_static.go``, 1.18 to 1.37.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Protocol

from reference.allocation import take_by_topology
from reference.behaviours import Behaviour
from reference.cpuset import CPUSet
from reference.errors import (
    AllocationError,
    ConfigurationError,
    NotModelled,
    QuantityError,
    SMTAlignmentError,
    StateError,
)
from reference.hints import Hint, aligned, container_hints, pod_exclusive_cpus, pod_hints
from reference.options import StaticOptions, map_text, require_options_allowed
from reference.qos import exclusive_cpus
from reference.quantity import milli_value, quantity
from reference.releases import NEWEST, AnyRelease, has
from reference.state import State, assigned
from reference.steps import Container, Kind, KubeletConfig, Pod
from reference.topology import CPUTopology

__all__ = [
    "NonePolicy",
    "Policy",
    "StaticPolicy",
    "make_policy",
    "require_settings",
    "reserved_milli_cpus",
]

_NO_OPTIONS: Final = StaticOptions()


class Policy(Protocol):
    """What a CPU manager asks of its policy."""

    name: str

    #: Whether a container that holds CPUs already can be refused for lack of them.
    judges_holders: bool

    def start(self, state: State) -> None:
        """Judge the restored state, and fill a fresh one. Raises :class:`StateError`."""

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        """Where a container's CPUs could be; ``None``: no preference, empty: nowhere."""

    def pod_hints(self, state: State, pod: Pod) -> list[Hint] | None:
        """The same for a whole pod."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """Give a container that is being admitted its CPUs, first from the NUMA nodes of ``hint``
        (``None``: from any). Raises :class:`AllocationError`."""

    def remove_container(self, state: State, uid: str, container: str) -> None:
        """Take a container's CPUs back; an unknown one has none."""


class NonePolicy:
    """No container has CPUs of its own, and nothing is pinned."""

    name = "none"
    judges_holders = False

    def start(self, state: State) -> None:
        """Any state is good."""

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        """No preference."""
        return None

    def pod_hints(self, state: State, pod: Pod) -> list[Hint] | None:
        """No preference."""
        return None

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """Nothing to give."""

    def remove_container(self, state: State, uid: str, container: str) -> None:
        """Nothing to take back."""


class StaticPolicy:
    """The static policy on one machine with ``reserved`` CPUs and ``options`` in force.

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
    ) -> None:
        self.topology = topology
        self.reserved = reserved
        self.release = release
        self.options = options
        self.judges_holders = options.full_pcpus_only and not has(
            release, Behaviour.HELD_CPUS_KEPT_FIRST
        )
        self._reusable: tuple[str, CPUSet] = ("", CPUSet())

    def start(self, state: State) -> None:
        """``validateState``. Raises :class:`StateError`."""
        self.validate(state)
        if not state.default and not state.entries:
            state.set_default(self.managed)

    @property
    def managed(self) -> CPUSet:
        """The CPUs that are either exclusive or shared: all, under a strict reservation all but
        the reserved ones."""
        everything = self.topology.cpus
        return everything - self.reserved if self.options.strict_reservation else everything

    def validate(self, state: State) -> None:
        """Refuse a state that does not suit machine and reservation, in the kubelet's order."""
        default, everything = state.default, self.managed
        if not default:
            if state.entries:
                raise StateError("default cpuset cannot be empty")
            return
        self._validate_reserved(default)
        overlaps = [
            f'pod: {uid}, container: {name} cpuset: "{cpus}" '
            f'overlaps with default cpuset "{default}"'
            for uid, named in sorted(state.entries.items())
            for name, cpus in sorted(named.items())
            if not cpus.isdisjoint(default)
        ]
        if overlaps:
            raise StateError(*overlaps)
        known = default | assigned(state.entries)
        if known != everything:
            raise StateError(
                f'current set of available CPUs "{everything}" doesn\'t match with '
                f'CPUs in state "{known}"'
            )

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
        return container_hints(
            self.topology,
            state,
            self.reserved,
            self.reusable(pod),
            pod,
            container,
            self.count(pod, container),
            release=self.release,
            align_by_socket=self.options.align_by_socket,
        )

    def pod_hints(self, state: State, pod: Pod) -> list[Hint] | None:
        """``GetPodTopologyHints``."""
        counts = {one.name: self.count(pod, one) for one in pod.containers}
        return pod_hints(
            self.topology,
            state,
            self.reserved,
            self.reusable(pod),
            pod,
            pod_exclusive_cpus(pod, counts, release=self.release),
            counts,
            release=self.release,
            align_by_socket=self.options.align_by_socket,
        )

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """``Allocate``: what is held already is kept, whatever its size."""
        count = self.count(pod, container)
        if not count:
            return
        held = state.get(pod.uid, container.name)
        # Up to 1.36 before it counts whether the container holds CPUs: one that does is refused
        # after a restart if as many more are not free (kubernetes/kubernetes#129078).
        if self.options.full_pcpus_only and (held is None or self.judges_holders):
            self.require_whole_cores(state, count)
        if held is not None:
            self._offer(pod, container, held)
            return
        taken = self._take_near(self.available(state) | self.reusable(pod), count, hint)
        state.set_default(state.default - taken)
        state.set(pod.uid, container.name, taken)
        self._offer(pod, container, taken)

    def _take_near(self, available: CPUSet, count: int, hint: Hint | None) -> CPUSet:
        """Take from the nodes of the hint first, and in a search of its own what is missing."""
        if hint is None:
            return self.take(available, count)
        near = aligned(self.topology, available, hint, align_by_socket=self.options.align_by_socket)
        taken = self.take(near, min(count, len(near)))
        return taken | self.take(available - taken, count - len(taken))

    def count(self, pod: Pod, container: Container) -> int:
        """How many CPUs of its own a container gets (``guaranteedCPUs``)."""
        return exclusive_cpus(pod, container)

    def available(self, state: State) -> CPUSet:
        """The CPUs that may be given away (``GetAvailableCPUs``)."""
        return state.default - self.reserved

    def require_whole_cores(self, state: State, count: int) -> None:
        """Under ``full-pcpus-only``, refuse what is no whole cores, or more than the free CPUs of
        cores without a reserved one. Raises :class:`SMTAlignmentError`."""
        per_core = self.topology.cpus_per_core
        if per_core and count % per_core:
            raise SMTAlignmentError(count, per_core)
        if not has(self.release, Behaviour.WHOLE_CORES_LEFT_CHECKED):
            return
        free = len(state.default - self.topology.with_siblings(self.reserved))
        if count > free:
            named = free > 0 or has(self.release, Behaviour.WHOLE_CORES_LEFT_ALWAYS_NAMED)
            raise SMTAlignmentError(count, per_core, free=free if named else None)

    def take(self, available: CPUSet, count: int) -> CPUSet:
        """Choose ``count`` CPUs out of ``available``. Raises :class:`AllocationError`, and
        :class:`KubeletHangs` where the kubelet would search for ever."""
        return _take(self.topology, available, count, self.options, self.release)

    def reusable(self, pod: Pod) -> CPUSet:
        """CPUs of the pod's init containers. Only the pod handled last has any."""
        uid, cpus = self._reusable
        return cpus if uid == pod.uid else CPUSet()

    def reusable_after(self, before: CPUSet, container: Container, cpus: CPUSet) -> CPUSet:
        """What the pod may reuse once ``container`` holds ``cpus``: an init container's CPUs are
        free again when the next container starts; sidecars (up to 1.28 taken for init containers)
        and app containers keep theirs."""
        lends = container.kind is Kind.INIT or (
            container.kind is Kind.SIDECAR and not has(self.release, Behaviour.SIDECARS_KEEP_CPUS)
        )
        return before | cpus if lends else before - cpus

    def remove_container(self, state: State, uid: str, container: str) -> None:
        """``RemoveContainer``: CPUs that another container of the pod also holds stay taken (as
        they did not in some releases up to 1.23)."""
        held = state.get(uid, container)
        if held is None:
            return
        state.delete(uid, container)
        if has(self.release, Behaviour.SHARED_CPUS_STAY_TAKEN):
            held -= assigned({uid: state.entries.get(uid, {})})
        state.set_default(state.default | held)

    def _offer(self, pod: Pod, container: Container, cpus: CPUSet) -> None:
        self._reusable = (pod.uid, self.reusable_after(self.reusable(pod), container, cpus))


def make_policy(
    topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease = NEWEST
) -> Policy:
    """The policy that ``config`` names, ready for :meth:`Policy.start`.

    Raises :class:`ConfigurationError` with the kubelet's text.
    """
    require_settings(topology, config, release=release)
    reserved = config.reserved_system_cpus or CPUSet()
    if config.policy == "none":
        return _none_policy(config, release)
    if config.policy != "static":
        raise ConfigurationError(f'unknown policy: "{config.policy}"')
    amount = -(-reserved_milli_cpus(config) // 1000)
    if not amount:
        # A reservation of nothing is left out of the sums before anybody could find it zero.
        raise ConfigurationError(
            "[cpumanager] unable to determine reserved CPU resources for static policy"
        )
    try:
        options = _static_options(topology, config, release)
        reserved = reserved or _reserve(topology, amount, options, release)
        _require_amount(reserved, amount)
    except ConfigurationError as error:
        texts = (f"new static policy error: {text}" for text in error.possible)
        raise ConfigurationError(*texts) from error
    return StaticPolicy(topology, reserved, release=release, options=options)


def require_settings(
    topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease = NEWEST
) -> None:
    """Refuse what the kubelet does before it makes any manager (``cmd/kubelet/app/server.go``).
    Raises :class:`ConfigurationError`."""
    reserved = config.reserved_system_cpus or CPUSet()
    if not reserved <= topology.cpus:
        raise ConfigurationError(
            f"reserved-cpus: {reserved} is not a subset of online-cpus: {topology.cpus}"
        )
    if has(release, Behaviour.POLICY_OPTIONS):
        require_options_allowed(config.policy_options, config.feature_gates, release=release)


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
        return _NO_OPTIONS  # an unknown field of the configuration is passed over
    options = StaticOptions.parse(config.policy_options, config.feature_gates, release=release)
    options.require_suitable(topology, config.topology_manager_policy)
    return options


def _none_policy(config: KubeletConfig, release: AnyRelease) -> NonePolicy:
    if not config.policy_options or not has(release, Behaviour.POLICY_OPTIONS):
        return NonePolicy()
    raise ConfigurationError(
        "new none policy error: None policy: received unsupported "
        f"options={map_text(config.policy_options)}"
    )


def _take(
    topology: CPUTopology,
    available: CPUSet,
    count: int,
    options: StaticOptions,
    release: AnyRelease,
) -> CPUSet:
    return take_by_topology(
        topology,
        available,
        count,
        release=release,
        strategy=options.strategy,
        group_size=options.group_size(topology),
        align_by_socket=options.align_by_socket,
    )


def _reserve(
    topology: CPUTopology, amount: int, options: StaticOptions, release: AnyRelease
) -> CPUSet:
    try:
        return _take(topology, topology.cpus, amount, options, release)
    except AllocationError:
        return CPUSet()  # the kubelet drops this error and trips over the size


def reserved_milli_cpus(config: KubeletConfig) -> int:
    """The cpu reservation in thousandths: the size of an explicit list, which takes the place of
    the amounts, or system and kube reservation together."""
    if config.reserved_system_cpus:
        return len(config.reserved_system_cpus) * 1000
    total = Fraction(0)
    for text in (config.system_reserved, config.kube_reserved):
        if text is not None:
            try:
                total += quantity(text)
            except QuantityError as error:
                raise NotModelled(f"a cpu reservation: {error}") from error
    if total < 0:
        raise NotModelled(f"a cpu reservation below zero: {total}")
    return milli_value(total)
