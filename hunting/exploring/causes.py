"""When two differences are of one cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from conformance.accounts import account
from conformance.results import Result
from conformance.waiting import ways
from hunting.exploring.history import History
from hunting.finds import kind_of
from reference.cpumanager.policy_options import is_true
from reference.steps import KubeletConfig, RegisterDevices, Step, applied

#: How a node differs: each field, and the kinds of its expected and seen values, without names and
#: numbers.
Ways: TypeAlias = frozenset[tuple[str, str, str, str]]
#: The name among ``settings`` for an unusual word in an option.
_WORD: Final = "another word for true or false"
_NAME: Final = re.compile(r"\w+")


def ways_of(result: Result) -> Ways:
    """How the node of a failed result differs; empty if its failure has no differences."""
    return frozenset(ways("", result.failure.differences)) if result.failure else frozenset()


def is_same(one: Ways, two: Ways) -> bool:
    """Whether a field of one kind has the same kind of seen value in both, or neither has a way.

    The expected value is not compared: it depends on the steps, which shrinking changes.
    """
    return bool(_seen(one) & _seen(two)) or not (one or two)


def _seen(ways: Ways) -> set[tuple[str, str]]:
    return {(what, seen) for _, what, _, seen in ways}


@dataclass(frozen=True, slots=True)
class Symptom:
    """What identifies the cause of a difference.

    ``ways``: how the node differs; ``at``: after which kind of step (``""`` for a broken promise,
    which stays broken after it); ``settings``: the names of the settings that are not plain;
    ``taken``: the kinds of the steps and of the pods' containers.
    """

    ways: Ways
    at: str
    settings: frozenset[str]
    taken: frozenset[str]

    @classmethod
    def of(cls, result: Result, history: History, release: str) -> Symptom:
        """The symptom that a failed result of this history shows."""
        steps = history.taken
        is_promise = result.failure is not None and account(result.failure).promised
        # The first step of a story is the machine, which no history has.
        last = type(steps[len(result.steps) - 2]).__name__
        kinds = {name for one in steps for name in _NAME.findall(kind_of(one))}
        settings = {*_settings(history.task(release).config), *_needs(steps)}
        return cls(
            ways_of(result), "" if is_promise else last, frozenset(settings), frozenset(kinds)
        )

    def is_of_one_cause(self, other: Symptom) -> bool:
        """Whether two shrunk histories are of one cause: equal ``ways``, ``at`` and ``settings``.

        The other steps and the pods' containers are not compared: they only lead to the difference.
        Two histories with an unusual word for true or false are of one cause: a kubelet that
        misreads the word differs in another way for each option, and shrinking leaves the word only
        if the difference needs it.
        """
        if _WORD in self.settings & other.settings:
            return True
        return (self.ways, self.at, self.settings) == (other.ways, other.at, other.settings)

    def is_seen_in(self, other: Symptom) -> bool:
        """Whether the other, of a history that was not shrunk, has all that this one has."""
        return (
            self.at == other.at
            and self.ways <= other.ways
            and self.settings <= other.settings
            and self.taken <= other.taken
        )


def _settings(config: KubeletConfig) -> list[str]:
    """The names of the settings that are not plain, and ``_WORD`` if an option has such a word."""
    plain = KubeletConfig()
    found = [name for name, on in config.feature_gates.items() if on]
    for name, value in config.policy_options.items():
        if value not in ("true", "false"):
            found.append(_WORD)
        elif is_true(value):
            found.append(name)
    found += config.topology_manager_policy_options
    if config.topology_manager_policy != plain.topology_manager_policy:
        found.append("Topology Manager")
    if config.topology_manager_scope != plain.topology_manager_scope:
        found.append("scope")
    if config.memory_manager_policy != plain.memory_manager_policy:
        found.append("memory manager")
    if config.kube_reserved or config.system_reserved:
        found.append("an amount reserved")
    if config.api_server:
        found.append("API server")
    return found


def _needs(steps: Sequence[Step]) -> Iterator[str]:
    for one in steps:
        if isinstance(one, RegisterDevices):
            yield "devices"
        if any(pod.resources for pod in applied(one)):
            yield "pod-level resources"
