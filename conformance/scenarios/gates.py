"""Feature gates of options: which option needs one in which release, and how it is refused.

An option begins as alpha, becomes beta and then stable. Alpha and beta have a feature gate each; a
stable option needs none.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import DoesNotApply
from conformance.scenario import Level, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import CONFIGURES, START_ERROR
from conformance.scenarios.entering import refused
from reference.behaviours import Behaviour
from reference.steps import KubeletConfig

_topology: Final = partial(promised, area="topology")

_staged: Final = partial(
    promised, area="options", source=sources.OPTION_STAGES, capabilities=(*CONFIGURES, *START_ERROR)
)

#: The behaviours with which each option became alpha, beta and stable; ``None``: it has not.
_STAGES: Final[dict[str, tuple[Behaviour | None, Behaviour | None, Behaviour | None]]] = {
    "full-pcpus-only": (None, Behaviour.OPTION_MATURITY, Behaviour.FULL_PCPUS_STABLE),
    "distribute-cpus-across-numa":
        (Behaviour.NUMA_DISTRIBUTION, Behaviour.NUMA_DISTRIBUTION_BETA, None),
    "align-by-socket": (Behaviour.ALIGN_BY_SOCKET, None, None),
    "distribute-cpus-across-cores": (Behaviour.CORE_SPREADING, None, None),
    "strict-cpu-reservation": (
        Behaviour.STRICT_RESERVATION, Behaviour.STRICT_RESERVATION_BETA,
        Behaviour.STRICT_RESERVATION_STABLE,
    ),
    "prefer-align-cpus-by-uncorecache": (
        Behaviour.UNCORE_ALIGNMENT, Behaviour.UNCORE_ALIGNMENT_BETA,
        Behaviour.UNCORE_ALIGNMENT_STABLE,
    ),
}  # fmt: skip
_SHUT: Final = {"CPUManagerPolicyAlphaOptions": False, "CPUManagerPolicyBetaOptions": False}


def _options_at(node: LockstepNode, wanted: str) -> list[str]:
    """The options that are ``Alpha``, ``Beta``, ``Stable`` or not there (``""``) in the release."""
    found = []
    for option, stages in _STAGES.items():
        reached = ""
        for name, behaviour in zip(("Alpha", "Beta", "Stable"), stages, strict=True):
            if behaviour is not None and node.release_has(behaviour):
                reached = name
        if reached == wanted:
            found.append(option)
    return found


def _start_with(node: LockstepNode, option: str, gates: dict[str, bool]) -> None:
    """Start the kubelet, which is down, with this option and an empty state."""
    config = node.default_config()
    node.configure(replace(config, policy_options={option: "true"}, feature_gates=gates))
    node.remove_state()
    node.start()


def _promise_gate(node: LockstepNode, stage: str) -> None:
    node.boot()
    node.stop()
    text = f"CPU Manager Policy {stage}-level Options not enabled"
    for option in _options_at(node, stage):
        _start_with(node, option, _SHUT)
        node.promise_refusal(f'{text}, but option "{option}" provided')


@_staged(since="1.23")
def every_alpha_option_needs_its_gate(node: LockstepNode) -> None:
    """Each alpha policy option keeps the kubelet from starting where the alpha gate is off.
    One after the other, on one node."""
    _promise_gate(node, "Alpha")


@_staged(since="1.23")
def every_beta_option_needs_its_gate(node: LockstepNode) -> None:
    """Each beta policy option keeps the kubelet from starting where the beta gate is off.
    One after the other, on one node."""
    if not _options_at(node, "Beta"):
        raise DoesNotApply("the release has no beta option")
    _promise_gate(node, "Beta")


@_staged(level=Level.CORE, since="1.33")
def stable_options_need_no_gate(node: LockstepNode) -> None:
    """Each stable policy option takes effect where the alpha and beta gates are off.
    One after the other, on one node."""
    node.boot()
    for option in _options_at(node, "Stable"):
        node.stop()
        _start_with(node, option, _SHUT)
        node.promise_running(f"The kubelet starts with {option}")


@_staged(since="1.22", until="1.31")
def later_options_are_unknown(node: LockstepNode) -> None:
    """A policy option of a later release keeps the kubelet from starting.
    With all feature gates on; without the option the node would not be what was asked for."""
    node.boot()
    node.stop()
    staged = node.release_has(Behaviour.OPTION_MATURITY)
    gates = dict.fromkeys(_SHUT, True) if staged else {"CPUManagerPolicyOptions": True}
    for option in _options_at(node, ""):
        if option == "full-pcpus-only":
            continue  # there from 1.22 on, before options had stages
        _start_with(node, option, gates)
        unknown = f'unknown CPU Manager Policy option: "{option}"'
        node.promise_refusal(unknown if staged else f'unsupported cpumanager option: "{option}"')


@promised(sources.FULL_PCPUS, area="options", since="1.22", until="1.32", capabilities=START_ERROR)
def options_need_their_gate(node: LockstepNode) -> None:
    """Where feature gate CPUManagerPolicyOptions is off, any policy option is refused.
    In 1.22 it is off by default, from 1.33 on it cannot be switched off."""
    named = node.release_has(Behaviour.OPTIONS_GATE_ON)
    gates = {"CPUManagerPolicyOptions": False} if named else {}
    options = {"full-pcpus-only": "true"}
    node.boot(replace(node.config, policy_options=options, feature_gates=gates))
    node.promise_refusal('require feature gates "CPUManager", "CPUManagerPolicyOptions" enabled')


# -- the Topology Manager ------------------------------------------------------------------------

_CLOSEST: Final = "prefer-closest-numa-nodes"
_LIMIT: Final = "max-allowable-numa-nodes"


def _restricted(node: LockstepNode, option: str, value: str, **gates: bool) -> KubeletConfig:
    return replace(
        node.config,
        topology_manager_policy="restricted",
        topology_manager_policy_options={option: value},
        feature_gates=gates,
    )


def _promise_stage(node: LockstepNode, stage: str, option: str) -> None:
    text = f"Topology Manager Policy {stage}-level Options not enabled"
    if node.release_has(Behaviour.TOPOLOGY_TEXTS_LOWERED):
        text = text.lower()
    node.promise_refusal(f'{text}, but option "{option}" provided')


@_topology(sources.TOPOLOGY_PAGE, since="1.26", until="1.31", capabilities=START_ERROR)
def manager_options_need_their_gate(node: LockstepNode) -> None:
    """Where feature gate TopologyManagerPolicyOptions is off, any option is refused.
    It is off by default up to 1.27."""
    named = node.release_has(Behaviour.TOPOLOGY_OPTIONS_ON)
    gates = {"TopologyManagerPolicyOptions": False} if named else {}
    node.boot(_restricted(node, _CLOSEST, "true", **gates))
    node.promise_refusal('"TopologyManagerPolicyOptions" enabled')


@_topology(sources.CLOSEST_NUMA, since="1.26", until="1.31", capabilities=START_ERROR)
def closest_needs_its_gate(node: LockstepNode) -> None:
    """Prefer-closest-numa-nodes is refused where the gate of its stage is off, up to 1.31.
    It is alpha up to 1.27, then beta."""
    beta = node.release_has(Behaviour.TOPOLOGY_OPTIONS_ON)
    gates = {
        "TopologyManagerPolicyOptions": True,
        "TopologyManagerPolicyAlphaOptions": beta,
        "TopologyManagerPolicyBetaOptions": not beta,
    }
    node.boot(_restricted(node, _CLOSEST, "true", **gates))
    _promise_stage(node, "Beta" if beta else "Alpha", _CLOSEST)


@_topology(sources.CLOSEST_NUMA, since="1.32", machine="1s-1n-4c-smt1")
def closest_needs_no_gate(node: LockstepNode) -> None:
    """From 1.32 on prefer-closest-numa-nodes takes effect whatever the gates of alpha and beta.
    It is stable."""
    gates = {"TopologyManagerPolicyAlphaOptions": False, "TopologyManagerPolicyBetaOptions": False}
    node.boot(_restricted(node, _CLOSEST, "true", **gates))
    node.promise_running("The kubelet starts")


refused(
    "topology/limit-is-unknown",
    "Up to 1.30 max-allowable-numa-nodes keeps the kubelet from starting",
    sources.NUMA_LIMIT,
    "It is an option of later releases.",
    lambda node: _restricted(node, _LIMIT, "16", TopologyManagerPolicyOptions=True),
    f'unknown Topology Manager Policy option: "{_LIMIT}"',
    since="1.26", until="1.30",
)  # fmt: skip


@_topology(sources.NUMA_LIMIT, since="1.31", until="1.34", capabilities=START_ERROR)
def limit_needs_its_gate(node: LockstepNode) -> None:
    """Max-allowable-numa-nodes is refused where the beta gate is off, up to 1.34.
    It began as beta."""
    node.boot(_restricted(node, _LIMIT, "16", TopologyManagerPolicyBetaOptions=False))
    _promise_stage(node, "Beta", _LIMIT)


@_topology(sources.NUMA_LIMIT, since="1.35", machine="1s-1n-4c-smt1")
def limit_needs_no_gate(node: LockstepNode) -> None:
    """From 1.35 on max-allowable-numa-nodes takes effect whatever the gate of beta options.
    It is stable."""
    node.boot(_restricted(node, _LIMIT, "16", TopologyManagerPolicyBetaOptions=False))
    node.promise_running("The kubelet starts")


@_topology(sources.TOPOLOGY_PAGE, since="1.26", until="1.27", capabilities=START_ERROR)
def none_checks_options(node: LockstepNode) -> None:
    """Up to 1.27 a Topology Manager option that does not exist is refused under policy none too.
    Options are read whatever the policy."""
    config = _restricted(node, "closest", "true", TopologyManagerPolicyOptions=True)
    node.boot(replace(config, topology_manager_policy="none"))
    node.promise_refusal('unknown Topology Manager Policy option: "closest"')


@_topology(sources.TOPOLOGY_PAGE, since="1.28")
def none_checks_no_options(node: LockstepNode) -> None:
    """From 1.28 on a Topology Manager option that does not exist is ignored under policy none.
    There is nothing that it could change."""
    node.boot(replace(_restricted(node, "closest", "true"), topology_manager_policy="none"))
    node.promise_running("The kubelet starts")


@_topology(sources.TOPOLOGY_PAGE, until="1.26", capabilities=START_ERROR)
def policy_needs_its_gate(node: LockstepNode) -> None:
    """Where feature gate TopologyManager is off, a Topology Manager policy is refused.
    From 1.27 on there is no such gate."""
    off = {"TopologyManager": False}
    node.boot(replace(node.config, topology_manager_policy="restricted", feature_gates=off))
    node.promise_refusal("restricted requires feature gate TopologyManager")
