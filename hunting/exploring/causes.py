"""When two differences are of one cause.

What belongs here: what of a difference and of a history counts for that. What never does: walking a
history again.
"""

from __future__ import annotations

from conformance.results import Result
from conformance.waiting import ways
from hunting.exploring.history import History
from hunting.finds import kind_of
from reference.cpumanager.policy_options import is_true
from reference.steps import KubeletConfig

#: How a node differs: what, and from which kind of value to which, without names and numbers.
Look = frozenset[tuple[str, str, str, str]]


def look_of(result: Result) -> Look:
    """How the node of a failed result differs; empty where nothing differs in particular."""
    return frozenset(ways("", result.failure.differences)) if result.failure else frozenset()


def is_same(one: Look, two: Look) -> bool:
    """Whether two results differ alike somewhere."""
    return bool(one & two) or not (one or two)


def traits_of(history: History, release: str) -> frozenset[str]:
    """What a history has that a cause may be about: settings, and kinds of steps and pods."""
    config = history.task(release).config
    return frozenset((*_settings(config), *map(kind_of, history.taken)))


def _settings(config: KubeletConfig) -> list[str]:
    plain = KubeletConfig()
    found = [name for name, value in config.policy_options.items() if is_true(value)]
    found += sorted(config.topology_manager_policy_options)
    if config.topology_manager_policy != plain.topology_manager_policy:
        found.append(config.topology_manager_policy)
    if config.topology_manager_scope != plain.topology_manager_scope:
        found.append(f"scope {config.topology_manager_scope}")
    if config.memory_manager_policy != plain.memory_manager_policy:
        found.append("memory manager")
    if config.api_server:
        found.append("API server")
    return found
