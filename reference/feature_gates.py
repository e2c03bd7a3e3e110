"""Feature gates that decide anything about CPUs: name, stage and default by release.

What belongs here: which gates a release knows, and whether one is on. What never does: what a gate
changes, which lives where it is used and asks :func:`enabled`.
Source: ``pkg/features/kube_features.go``, 1.8 to 1.38.0-beta.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from reference.behaviours import Behaviour
from reference.releases import NEWEST, AnyRelease, has, minor_of


class Maturity(Enum):
    """How ready a gate or a policy option is; the value is what the kubelet calls it."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


ALPHA, BETA, GA, _DEPRECATED = Maturity

#: How ready something is from a behaviour on, last one first.
Stages: TypeAlias = Mapping[Behaviour, Maturity]


class Stage(NamedTuple):
    """What a gate is from a minor on, or from the first release with a behaviour on. A gate that is
    GA is on whatever it is set to."""

    since: int | Behaviour
    maturity: Maturity
    default: bool


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate with its stages, first one first.

    ``refused_off_since``: the first minor that panics where it is off. ``refused_on_until``: the
    last minor that panics where it is on, without another gate that the model does not have.
    ``last``: the last minor that knows it.
    """

    stages: tuple[Stage, ...]
    refused_off_since: int | None = None
    refused_on_until: int | None = None
    last: int | None = None


#: Every gate by its name.
GATES: Final[Mapping[str, Gate]] = {
    "CPUManager": Gate((
        Stage(8, ALPHA, False), Stage(Behaviour.CPU_MANAGER_ON, BETA, True), Stage(26, GA, True),
    ), last=32),
    "CPUManagerPolicyAlphaOptions": Gate((Stage(Behaviour.OPTION_MATURITY, ALPHA, False),)),
    "CPUManagerPolicyBetaOptions": Gate((Stage(Behaviour.OPTION_MATURITY, BETA, True),)),
    "CPUManagerPolicyOptions": Gate((
        Stage(Behaviour.POLICY_OPTIONS, ALPHA, False),
        Stage(Behaviour.OPTIONS_GATE_ON, BETA, True), Stage(Behaviour.OPTIONS_UNGATED, GA, True),
    ), refused_off_since=33),
    # In 1.36 and 1.37 it is GA and can be turned off all the same (pull request 136339).
    "CustomCPUCFSQuotaPeriod": Gate((Stage(12, ALPHA, False), Stage(36, BETA, True))),
    "DisableCPUQuotaWithExclusiveCPUs": Gate((
        Stage(Behaviour.NO_QUOTA_ON_EXCLUSIVE_CPUS, BETA, True), Stage(36, _DEPRECATED, True),
    ), refused_off_since=37),
    "InPlacePodLevelResourcesVerticalScaling": Gate((
        Stage(35, ALPHA, False), Stage(36, BETA, True),
    ), refused_on_until=35),
    "InPlacePodVerticalScaling": Gate((
        Stage(27, ALPHA, False), Stage(33, BETA, True), Stage(35, GA, True),
    ), refused_off_since=35, last=37),
    "InPlacePodVerticalScalingExclusiveCPUs": Gate((Stage(32, ALPHA, False),)),
    "InPlacePodVerticalScalingExclusiveMemory": Gate((Stage(34, ALPHA, False),)),
    "InPlacePodVerticalScalingInitContainers": Gate((Stage(36, BETA, True),)),
    "KubeletPodResourcesListUseActivePods": Gate((
        Stage(Behaviour.ACTIVE_PODS_REPORTED, _DEPRECATED, True),
    )),
    "KubeletInUserNamespace": Gate((Stage(22, ALPHA, False), Stage(37, BETA, True))),
    "PodLevelResourceManagers": Gate((
        Stage(Behaviour.POD_LEVEL_MANAGERS, ALPHA, False), Stage(37, BETA, False),
    )),
    # It is not locked, but what depends on it is on by itself.
    "PodLevelResources": Gate((
        Stage(Behaviour.POD_LEVEL_RESOURCES, ALPHA, False),
        Stage(Behaviour.POD_LEVEL_RESOURCES_SKIPPED, BETA, True),
    ), refused_off_since=36),
    "TopologyManager": Gate((
        Stage(Behaviour.TOPOLOGY_MANAGER, ALPHA, False),
        Stage(Behaviour.TOPOLOGY_MANAGER_ON, BETA, True),
        Stage(Behaviour.TOPOLOGY_MANAGER_UNGATED, GA, True),
    ), refused_off_since=27, last=28),
    "TopologyManagerPolicyAlphaOptions": Gate((Stage(Behaviour.TOPOLOGY_OPTIONS, ALPHA, False),)),
    "TopologyManagerPolicyBetaOptions": Gate((
        Stage(Behaviour.TOPOLOGY_OPTIONS, BETA, False),
        Stage(Behaviour.TOPOLOGY_OPTIONS_ON, BETA, True),
    )),
    "TopologyManagerPolicyOptions": Gate((
        Stage(Behaviour.TOPOLOGY_OPTIONS, ALPHA, False),
        # From 1.32 on it is GA and can be turned off all the same (seen on 1.32.2 and 1.35.0).
        Stage(Behaviour.TOPOLOGY_OPTIONS_ON, BETA, True),
    ), refused_off_since=36),
}  # fmt: skip


@lru_cache(maxsize=1024)
def stage_of(name: str, release: AnyRelease) -> Stage | None:
    """What a gate is in a release; ``None`` where the release does not know it yet. A later stage
    that begins with a minor counts only if the release has an earlier one."""
    reached: list[Stage] = []
    for number, stage in enumerate(GATES[name].stages):
        later = isinstance(stage.since, int) and number > 0
        if _reached(stage.since, release) and (reached or not later):
            reached.append(stage)
    return reached[-1] if reached else None


def enabled(
    name: str, given: Mapping[str, bool] | None = None, *, release: AnyRelease = NEWEST
) -> bool:
    """Whether a gate is on in a kubelet that was ``given`` these values; off where the release
    does not know it yet."""
    stage = stage_of(name, release)
    if stage is None:
        return False
    return stage.maturity is GA or (given or {}).get(name, stage.default)


def readiness(stages: Stages, release: AnyRelease) -> Maturity | None:
    """How ready a policy option is in a release; ``None`` where the release does not know it."""
    return next((ready for known, ready in stages.items() if has(release, known)), None)


def refusal(name: str, on: bool, release: AnyRelease) -> str:
    """Why a kubelet of this release panics over the value of a gate that it has known; ``""`` if
    it does not."""
    gate, minor = GATES[name], minor_of(release)
    if gate.last is not None and minor > gate.last:
        return f"feature gate {name}: {release} has removed it, and panics"
    if not on and gate.refused_off_since is not None and minor >= gate.refused_off_since:
        return f"feature gate {name} off: {release} panics"
    if on and gate.refused_on_until is not None and minor <= gate.refused_on_until:
        return f"feature gate {name} on without those that it depends on: {release} panics"
    return ""


def _reached(since: int | Behaviour, release: AnyRelease) -> bool:
    return has(release, since) if isinstance(since, Behaviour) else minor_of(release) >= since
