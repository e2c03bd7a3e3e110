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
from reference.hints import Hint
from reference.policy import Policy, StaticPolicy, make_policy
from reference.releases import AnyRelease
from reference.state import State
from reference.steps import Container, KubeletConfig, Pod


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


class IgnoresTheHint(StaticPolicy):
    """Lets the Topology Manager choose NUMA nodes, and takes CPUs as if it had not."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """Anywhere."""
        super().allocate(state, pod, container, None)


class ForgetsInitContainers(StaticPolicy):
    """Makes its hints without the CPUs of init containers, which it then reuses."""

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        """As if nobody had lent any."""
        lent, self._reusable = self._reusable, ("", CPUSet())
        try:
            return super().hints(state, pod, container)
        finally:
            self._reusable = lent


class PrefersWhatIsLeft(StaticPolicy):
    """Calls the fewest NUMA nodes that have room now the fewest that there could be."""

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        """The narrowest are preferred, whatever an empty machine could do."""
        hints = super().hints(state, pod, container) or []
        least = min((one.nodes.bit_count() for one in hints if one.nodes), default=0)
        return [
            Hint(one.nodes, one.nodes is not None and one.nodes.bit_count() == least)
            for one in hints
        ] or None


class ForgetsWhoHolds(StaticPolicy):
    """Makes its hints for a pod that runs as for a new one."""

    def pod_hints(self, state: State, pod: Pod) -> list[Hint] | None:
        """Out of what is free."""
        blank = state.copy()
        blank.entries.pop(pod.uid, None)
        return super().pod_hints(blank, pod)


@dataclass(frozen=True, slots=True)
class Miniature:
    """A wrong policy, and the scenario that is bound to catch it, on this machine."""

    policy: Callable[..., StaticPolicy]
    caught_by: str
    machine: str = "1s-1n-4c-smt2"


_TWO_NODES: Final = "2s-2n-16c-smt2"

MINIATURES: Final[dict[str, Miniature]] = {
    "splits-cores": Miniature(SplitsCores, "packing/whole-core"),
    "forgets-to-give-back": Miniature(ForgetsToGiveBack, "pool/deletion-returns-cpus"),
    "trusts-its-state": Miniature(TrustsItsState, "machine/cpu-upgrade-incident"),
    "ignores-full-pcpus-only": Miniature(IgnoresWholeCores, "options/full-pcpus-odd-is-rejected"),
    "ignores-the-hint": Miniature(
        IgnoresTheHint, "topology/single-numa-node-keeps-together", machine=_TWO_NODES
    ),
    "forgets-init-containers": Miniature(
        ForgetsInitContainers, "topology/app-lies-with-its-init-container", machine=_TWO_NODES
    ),
    "prefers-what-is-left": Miniature(
        PrefersWhatIsLeft, "topology/restricted-refuses-scattered", machine=_TWO_NODES
    ),
    "forgets-who-holds": Miniature(
        ForgetsWhoHolds, "topology/restart-keeps-full-pods", machine=_TWO_NODES
    ),
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
