"""The settings of a KubeletConfiguration that decide CPUs: their names, written and read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from conformance.kubelets.durations import seconds
from reference import CPUSet, CPUSetParseError
from reference.behaviours import Behaviour
from reference.kubelet.configuration import is_known_gate
from reference.releases import has
from reference.steps import RECONCILE_PERIOD, KubeletConfig
from reference.view import CFS_PERIOD

GATES: Final = "featureGates"
#: Settings whose value is a text; :data:`MAPS_OF_TEXTS` are those with texts by name.
TEXTS: Final = (
    "cpuManagerPolicy",
    "reservedSystemCPUs",
    "topologyManagerPolicy",
    "topologyManagerScope",
)
RESERVED: Final = ("kubeReserved", "systemReserved")
#: As Go's flags take them.
_TRUE, _FALSE = ("true", "1", "t"), ("false", "0", "f")
MAPS_OF_TEXTS: Final = ("cpuManagerPolicyOptions", *RESERVED, "topologyManagerPolicyOptions")


def every_setting(config: KubeletConfig) -> dict[str, Any]:
    """The settings that decide CPUs, under their names in KubeletConfiguration; ``None`` for a
    setting that is not to be set."""
    reserved, period = config.reserved_system_cpus, config.cpu_cfs_quota_period
    rounds = config.reconcile_period
    return {
        "cpuManagerPolicy": config.policy,
        "reservedSystemCPUs": None if reserved is None else str(reserved),
        "systemReserved": {"cpu": config.system_reserved},
        "kubeReserved": {"cpu": config.kube_reserved},
        "cpuManagerPolicyOptions": dict(config.policy_options) or None,
        "topologyManagerPolicy": config.topology_manager_policy,
        "topologyManagerScope": config.topology_manager_scope,
        "topologyManagerPolicyOptions": dict(config.topology_manager_policy_options) or None,
        "cpuCFSQuota": None if config.cpu_cfs_quota else False,
        "cpuCFSQuotaPeriod": None if period == CFS_PERIOD else f"{period / 1000:g}ms",
        "cpuManagerReconcilePeriod": None if rounds == RECONCILE_PERIOD else f"{rounds}ms",
        "featureGates": dict(config.feature_gates),
    }


def settings_of(config: KubeletConfig) -> dict[str, Any]:
    """:func:`every_setting` without defaults, since an old release may not know the field. The
    policy is always there."""
    defaults = every_setting(KubeletConfig())
    return {
        name: value
        for name, value in every_setting(config).items()
        if name == "cpuManagerPolicy" or value != defaults[name]
    }


def deciding(settings: Mapping[str, Any]) -> KubeletConfig:
    """The settings that decide CPUs, as steps state them. Raises ``ValueError`` if
    ``reservedSystemCPUs`` is not a CPU list (a kubelet with it does not start)."""
    reserved = _text(settings, "reservedSystemCPUs")
    try:
        cpus = CPUSet.parse(reserved) if reserved else None
    except CPUSetParseError as error:
        raise ValueError(f"reservedSystemCPUs: {error}") from error
    return KubeletConfig(
        policy=_text(settings, "cpuManagerPolicy") or "none",
        reserved_system_cpus=cpus,
        system_reserved=_texts(settings, "systemReserved").get("cpu"),
        kube_reserved=_texts(settings, "kubeReserved").get("cpu"),
        policy_options=_texts(settings, "cpuManagerPolicyOptions"),
        feature_gates={
            name: value.lower() in _TRUE for name, value in _texts(settings, "featureGates").items()
        },
        topology_manager_policy=_text(settings, "topologyManagerPolicy") or "none",
        topology_manager_scope=_text(settings, "topologyManagerScope") or "container",
        topology_manager_policy_options=_texts(settings, "topologyManagerPolicyOptions"),
        cpu_cfs_quota=scalar(settings.get("cpuCFSQuota")).lower() not in _FALSE,
        cpu_cfs_quota_period=_microseconds(_text(settings, "cpuCFSQuotaPeriod")),
    )


def known_gates(gates: Mapping[str, bool], release: str) -> dict[str, bool]:
    """The gates that the model knows; an owner sets many that decide no CPUs. CPUManager is left
    out if it is set to its default, on."""
    on_anyway = ["CPUManager"] if has(release, Behaviour.CPU_MANAGER_ON) else []
    return {
        name: on
        for name, on in gates.items()
        if is_known_gate(name) and not (on and name in on_anyway)
    }


def memory_manager_in(settings: Mapping[str, Any], release: str) -> KubeletConfig:
    """The memory manager by the settings of a file or of flags, all else as by default. Huge pages
    are left out. The policy is None for what the model does not know: releases before 1.26, and
    policy Static without reserved memory, with which no kubelet starts."""
    policy = _text(settings, "memoryManagerPolicy")
    reserved = _reserved_memory(settings.get("reservedMemory"))
    if policy != "Static" or not reserved or not has(release, Behaviour.TOPOLOGY_OPTIONS):
        return KubeletConfig()
    return KubeletConfig(memory_manager_policy=policy, reserved_memory=reserved)


def _reserved_memory(given: object) -> dict[int, str]:
    """Ordinary memory by NUMA node, from the rows of a file or from the text of the flag, as
    ``0:memory=1Gi,hugepages-2Mi=64Mi;1:memory=2Gi`` (``cmd/kubelet/app/options``, 1.36)."""
    if isinstance(given, str):
        found = re.findall(r"(\d+):(?:[^;]*,)?memory=([^,;]+)", given)
        return {int(node): amount for node, amount in found}
    reserved: dict[int, str] = {}
    for row in given if isinstance(given, list) else ():
        match row:
            case {"numaNode": int(node), "limits": {"memory": amount}}:
                reserved[node] = str(amount)
    return reserved


def _microseconds(text: str) -> int:
    """A duration in microseconds; the default if it is zero or not a duration."""
    return int((seconds(text) or 0) * 1_000_000) or CFS_PERIOD


def _text(settings: Mapping[str, Any], name: str) -> str:
    return str(settings.get(name) or "")


def _texts(settings: Mapping[str, Any], name: str) -> dict[str, str]:
    value = settings.get(name)
    if not isinstance(value, Mapping):
        return {}
    return {str(key): scalar(one) for key, one in value.items()}


def scalar(value: object) -> str:
    """A value as in a flag: ``true`` for ``True``."""
    return str(value).lower() if isinstance(value, bool) else str(value)
