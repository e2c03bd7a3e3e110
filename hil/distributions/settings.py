"""A kubelet's settings that decide CPUs, as each distribution takes them: file, drop-in, flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from hil.inspection.kubelet import FLAGS, document
from reference.steps import KubeletConfig

DROP_IN: Final = "99-pinproof"
_GATES: Final = "featureGates"


def settings_of(config: KubeletConfig) -> dict[str, Any]:
    """Names and values of KubeletConfiguration; ``None`` for what is not to be set."""
    reserved = config.reserved_system_cpus
    return {
        "cpuManagerPolicy": config.policy,
        "cpuManagerPolicyOptions": dict(config.policy_options) or None,
        "reservedSystemCPUs": str(reserved) if reserved is not None else None,
        "systemReserved": {"cpu": config.system_reserved},
        "kubeReserved": {"cpu": config.kube_reserved},
        "topologyManagerPolicy": config.topology_manager_policy,
        "topologyManagerScope": config.topology_manager_scope,
        "topologyManagerPolicyOptions": dict(config.topology_manager_policy_options) or None,
        _GATES: dict(config.feature_gates),
    }


def rewritten(text: str, config: KubeletConfig) -> str:
    """A configuration file with these settings instead of its own; raises ``ValueError`` where it
    is none. Other reserved quantities and feature gates stay."""
    content = document(text)
    for name, value in settings_of(config).items():
        if isinstance(value, Mapping) and name in (_GATES, "systemReserved", "kubeReserved"):
            kept = content.get(name)
            value = {**(kept if isinstance(kept, Mapping) else {}), **value}
            value = {key: one for key, one in value.items() if one is not None} or None
        if value is None:
            content.pop(name, None)
        else:
            content[name] = value
    return yaml.safe_dump(content, sort_keys=False)


def patch(config: KubeletConfig) -> str:
    """A drop-in, which is a merge patch: ``null`` takes away what another file says."""
    content: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
    }
    content |= {name: value for name, value in settings_of(config).items() if value != {}}
    return yaml.safe_dump(content, sort_keys=False)


def flags_of(config: KubeletConfig) -> list[str]:
    """``name=value``, without dashes; nothing for what is not to be set."""
    names = {setting: flag for flag, setting in FLAGS.items()}
    flags = []
    for name, value in settings_of(config).items():
        if isinstance(value, Mapping):
            pairs = {key: one for key, one in value.items() if one is not None}
            text = ",".join(f"{key}={_scalar(one)}" for key, one in pairs.items())
        else:
            text = "" if value is None else str(value)
        if text:
            flags.append(f"{names[name]}={text}")
    return flags


def deciding_flags() -> frozenset[str]:
    """Flags that go before these settings of a file."""
    names = settings_of(KubeletConfig())
    return frozenset(flag for flag, setting in FLAGS.items() if setting in names)


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
