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

#: How a node differs: what, and from which kind of value to which, without names and numbers.
Look: TypeAlias = frozenset[tuple[str, str, str, str]]
#: A setting of its own.
_WORD: Final = "another word for true or false"
_NAME: Final = re.compile(r"\w+")


def look_of(result: Result) -> Look:
    """How the node of a failed result differs; empty where nothing differs in particular."""
    return frozenset(ways("", result.failure.differences)) if result.failure else frozenset()


def is_same(one: Look, two: Look) -> bool:
    """Whether two results differ alike somewhere: the same kind of field has the same kind of
    value. What it should have had depends on the steps, which shrinking changes."""
    return bool(_seen(one) & _seen(two)) or not (one or two)


def _seen(look: Look) -> set[tuple[str, str]]:
    return {(what, seen) for _, what, _, seen in look}


@dataclass(frozen=True, slots=True)
class Symptom:
    """What of a difference tells of its cause: how the node differs (``look``), after which kind of
    step (``at``; ``""`` where a promise is broken, which is so from then on), the names of what is
    not plain (``settings``), and the kinds of the steps and of the pods' containers (``taken``)."""

    look: Look
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
            look_of(result), "" if is_promise else last, frozenset(settings), frozenset(kinds)
        )

    def is_of_one_cause(self, other: Symptom) -> bool:
        """Whether two shrunk histories are of one cause: the same kinds of fields differ in the
        same way, after the same kind of step, and shrinking has left the same settings. The other
        steps, and the containers of the pods, are ways to get there. A kubelet that misreads a word
        differs in as many ways as there are options; shrinking leaves the word only where it is
        needed."""
        if _WORD in self.settings & other.settings:
            return True
        return (self.look, self.at, self.settings) == (other.look, other.at, other.settings)

    def is_seen_in(self, other: Symptom) -> bool:
        """Whether a history that was not shrunk differs so, too, and has all that this one has."""
        return (
            self.at == other.at
            and self.look <= other.look
            and self.settings <= other.settings
            and self.taken <= other.taken
        )


def _settings(config: KubeletConfig) -> list[str]:
    """The names of what is set, and whether an option has another word than true or false."""
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
