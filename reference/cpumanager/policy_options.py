"""The static policy's options: their names, maturity and values.

What belongs here: which options a kubelet accepts, and the texts with which it refuses them. What
never does: what an option changes (``policy_static``, ``cpu_assignment``).

Options come as a map of texts. Go walks a map in random order and the first fault ends the walk,
so where several options are at fault the error may name any of them.
Source: ``pkg/kubelet/cm/cpumanager/policy_options.go``, 1.22 to 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reference.behaviours import Behaviour
from reference.errors import ConfigurationError
from reference.feature_gates import ALPHA, BETA, GA, Stages, enabled, readiness
from reference.golang.strconv import bad_option_value, go_quote, map_text, parse_bool
from reference.machine.topology import CPUTopology
from reference.releases import NEWEST, AnyRelease, has

FULL_PCPUS: Final = "full-pcpus-only"
ACROSS_NUMA: Final = "distribute-cpus-across-numa"
BY_SOCKET: Final = "align-by-socket"
ACROSS_CORES: Final = "distribute-cpus-across-cores"
STRICT: Final = "strict-cpu-reservation"
BY_UNCORE: Final = "prefer-align-cpus-by-uncorecache"

#: Every option, in the order of the fields of :class:`StaticOptions`: its maturity from each
#: behaviour on, the latest first (``alphaOptions``, ``betaOptions``, ``stableOptions``).
OPTIONS: Final[Mapping[str, Stages]] = {
    FULL_PCPUS: {
        Behaviour.FULL_PCPUS_STABLE: GA,
        Behaviour.OPTION_MATURITY: BETA,
        Behaviour.POLICY_OPTIONS: GA,
    },
    ACROSS_NUMA: {Behaviour.NUMA_DISTRIBUTION_BETA: BETA, Behaviour.NUMA_DISTRIBUTION: ALPHA},
    BY_SOCKET: {Behaviour.ALIGN_BY_SOCKET: ALPHA},
    ACROSS_CORES: {Behaviour.CORE_SPREADING: ALPHA},
    STRICT: {
        Behaviour.STRICT_RESERVATION_STABLE: GA,
        Behaviour.STRICT_RESERVATION_BETA: BETA,
        Behaviour.STRICT_RESERVATION: ALPHA,
    },
    BY_UNCORE: {
        Behaviour.UNCORE_ALIGNMENT_STABLE: GA,
        Behaviour.UNCORE_ALIGNMENT_BETA: BETA,
        Behaviour.UNCORE_ALIGNMENT: ALPHA,
    },
}

#: Pairs that exclude each other, in the order in which they are looked for.
INCOMPATIBLE: Final = (
    (FULL_PCPUS, ACROSS_CORES),
    (ACROSS_NUMA, ACROSS_CORES),
    (BY_UNCORE, ACROSS_CORES),
    (BY_UNCORE, ACROSS_NUMA),
)


@dataclass(frozen=True, slots=True)
class StaticOptions:
    """The options in force; each field is the option of a similar name."""

    full_pcpus_only: bool = False
    distribute_across_numa: bool = False
    align_by_socket: bool = False
    distribute_across_cores: bool = False
    strict_reservation: bool = False
    prefer_uncore_cache: bool = False

    @classmethod
    def parse(
        cls, given: Mapping[str, str], gates: Mapping[str, bool], *, release: AnyRelease = NEWEST
    ) -> StaticOptions:
        """Read policy options under these feature gates (``NewStaticPolicyOptions``).

        An option that is not allowed is refused even with the value ``false``. Raises
        :class:`ConfigurationError` with the kubelet's text, without what it is wrapped in.
        """
        faults = [
            fault
            for name, value in sorted(given.items())
            if (fault := _fault(name, value, gates, release))
        ]
        if faults:
            raise ConfigurationError(*faults)
        on = {name for name, value in given.items() if is_true(value)}
        for first, second in INCOMPATIBLE:
            if {first, second} <= on:
                raise ConfigurationError(
                    f"static policy options {first} and {second} can not be used at the same time"
                )
        return cls(*(name in on for name in OPTIONS))

    def require_suitable(self, topology: CPUTopology, topology_policy: str = "none") -> None:
        """Refuse what does not go with machine and Topology Manager policy
        (``ValidateStaticPolicyOptions``): ``align-by-socket`` where one NUMA node is all a pod may
        have, or where NUMA nodes are the larger units. Raises :class:`ConfigurationError`."""
        if self.align_by_socket and topology_policy == "single-numa-node":
            raise ConfigurationError(
                "Topolgy manager single-numa-node policy is incompatible with CPUManager "
                "align-by-socket policy option"
            )
        if self.align_by_socket and topology.num_sockets > topology.num_numa_nodes:
            raise ConfigurationError(
                "Align by socket is not compatible with hardware where number of sockets are more "
                "than number of NUMA"
            )

    @property
    def strategy(self) -> str:
        """The allocator they ask for, as :func:`reference.take_by_topology` calls it."""
        if self.distribute_across_numa:
            return "distributed"
        if self.distribute_across_cores:
            return "spread"
        return "uncore" if self.prefer_uncore_cache else "packed"

    def group_size(self, topology: CPUTopology) -> int:
        """How many CPUs stay together when NUMA nodes share a request."""
        return topology.cpus_per_core if self.full_pcpus_only else 1


def is_true(value: str) -> bool:
    """Whether the value of an option switches it on."""
    return bool(parse_bool(value))


def require_options_allowed(
    given: Mapping[str, str], gates: Mapping[str, bool], *, release: AnyRelease = NEWEST
) -> None:
    """Refuse options where a release has none, or its feature gate is off, under any policy
    (``cmd/kubelet/app/server.go``, 1.22 to 1.32). Raises :class:`ConfigurationError`."""
    if not given:
        return
    if not enabled("CPUManagerPolicyOptions", gates, release=release):
        raise ConfigurationError(
            f"CPU Manager policy options {map_text(given)} require feature gates "
            '"CPUManager", "CPUManagerPolicyOptions" enabled'
        )


def _fault(name: str, value: str, gates: Mapping[str, bool], release: AnyRelease) -> str:
    """What is wrong with one option (``CheckPolicyOptionAvailable`` and its value); ``""`` if
    nothing is."""
    ready = readiness(OPTIONS.get(name, {}), release)
    if ready is None and not has(release, Behaviour.OPTION_MATURITY):
        return f"unsupported cpumanager option: {go_quote(name)} ({value})"
    if ready is None:
        return f"unknown CPU Manager Policy option: {go_quote(name)}"
    level = ready.value.capitalize()
    if ready is not GA and not enabled(f"CPUManagerPolicy{level}Options", gates, release=release):
        return (
            f"CPU Manager Policy {level}-level Options not enabled, "
            f"but option {go_quote(name)} provided"
        )
    return bad_option_value(name, value)
