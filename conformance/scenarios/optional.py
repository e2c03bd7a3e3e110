"""Configurations with options of the static policy, and what several of their scenarios promise.

The gate for alpha options is on wherever an option was alpha in some release; a stable option does
not mind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.scenarios.aligning import aligning
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.steps import KubeletConfig

ALPHA: Final = {"CPUManagerPolicyAlphaOptions": True}
NO_GATES: Final[Mapping[str, bool]] = {}


def with_options(
    node: LockstepNode,
    *options: str,
    value: str = "true",
    gates: Mapping[str, bool] = ALPHA,
    reserved: CPUSet | None = None,
) -> KubeletConfig:
    """The node's configuration with these options set to ``value``, under these feature gates."""
    if not node.release_has(Behaviour.OPTIONS_GATE_ON):
        gates = {"CPUManagerPolicyOptions": True, **gates}
    config = replace(
        node.config, policy_options=dict.fromkeys(options, value), feature_gates=dict(gates)
    )
    return config if reserved is None else replace(config, reserved_system_cpus=reserved)


def aligning_with(
    node: LockstepNode, policy: str, *options: str, reserved: CPUSet | None = None
) -> KubeletConfig:
    """The node's configuration with these options, under this Topology Manager policy."""
    aligned, config = aligning(node, policy), with_options(node, *options, reserved=reserved)
    gates = {**aligned.feature_gates, **config.feature_gates}
    return replace(
        aligned,
        policy_options=config.policy_options,
        feature_gates=gates,
        reserved_system_cpus=config.reserved_system_cpus,
    )


def promise_whole_cores(node: LockstepNode, cpus: CPUSet) -> None:
    """Promise that a container's CPUs are whole physical cores."""
    whole, what = node.topology.with_siblings(cpus), "CPUs of the cores touched"
    node.promise_cpus("No core is shared with another", what, whole, cpus)
