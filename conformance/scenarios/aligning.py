"""Configurations with a Topology Manager policy, for machines with any number of NUMA nodes.

What belongs here: what a kubelet needs so that it starts, and answers in time, under a Topology
Manager policy on the machine at hand. What never does: a promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import DoesNotApply
from reference.behaviours import Behaviour
from reference.steps import KubeletConfig

#: Without the option below, a kubelet starts on at most this many NUMA nodes.
_USUAL_LIMIT: Final = 8
_LIMIT_OPTION: Final = "max-allowable-numa-nodes"
#: The kubelet makes a hint for each set of NUMA nodes with CPUs, at every admission. For 12 nodes
#: that is 0.05 s (48 CPUs), for 16 it is 2 s (128 CPUs), for 20 more than 15 s (40 CPUs; all 1.36).
_MOST_WITH_CPUS: Final = 12
#: The kubelet holds a set of NUMA nodes in 64 bits. With other ids it panics at the first pod.
_IDS: Final = range(64)
SINGLE: Final = "single-numa-node"
RESTRICTED: Final = "restricted"
BEST_EFFORT: Final = "best-effort"
_POLICIES: Final = frozenset({SINGLE, RESTRICTED, BEST_EFFORT})


def aligning(
    node: LockstepNode,
    policy: str,
    *,
    scope: str = "container",
    options: Mapping[str, str] | None = None,
) -> KubeletConfig:
    """The node's configuration with this Topology Manager policy, scope and options.

    Where the machine has more NUMA nodes than a kubelet starts on by default, those without CPUs
    included, the configuration raises the limit with ``max-allowable-numa-nodes``, unless
    ``options`` names a limit. Raises :class:`DoesNotApply` where the release has no such option,
    where a NUMA node's id is none that the Topology Manager can hold, and where so many NUMA nodes
    have CPUs that the kubelet would not answer in time.
    """
    wanted = dict(options or {})
    if policy in _POLICIES and len(node.numa_nodes) > _USUAL_LIMIT:
        wanted.setdefault(_LIMIT_OPTION, str(len(node.numa_nodes)))
    if policy in _POLICIES:
        _require_possible(node)
    return replace(
        node.config,
        topology_manager_policy=policy,
        topology_manager_scope=scope,
        topology_manager_policy_options=wanted,
        feature_gates=_gates(node) if wanted else {},
    )


def aligning_alone(
    node: LockstepNode,
    policy: str,
    *,
    scope: str = "container",
    options: Mapping[str, str] | None = None,
) -> KubeletConfig:
    """The same without any option of the static policy."""
    return replace(aligning(node, policy, scope=scope, options=options), policy_options={})


def _require_possible(node: LockstepNode) -> None:
    found = node.numa_nodes
    strange = [one for one in found if one not in _IDS]
    if strange:
        raise DoesNotApply(
            f"needs NUMA node ids of {_IDS[0]} to {_IDS[-1]} under a Topology Manager policy, the "
            f"machine has {strange[0]}: the kubelet panics at its first pod"
        )
    if len(found) <= _USUAL_LIMIT:
        return
    if not node.release_has(Behaviour.NUMA_LIMIT_OPTION):
        raise DoesNotApply(
            f"needs at most {_USUAL_LIMIT} NUMA nodes under a Topology Manager policy, the machine "
            f"has {len(found)}; option {_LIMIT_OPTION} is there from 1.31 on"
        )
    if node.topology.num_numa_nodes > _MOST_WITH_CPUS:
        raise DoesNotApply(
            f"needs at most {_MOST_WITH_CPUS} NUMA nodes with CPUs under a Topology Manager "
            f"policy, the machine has {node.topology.num_numa_nodes}: the kubelet makes a hint for "
            "each set of them and would not answer in time"
        )


def _gates(node: LockstepNode) -> dict[str, bool]:
    """What makes every option available: nothing from 1.32 on, where they are on by default."""
    if node.release_has(Behaviour.TOPOLOGY_OPTIONS_STABLE):
        return {}
    return {
        "TopologyManagerPolicyOptions": True,
        "TopologyManagerPolicyAlphaOptions": True,
        "TopologyManagerPolicyBetaOptions": True,
    }
