"""The kubelet's settings as a release takes them.

What belongs here: which settings a release does not know, and which lie outside of the model. What
never does: what a setting does (``policy_static``, ``policy_options``, ``topology_manager``).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from reference.behaviours import Behaviour
from reference.cpumanager.cpu_assignment import take_by_topology
from reference.cpumanager.cpu_manager import reserved_milli_cpus
from reference.cpuset import CPUSet
from reference.errors import AllocationError, ConfigurationError, NotModelled
from reference.feature_gates import GATES, refusal, stage_of
from reference.kubelet.in_place_resize import require_quotas_of_limits
from reference.kubelet.reserved_cgroups import require_modelled_cgroups
from reference.machine.topology import CPUTopology
from reference.releases import AnyRelease, Release, has
from reference.steps import KubeletConfig


def is_known_gate(name: str) -> bool:
    """Whether the model knows what a feature gate does to CPUs; it may be another release's."""
    return name in GATES


def as_known(config: KubeletConfig, release: AnyRelease) -> KubeletConfig:
    """The configuration without what ``release`` ignores: up to 1.16 a list of reserved CPUs, up to
    1.15 a policy that does not exist, for which it takes ``none``."""
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
        return None  # the kubelet does not start with it


def require_modelled(config: KubeletConfig, release: AnyRelease) -> None:
    """Raise :class:`NotModelled` where a setting lies outside of the model."""
    if config.memory_manager_policy not in ("None", "Static"):
        raise NotModelled(f"memory manager policy {config.memory_manager_policy}")
    if config.memory_manager_policy != "None" and not config.reserved_memory:
        raise NotModelled("memory manager policy Static without reserved memory")
    if config.memory_manager_policy != "None" and not has(release, Behaviour.TOPOLOGY_OPTIONS):
        raise NotModelled(f"the memory manager of {release}; the model has it from 1.26 on")
    gates = config.feature_gates
    unknown = [name for name in gates if not _is_modelled(name, gates[name], release)]
    if unknown:
        noun = "the feature gate" if len(unknown) == 1 else "the feature gates"
        raise NotModelled(f"{noun} {', '.join(sorted(unknown))}: the model of {release} has none")
    for name, on in sorted(gates.items()):
        fault = refusal(name, on, release)
        if fault:
            raise NotModelled(fault)
    require_quotas_of_limits(config, release)
    require_modelled_cgroups(config, release)
    with suppress(ConfigurationError):  # the kubelet refuses it
        reserved_milli_cpus(config, release=release)


def _is_modelled(name: str, on: bool, release: AnyRelease) -> bool:
    """Whether model and release know the feature gate; over an unknown one the kubelet panics.
    Before 1.10 CPUManager is on, as the nodes here have it."""
    if name == "CPUManager":
        return on and not has(release, Behaviour.CPU_MANAGER_ON)
    return name in GATES and stage_of(name, release) is not None
