"""The kubelet's settings as a release takes them.

What belongs here: which settings a release does not know, and which lie outside of the model. What
never does: what a setting does (``policy``, ``options``, ``topology_manager``).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from reference.behaviours import Behaviour
from reference.cpumanager.cpu_assignment import take_by_topology
from reference.cpumanager.cpu_manager import reserved_milli_cpus
from reference.cpuset import CPUSet
from reference.errors import AllocationError, ConfigurationError, NotModelled
from reference.machine.topology import CPUTopology
from reference.releases import AnyRelease, Release, has
from reference.steps import KubeletConfig

__all__ = ["as_known", "require_modelled", "reserved_cpus", "reserving"]

_MANAGER_GATE: Final = "CPUManager"

#: Feature gates that may have any value here: the model knows what they do, or they change
#: nothing that it shows.
_KNOWN_GATES: Final = frozenset(
    {
        "CPUManagerPolicyAlphaOptions",
        "CPUManagerPolicyBetaOptions",
        "CPUManagerPolicyOptions",
        "InPlacePodVerticalScalingExclusiveCPUs",
        "KubeletInUserNamespace",
        "PodLevelResourceManagers",
        "PodLevelResources",
        "TopologyManager",
        "TopologyManagerPolicyAlphaOptions",
        "TopologyManagerPolicyBetaOptions",
        "TopologyManagerPolicyOptions",
    }
)

#: A kubelet that does not know a gate it is given panics.
_GATES_SINCE: Final = {
    "InPlacePodVerticalScalingExclusiveCPUs": Behaviour.POD_LEVEL_RESOURCES,
    "PodLevelResourceManagers": Behaviour.POD_LEVEL_MANAGERS,
    "PodLevelResources": Behaviour.POD_LEVEL_RESOURCES,
    "TopologyManager": Behaviour.TOPOLOGY_MANAGER,
}

#: The last minor that knows a gate, and the first in which one is locked on.
_GATES_UNTIL: Final = {"TopologyManager": 28}
_LOCKED_SINCE: Final = {
    "TopologyManager": 27,
    "CPUManagerPolicyOptions": 33,
    "TopologyManagerPolicyOptions": 36,
    # Not locked, but what depends on it is on by itself.
    "PodLevelResources": 36,
}


def as_known(config: KubeletConfig, release: AnyRelease) -> KubeletConfig:
    """The configuration without what ``release`` passes over: up to 1.16 a list of reserved CPUs,
    up to 1.15 a policy that does not exist, for which it takes ``none``."""
    if not has(release, Behaviour.RESERVED_CPU_LIST):
        config = replace(config, reserved_system_cpus=None)
    known = config.policy in ("none", "static")
    if not known and not has(release, Behaviour.UNKNOWN_POLICY_REFUSED):
        config = replace(config, policy="none")
    return config


def reserving(cpus: CPUSet, *, release: AnyRelease) -> KubeletConfig:
    """Policy static with these CPUs reserved; up to 1.16, where no list can be given, as many as
    these, which the kubelet chooses. A release that the model does not know is taken for a new
    one."""
    asked = Release.parse(release) if isinstance(release, str) else release
    if not asked.known or has(asked, Behaviour.RESERVED_CPU_LIST):
        return KubeletConfig(reserved_system_cpus=cpus)
    return KubeletConfig(system_reserved=str(len(cpus)))


def reserved_cpus(
    topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease
) -> CPUSet | None:
    """The CPUs that the configuration reserves: a list as it stands. ``None`` where only their
    number is configured, up to 1.16, where nothing else can be, those that the kubelet chooses."""
    if has(release, Behaviour.RESERVED_CPU_LIST):
        return config.reserved_system_cpus
    amount = -(-reserved_milli_cpus(config, release=release) // 1000)
    try:
        return take_by_topology(topology, topology.cpus, amount, release=release)
    except AllocationError:
        return None  # which the kubelet does not start with


def require_modelled(config: KubeletConfig, release: AnyRelease) -> None:
    """Raise :class:`NotModelled` where a setting lies outside of the model."""
    unknown = set(config.feature_gates) - _KNOWN_GATES
    if config.feature_gates.get(_MANAGER_GATE) and not has(release, Behaviour.CPU_MANAGER_ON):
        unknown.discard(_MANAGER_GATE)
    unknown |= {
        gate
        for gate, since in _GATES_SINCE.items()
        if gate in config.feature_gates and not has(release, since)
    }
    if unknown:
        raise NotModelled(f"feature gates {', '.join(sorted(unknown))} of {release}")
    _require_settable(config.feature_gates, release)
    with suppress(ConfigurationError):  # which is the kubelet's to say
        reserved_milli_cpus(config, release=release)


def _require_settable(gates: Mapping[str, bool], release: AnyRelease) -> None:
    """A kubelet panics over a gate that it knows no more, and over one off that must be on; seen
    on 1.36.4."""
    minor = (Release.parse(release) if isinstance(release, str) else release).minor
    for gate, on in sorted(gates.items()):
        if minor > _GATES_UNTIL.get(gate, minor):
            raise NotModelled(f"feature gate {gate}: {release} knows it no more, and panics")
        if not on and minor >= _LOCKED_SINCE.get(gate, minor + 1):
            raise NotModelled(f"feature gate {gate} off: {release} panics")
