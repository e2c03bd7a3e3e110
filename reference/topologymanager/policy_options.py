"""The Topology Manager's options: their names, maturity and values.

What belongs here: which options a kubelet accepts, and the texts with which it refuses them. What
never does: what an option changes (``policy``, ``topology_manager``).
Source: ``topologymanager/policy_options.go``, ``cmd/kubelet/app/server.go``, 1.26 to 1.37.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reference.behaviours import Behaviour
from reference.errors import ConfigurationError
from reference.feature_gates import enabled
from reference.golang.strconv import go_quote, map_text, parse_bool
from reference.releases import NEWEST, AnyRelease, has
from reference.steps import KubeletConfig

_CLOSEST: Final = "prefer-closest-numa-nodes"
_LIMIT: Final = "max-allowable-numa-nodes"
_LEAST_LIMIT: Final = 8
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64: Final = range(-(1 << 63), 1 << 63)

#: Every option: the behaviours that made it alpha, beta and stable (``None``: it never was).
_OPTIONS: Final[Mapping[str, tuple[Behaviour | None, Behaviour, Behaviour]]] = {
    _CLOSEST: (
        Behaviour.TOPOLOGY_OPTIONS,
        Behaviour.TOPOLOGY_OPTIONS_ON,
        Behaviour.TOPOLOGY_OPTIONS_STABLE,
    ),
    _LIMIT: (None, Behaviour.NUMA_LIMIT_OPTION, Behaviour.NUMA_LIMIT_OPTION_STABLE),
}


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """The options in force; ``max_numa_nodes`` is how many a machine may have at most."""

    prefer_closest: bool = False
    max_numa_nodes: int = _LEAST_LIMIT

    @classmethod
    def parse(
        cls,
        given: Mapping[str, str],
        gates: Mapping[str, bool],
        *,
        release: AnyRelease = NEWEST,
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
            int(given.get(_LIMIT, str(_LEAST_LIMIT))),
        )


def require_topology_options_allowed(config: KubeletConfig, release: AnyRelease = NEWEST) -> None:
    """Refuse options whose feature gate is off, under any policy (1.26 to 1.31). Raises
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
    alpha, beta, stable = _OPTIONS.get(name, (None, None, None))
    if stable is not None and has(release, stable):
        return ""
    if beta is not None and has(release, beta):
        if enabled("TopologyManagerPolicyBetaOptions", gates, release=release):
            return ""
        return _gate_text("Beta", name, release)
    if alpha is not None and has(release, alpha):
        if enabled("TopologyManagerPolicyAlphaOptions", gates, release=release):
            return ""
        return _gate_text("Alpha", name, release)
    return f"unknown Topology Manager Policy option: {go_quote(name)}"


def _gate_text(maturity: str, name: str, release: AnyRelease) -> str:
    text = f"Topology Manager Policy {maturity}-level Options not enabled"
    if has(release, Behaviour.TOPOLOGY_TEXTS_LOWERED):
        text = text.lower()
    return f"{text}, but option {go_quote(name)} provided"


def _bad_value(name: str, value: str) -> str:
    if name == _CLOSEST:
        if parse_bool(value) is not None:
            return ""
        return (
            f"bad value for option {go_quote(name)}: "
            f"strconv.ParseBool: parsing {go_quote(value)}: invalid syntax"
        )
    fault = _not_an_int(value)
    if fault:
        return (
            f"unable to convert policy option to integer {go_quote(name)}: "
            f"strconv.Atoi: parsing {go_quote(value)}: {fault}"
        )
    if int(value) < _LEAST_LIMIT:
        return f"the minimum value of {go_quote(name)} should not be less than {_LEAST_LIMIT}"
    return ""


def _not_an_int(value: str) -> str:
    if not _INTEGER.fullmatch(value):
        return "invalid syntax"
    # The length bounds what is converted; a number with leading zeros is still in range.
    digits = value.lstrip("+-").lstrip("0")
    if len(digits) > 19 or int(value) not in _INT64:
        return "value out of range"
    return ""
