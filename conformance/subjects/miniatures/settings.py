"""Readings of KubeletConfiguration that are wrong in one way each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reference import NEWEST, CPUSet, CPUTopology
from reference.cpumanager.cpu_manager import make_policy, reserved_milli_cpus
from reference.cpumanager.policy import Policy
from reference.cpumanager.policy_options import OPTIONS, is_true
from reference.cpumanager.policy_static import StaticPolicy
from reference.errors import ConfigurationError
from reference.feature_gates import readiness
from reference.golang.strconv import parse_bool
from reference.releases import AnyRelease
from reference.steps import KUBE_RESERVED, RESERVED_CGROUPS, KubeletConfig
from reference.topologymanager.validation import TopologyPolicy
from reference.view import CFS_PERIOD

#: The configuration that a kubelet acts on.
Reading = Callable[[KubeletConfig], KubeletConfig]

_BY_SOCKET = "align-by-socket"


def ignoring_unknown_options(config: KubeletConfig) -> KubeletConfig:
    """Ignores policy options that do not exist."""
    known = {
        name: value
        for name, value in config.policy_options.items()
        if readiness(OPTIONS.get(name, {}), NEWEST) is not None
    }
    return replace(config, policy_options=known)


def ignoring_bad_values(config: KubeletConfig) -> KubeletConfig:
    """Ignores policy options whose value is not a boolean."""
    good = {n: value for n, value in config.policy_options.items() if parse_bool(value) is not None}
    return replace(config, policy_options=good)


def ignoring_bad_topology_values(config: KubeletConfig) -> KubeletConfig:
    """Ignores a value of prefer-closest-numa-nodes that is not a boolean."""
    options = dict(config.topology_manager_policy_options)
    if parse_bool(options.get("prefer-closest-numa-nodes", "true")) is None:
        del options["prefer-closest-numa-nodes"]
    return replace(config, topology_manager_policy_options=options)


def opening_the_gates(config: KubeletConfig) -> KubeletConfig:
    """Accepts alpha and beta policy options whatever their feature gates say."""
    if not config.policy_options:
        return config
    gates = {"CPUManagerPolicyAlphaOptions": True, "CPUManagerPolicyBetaOptions": True}
    return replace(config, feature_gates={**config.feature_gates, **gates})


def dropping_options_under_none(config: KubeletConfig) -> KubeletConfig:
    """Ignores policy options under the none policy."""
    return replace(config, policy_options={}) if config.policy == "none" else config


def ignoring_align_by_socket(config: KubeletConfig) -> KubeletConfig:
    """Ignores the policy option align-by-socket."""
    left = {name: value for name, value in config.policy_options.items() if name != _BY_SOCKET}
    return replace(config, policy_options=left)


def accepting(first: str, second: str) -> Reading:
    """Accepts two incompatible policy options, of which the first takes effect."""

    def reading(config: KubeletConfig) -> KubeletConfig:
        options = dict(config.policy_options)
        if is_true(options.get(first, "")) and is_true(options.get(second, "")):
            del options[second]
        return replace(config, policy_options=options)

    reading.__doc__ = f"Accepts {first} together with {second}."
    return reading


def taking_unknown_policies_for_none(config: KubeletConfig) -> KubeletConfig:
    """Treats a CPU manager policy that does not exist as policy none."""
    return config if config.policy in ("none", "static") else replace(config, policy="none")


def passing_over_topology_settings(config: KubeletConfig) -> KubeletConfig:
    """Uses the default in place of a Topology Manager policy or scope that does not exist."""
    known = [one.value for one in TopologyPolicy]
    if config.topology_manager_policy not in known:
        config = replace(config, topology_manager_policy="none")
    if config.topology_manager_scope not in ("container", "pod"):
        config = replace(config, topology_manager_scope="container")
    return config


def passing_over_topology_options(config: KubeletConfig) -> KubeletConfig:
    """Ignores Topology Manager options that do not exist, and a limit that is too low."""
    options = {
        name: value
        for name, value in config.topology_manager_policy_options.items()
        if name == "prefer-closest-numa-nodes"
        or (name == "max-allowable-numa-nodes" and value.isdigit() and int(value) >= 8)
    }
    return replace(config, topology_manager_policy_options=options)


def ignoring_kube_reserved(config: KubeletConfig) -> KubeletConfig:
    """Does not count the cpu in kubeReserved."""
    return replace(config, kube_reserved=None)


def rounding_reservations_down(config: KubeletConfig) -> KubeletConfig:
    """Rounds the cpu reserved by amount down to whole CPUs."""
    try:
        whole = reserved_milli_cpus(config) // 1000
    except ConfigurationError:
        return config
    if config.reserved_system_cpus is not None:
        return config
    return replace(config, system_reserved=str(whole), kube_reserved=None)


def adding_list_and_amounts(config: KubeletConfig) -> KubeletConfig:
    """Reserves the CPUs of reservedSystemCPUs, and the cpu amounts as well."""
    listed = config.reserved_system_cpus
    amounts = replace(config, reserved_system_cpus=None)
    if not listed or not (more := -(-reserved_milli_cpus(amounts) // 1000)):
        return config
    return replace(amounts, system_reserved=str(len(listed) + more), kube_reserved=None)


def ignoring_missing_cgroups(config: KubeletConfig) -> KubeletConfig:
    """Does not enforce the reservation of the kubelet if its cgroup is missing."""
    if config.kube_reserved_cgroup in RESERVED_CGROUPS:
        return config
    enforced = config.enforce_node_allocatable
    others = tuple(one for one in enforced if not one.startswith(KUBE_RESERVED))
    return replace(config, enforce_node_allocatable=others)


def ignoring_the_quota_switch(config: KubeletConfig) -> KubeletConfig:
    """Gives containers CFS quotas, although cpuCFSQuota is false."""
    return replace(config, cpu_cfs_quota=True)


def ignoring_the_quota_period(config: KubeletConfig) -> KubeletConfig:
    """Uses a CFS quota period of 100 ms, whatever cpuCFSQuotaPeriod is."""
    return replace(config, cpu_cfs_quota_period=CFS_PERIOD)


def listing_active_pods(config: KubeletConfig) -> KubeletConfig:
    """Lists only active pods at its pod-resources socket, although the feature gate is off."""
    gates = {**config.feature_gates}
    gates.pop("KubeletPodResourcesListUseActivePods", None)
    return replace(config, feature_gates=gates)


def without_reservation(
    topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease
) -> Policy:
    """Starts the static policy without a reserved CPU where none is configured."""
    if config.policy == "static" and not reserved_milli_cpus(config, release=release):
        return StaticPolicy(topology, CPUSet(), release=release)
    return make_policy(topology, config, release=release)


def reserving_all_at_most(
    topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease
) -> Policy:
    """Reserves all CPUs where the reservation is larger than the machine."""
    if reserved_milli_cpus(config, release=release) > 1000 * len(topology.cpus):
        config = replace(config, reserved_system_cpus=topology.cpus)
    return make_policy(topology, config, release=release)


def taking_pods_for_static(config: KubeletConfig) -> KubeletConfig:
    """Treats every pod as a static pod, for which the kubelet looks for pods to evict."""
    return replace(config, api_server=False)
