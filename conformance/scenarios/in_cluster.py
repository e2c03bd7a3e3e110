"""What scenarios of pods from an API server have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.scenarios.aligning import aligning
from reference.kubelet.in_place_resize import RESIZE_GATE
from reference.releases import Release
from reference.steps import Container, KubeletConfig, Pod

NO_GATES: Final[Mapping[str, bool]] = {}
_ON_BY_DEFAULT: Final = Release.parse("1.33")


def in_cluster(
    node: LockstepNode, *, topology_manager: str = "none", gates: Mapping[str, bool] = NO_GATES
) -> KubeletConfig:
    """The node's configuration, with an API server, this Topology Manager policy, these feature
    gates, and resizes in place enabled."""
    given = gates
    if Release.parse(node.release).minor < _ON_BY_DEFAULT.minor:
        given = {RESIZE_GATE: True, **gates}
    none = topology_manager == "none"
    config = node.default_config() if none else aligning(node, topology_manager)
    return replace(config, api_server=True, feature_gates={**config.feature_gates, **given})


def with_memory(pod: Pod, memory: str) -> Pod:
    """The pod, each of whose containers asks for this memory and no more."""

    def sized(one: Container) -> Container:
        return replace(one, memory_request=memory, memory_limit=memory)

    return replace(pod, containers=tuple(map(sized, pod.containers)))
