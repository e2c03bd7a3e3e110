"""The Topology Manager's options: their names, maturity and values.

What belongs here: which options a kubelet accepts, and the texts with which it refuses them. What
never does: what an option changes (``policy``, ``topology_manager``).
Source: ``topologymanager/policy_options.go``, ``cmd/kubelet/app/server.go``, 1.26 to 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reference.behaviours import Behaviour
from reference.errors import ConfigurationError
from reference.feature_gates import ALPHA, BETA, GA, Stages, enabled, readiness
from reference.golang.strconv import (
    NotANumber,
    atoi,
    bad_option_value,
    go_quote,
    map_text,
    parse_bool,
)
from reference.releases import NEWEST, AnyRelease, has
from reference.steps import KubeletConfig

_CLOSEST: Final = "prefer-closest-numa-nodes"
_LIMIT: Final = "max-allowable-numa-nodes"
_LEAST_LIMIT: Final = 8

#: Every option: its maturity from each behaviour on, the latest first.
OPTIONS: Final[Mapping[str, Stages]] = {
    _CLOSEST: {
        Behaviour.TOPOLOGY_OPTIONS_STABLE: GA,
        Behaviour.TOPOLOGY_OPTIONS_ON: BETA,
        Behaviour.TOPOLOGY_OPTIONS: ALPHA,
    },
    _LIMIT: {Behaviour.NUMA_LIMIT_OPTION_STABLE: GA, Behaviour.NUMA_LIMIT_OPTION: BETA},
}


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """The options in force; ``max_numa_nodes`` is how many a machine may have at most."""

    prefer_closest: bool = False
    max_numa_nodes: int = _LEAST_LIMIT

    @classmethod
    def parse(
        cls, given: Mapping[str, str], gates: Mapping[str, bool], *, release: AnyRelease = NEWEST
    ) -> TopologyOptions:
        """Read the options under these feature gates (``NewPolicyOptions``).

        Go walks the map in random order and ends at the first fault, so where several options are
        at fault the error may name any of them. Raises :class:`ConfigurationError`.
        """
        faults = [
            fault
            for name, value in sorted(given.items())
            if (fault := _not_available(name, gates, release) or _bad_value(name, value))
        ]
        if faults:
            raise ConfigurationError(*faults)
        return cls(
            bool(parse_bool(given.get(_CLOSEST, "false"))),
            atoi(given.get(_LIMIT, str(_LEAST_LIMIT))),
        )


def require_topology_options_allowed(config: KubeletConfig, release: AnyRelease = NEWEST) -> None:
    """Refuse options whose feature gate is off, under any policy (1.26 to 1.35). Raises
    :class:`ConfigurationError`."""
    given, gate = config.topology_manager_policy_options, "TopologyManagerPolicyOptions"
    if not given or enabled(gate, config.feature_gates, release=release):
        return
    manager = "" if has(release, Behaviour.TOPOLOGY_MANAGER_UNGATED) else '"TopologyManager", '
    raise ConfigurationError(
        f"topology manager policy options {map_text(given)} require feature gates "
        f'{manager}"{gate}" enabled'
    )


def _not_available(name: str, gates: Mapping[str, bool], release: AnyRelease) -> str:
    """``CheckPolicyOptionAvailable``: why an option may not be named at all; ``""`` if it may."""
    ready = readiness(OPTIONS.get(name, {}), release)
    if ready is None:
        return f"unknown Topology Manager Policy option: {go_quote(name)}"
    level = ready.value.capitalize()
    gate = f"TopologyManagerPolicy{level}Options"
    if ready is GA or enabled(gate, gates, release=release):
        return ""
    text = f"Topology Manager Policy {level}-level Options not enabled"
    if has(release, Behaviour.TOPOLOGY_TEXTS_LOWERED):
        text = text.lower()
    return f"{text}, but option {go_quote(name)} provided"


def _bad_value(name: str, value: str) -> str:
    if name == _CLOSEST:
        return bad_option_value(name, value)
    try:
        limit = atoi(value)
    except NotANumber as error:
        return f"unable to convert policy option to integer {go_quote(name)}: {error}"
    if limit < _LEAST_LIMIT:
        return f"the minimum value of {go_quote(name)} should not be less than {_LEAST_LIMIT}"
    return ""
