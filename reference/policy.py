"""The policies: who gets CPUs of its own, and which.

What belongs here: the policies ``none`` and ``static``, the CPUs they reserve, and how a state is
judged at start. What never does: pods that come and go (``manager``), or the file.

The static policy gives CPUs to containers that ask for a whole number of them in a Guaranteed
pod. It takes them from the default set without the reserved CPUs, which stay in the default set
for everybody else to run on. CPUs of a pod's init containers are offered again to its later
containers. Policy options (``options``) are asked where they matter.
Source: ``policy_none.go``, ``policy_static.go``, 1.36.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Protocol

from reference.allocation import take_by_topology
from reference.cpuset import CPUSet
from reference.errors import (
    AllocationError,
    ConfigurationError,
    NotModelled,
    QuantityError,
    SMTAlignmentError,
    StateError,
)
from reference.options import StaticOptions
from reference.qos import exclusive_cpus
from reference.quantity import milli_value, quantity
from reference.releases import NEWEST, AnyRelease
from reference.state import State, assigned
from reference.steps import Container, Kind, KubeletConfig, Pod
from reference.topology import CPUTopology

__all__ = ["NonePolicy", "Policy", "StaticPolicy", "make_policy", "reserved_milli_cpus"]

_NO_OPTIONS: Final = StaticOptions()


class Policy(Protocol):
    """What a CPU manager asks of its policy."""

    name: str

    #: Whether a container that holds CPUs already can be refused for lack of them.
    judges_holders: bool

    def start(self, state: State) -> None:
        """Judge the restored state, and fill a fresh one. Raises :class:`StateError`."""

    def allocate(self, state: State, pod: Pod, container: Container) -> None:
        """Give a container that is being admitted its CPUs. Raises :class:`AllocationError`."""

    def remove_container(self, state: State, uid: str, container: str) -> None:
        """Take a container's CPUs back; an unknown one has none."""


class NonePolicy:
    """No container has CPUs of its own, and nothing is pinned."""

    name = "none"
    judges_holders = False

    def start(self, state: State) -> None:
        """Any state is good."""

    def allocate(self, state: State, pod: Pod, container: Container) -> None:
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
        self.judges_holders = options.full_pcpus_only
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

    def allocate(self, state: State, pod: Pod, container: Container) -> None:
        """``Allocate``: what is held already is kept, whatever its size."""
        count = self.count(pod, container)
        if not count:
            return
        # Before it is known whether the container holds CPUs: one that does is refused after a
        # restart if as many more are not free (kubernetes/kubernetes#129078).
        if self.options.full_pcpus_only:
            self.require_whole_cores(state, count)
        held = state.get(pod.uid, container.name)
        if held is not None:
            self._offer(pod, container, held)
            return
        taken = self.take(self.available(state) | self.reusable(pod), count)
        state.set_default(state.default - taken)
        state.set(pod.uid, container.name, taken)
        self._offer(pod, container, taken)

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
        free = len(state.default - self.topology.with_siblings(self.reserved))
        if count > free:
            raise SMTAlignmentError(count, per_core, free=free)

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
        free again when the next container starts; sidecars and app containers keep theirs."""
        return before | cpus if container.kind is Kind.INIT else before - cpus

    def remove_container(self, state: State, uid: str, container: str) -> None:
        """``RemoveContainer``: CPUs that another container of the pod also holds stay taken."""
        held = state.get(uid, container)
        if held is None:
            return
        state.delete(uid, container)
        siblings = assigned({uid: state.entries.get(uid, {})})
        state.set_default(state.default | (held - siblings))

    def _offer(self, pod: Pod, container: Container, cpus: CPUSet) -> None:
        self._reusable = (pod.uid, self.reusable_after(self.reusable(pod), container, cpus))


def make_policy(
    topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease = NEWEST
) -> Policy:
    """The policy that ``config`` names, ready for :meth:`Policy.start`.

    Raises :class:`ConfigurationError` with the kubelet's text.
    """
    reserved = config.reserved_system_cpus or CPUSet()
    if not reserved <= topology.cpus:
        raise ConfigurationError(
            f"reserved-cpus: {reserved} is not a subset of online-cpus: {topology.cpus}"
        )
    if config.policy == "none":
        return _none_policy(config)
    if config.policy != "static":
        raise ConfigurationError(f'unknown policy: "{config.policy}"')
    amount = -(-reserved_milli_cpus(config) // 1000)
    if not amount:
        # A reservation of nothing is left out of the sums before anybody could find it zero.
        raise ConfigurationError(
            "[cpumanager] unable to determine reserved CPU resources for static policy"
        )
    options = _static_options(topology, config)
    reserved = reserved or _reserve(topology, amount, options, release)
    if len(reserved) != amount:
        raise ConfigurationError(
            "new static policy error: [cpumanager] unable to reserve the required amount of "
            f"CPUs (size of {reserved} did not equal {amount})"
        )
    return StaticPolicy(topology, reserved, release=release, options=options)


def _static_options(topology: CPUTopology, config: KubeletConfig) -> StaticOptions:
    try:
        options = StaticOptions.parse(config.policy_options, config.feature_gates)
        options.require_suitable(topology)
    except ConfigurationError as error:
        texts = (f"new static policy error: {text}" for text in error.possible)
        raise ConfigurationError(*texts) from error
    return options


def _none_policy(config: KubeletConfig) -> NonePolicy:
    if not config.policy_options:
        return NonePolicy()
    options = " ".join(f"{key}:{value}" for key, value in sorted(config.policy_options.items()))
    raise ConfigurationError(
        f"new none policy error: None policy: received unsupported options=map[{options}]"
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
