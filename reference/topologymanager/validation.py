"""The Topology Manager's settings alone: which there are, and how they are refused.

What belongs here: the texts of ``ValidateKubeletConfiguration`` for it. What never does: settings
that only the machine shows to be wrong (``topology_manager``).
Source: ``pkg/kubelet/apis/config/validation``, 1.16 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from reference.behaviours import Behaviour
from reference.feature_gates import enabled
from reference.golang.strconv import go_quote
from reference.releases import NEWEST, AnyRelease, has
from reference.steps import KubeletConfig

_GATE: Final = "TopologyManager"
_SCOPES: Final = ("container", "pod")


class TopologyPolicy(Enum):
    """What becomes of a pod whose CPUs cannot lie on the fewest NUMA nodes."""

    NONE = "none"  # the Topology Manager is not asked
    BEST_EFFORT = "best-effort"  # it is admitted all the same
    RESTRICTED = "restricted"  # it is refused
    SINGLE_NUMA_NODE = "single-numa-node"  # refused, and so is what needs more than one node


def gate_on(config: KubeletConfig, release: AnyRelease) -> bool:
    """Whether a kubelet has the Topology Manager."""
    return enabled(_GATE, config.feature_gates, release=release)


def faults_of_settings(config: KubeletConfig, *, release: AnyRelease = NEWEST) -> list[str]:
    """What the kubelet finds wrong with the settings alone, in its order; empty if
    nothing (``ValidateKubeletConfiguration``)."""
    policy, scope = config.topology_manager_policy, config.topology_manager_scope
    if not has(release, Behaviour.TOPOLOGY_MANAGER):
        return []
    off = not gate_on(config, release)
    if not has(release, Behaviour.TOPOLOGY_SCOPE):
        faults = [_gate_text("TopologyManager", policy)] if off and policy != "none" else []
        return [f"invalid configuration: {fault}" for fault in faults]
    faults = []
    if off and policy != "none":
        faults.append(_gate_text("topologyManagerPolicy", policy))
    known = [one.value for one in TopologyPolicy]
    if policy not in known:
        faults.append(_value_text("Policy", policy, f"[{_quoted(known, ' ')}]", release))
    if off and scope != "container":
        faults.append(_gate_text("topologyManagerScope", scope))
    if scope not in _SCOPES:
        faults.append(_value_text("Scope", scope, _quoted(_SCOPES, ", or "), release))
    return [f"invalid configuration: {fault}" for fault in faults]


def _gate_text(setting: str, value: str) -> str:
    return f"{setting} {value} requires feature gate {_GATE}"


def _value_text(setting: str, value: str, known: str, release: AnyRelease) -> str:
    name = f"topologyManager{setting}"
    if not has(release, Behaviour.SETTINGS_LIST_VALUES):
        return f"{name} non-allowable value: {value}"
    flag = f"--topology-manager-{setting.lower()}"
    return f"{name} ({flag}) {go_quote(value)} must be one of: {known}"


def _quoted(values: Iterable[str], between: str) -> str:
    return between.join(map(go_quote, values))
