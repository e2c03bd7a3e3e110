"""Kubelets of other releases that take over from one another.

What belongs here: which releases are neighbours, what another release accepts of a configuration,
and which releases a history has. What never does: the moves (``families``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from reference.behaviours import Behaviour
from reference.cpumanager.policy_options import StaticOptions
from reference.errors import ConfigurationError, NotModelled
from reference.feature_gates import stage_of
from reference.kubelet.configuration import require_modelled
from reference.releases import LATEST, OLDEST, has, minor_of
from reference.steps import KubeletConfig, Step, TakeOver


def neighbours(release: str) -> tuple[str, ...]:
    """The minor before and the minor after, as far as the model knows them."""
    minor = minor_of(release)
    return tuple(f"1.{one}" for one in (minor - 1, minor + 1) if OLDEST <= one <= LATEST)


def releases_of(first: str, steps: Iterable[Step]) -> tuple[str, ...]:
    """Each release whose kubelet a history has, in order; it begins with ``first``."""
    later = (step.release for step in steps if isinstance(step, TakeOver))
    return tuple(dict.fromkeys((first, *later)))


def configurations_for(release: str, config: KubeletConfig) -> list[KubeletConfig]:
    """The configurations that a kubelet of ``release`` may get in place of this one: the one
    without the feature gates that the release does not know, and the one without any. One that the
    release refuses, or that its model does not know, is left out."""
    known = {name: on for name, on in config.feature_gates.items() if stage_of(name, release)}
    configs: list[KubeletConfig] = []
    for gates in (known, {}):
        other = replace(config, feature_gates=gates)
        if is_taken(release, other) and other not in configs:
            configs.append(other)
    return configs


def is_taken(release: str, config: KubeletConfig) -> bool:
    """Whether a kubelet of ``release`` accepts the configuration, as far as the model knows."""
    if config.policy_options and not has(release, Behaviour.POLICY_OPTIONS):
        return False
    if config.reserved_system_cpus and not has(release, Behaviour.RESERVED_CPU_LIST):
        return False
    try:
        StaticOptions.parse(config.policy_options, config.feature_gates, release=release)
        require_modelled(config, release)
    except (ConfigurationError, NotModelled):
        return False
    return True
