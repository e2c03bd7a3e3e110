"""Miniatures: the model, wrong in one way each. They test the suite: a scenario that no miniature
can make fail has never been seen to fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from conformance.discovered import info_of
from conformance.subject import SubjectUsageError
from conformance.subjects.reference import ReferenceSubject
from reference import NEWEST, CPUSet, CPUTopology, Node
from reference.policy import Policy, StaticPolicy, make_policy
from reference.releases import AnyRelease
from reference.state import State
from reference.steps import KubeletConfig


class SplitsCores(StaticPolicy):
    """Takes the lowest CPUs and never looks at cores, sockets or NUMA nodes."""

    def take(self, available: CPUSet, count: int) -> CPUSet:
        """Refuses like the real one, and then counts off."""
        super().take(available, count)
        return CPUSet(list(available)[:count])


class ForgetsToGiveBack(StaticPolicy):
    """Drops a container's entry, but does not return its CPUs to the shared pool."""

    def remove_container(self, state: State, uid: str, container: str) -> None:
        """The entry alone."""
        if state.get(uid, container) is not None:
            state.delete(uid, container)


class TrustsItsState(StaticPolicy):
    """Starts on any state file that it can read, whatever CPUs the machine has now."""

    def validate(self, state: State) -> None:
        """Nothing is compared."""


class IgnoresWholeCores(StaticPolicy):
    """Accepts full-pcpus-only, and admits any request all the same."""

    def require_whole_cores(self, state: State, count: int) -> None:
        """Nothing is required."""


@dataclass(frozen=True, slots=True)
class Miniature:
    """A wrong policy, and the scenario that is bound to catch it."""

    policy: Callable[..., StaticPolicy]
    caught_by: str


MINIATURES: Final[dict[str, Miniature]] = {
    "splits-cores": Miniature(SplitsCores, "packing/whole-core"),
    "forgets-to-give-back": Miniature(ForgetsToGiveBack, "pool/deletion-returns-cpus"),
    "trusts-its-state": Miniature(TrustsItsState, "machine/cpu-upgrade-incident"),
    "ignores-full-pcpus-only": Miniature(IgnoresWholeCores, "options/full-pcpus-odd-is-rejected"),
}


def miniature(name: str, *, release: str = NEWEST) -> ReferenceSubject:
    """The subject ``miniature:NAME``; raises :class:`SubjectUsageError` for a name that is none."""
    found = MINIATURES.get(name)
    if found is None:
        known = ", ".join(MINIATURES)
        raise SubjectUsageError(f"unknown miniature {name!r}: there are {known}")
    return ReferenceSubject(f"miniature:{name}", release=release, make=partial(_node, found.policy))


def _node(
    wrong: Callable[..., StaticPolicy],
    trees: Callable[[str], Mapping[str, str]],
    machine: str,
    config: KubeletConfig,
    release: str,
) -> Node:
    def policy(topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease) -> Policy:
        right = make_policy(topology, config, release=release)
        if not isinstance(right, StaticPolicy):
            return right
        return wrong(right.topology, right.reserved, release=release, options=right.options)

    return Node(
        trees,
        machine,
        config,
        release=release,
        policy_factory=policy,
        discovering=info_of,
    )
