"""Miniatures: the model, wrong in one way each. They test the suite: a scenario that no miniature
can make fail has never been seen to fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from conformance.discovered import info_of
from conformance.subject import SubjectUsageError
from conformance.subjects.reference import ReferenceSubject
from reference import NEWEST, CPUManager, CPUSet, CPUTopology, Node
from reference.cpumanager.before_1_18 import ManagerByContainer
from reference.cpumanager.cpu_manager import make_policy
from reference.cpumanager.policy import Policy
from reference.cpumanager.policy_static import StaticPolicy
from reference.cpumanager.state.state_mem import State
from reference.errors import (
    AllocationHangs,
    NotEnoughCPUs,
    SMTAlignmentError,
    TopologyAffinityError,
)
from reference.pods.qos import exclusive_cpus, pod_milli_cpus
from reference.releases import AnyRelease
from reference.steps import Container, KubeletConfig, Pod
from reference.topologymanager.hint import Hint
from reference.topologymanager.topology_manager import TopologyManager, affinity_error


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


class HangsOverOddRequests(StaticPolicy):
    """Searches for whole cores for ever where the request is not a multiple of a core's size."""

    def require_whole_cores(self, state: State, count: int) -> None:
        """Hangs instead of refusing."""
        try:
            super().require_whole_cores(state, count)
        except SMTAlignmentError as error:
            raise AllocationHangs(f"{error}, and the search goes on") from error


class EndsWithHalfCores(StaticPolicy):
    """Where its search for whole cores has no end, takes the lowest CPUs."""

    def take(self, available: CPUSet, count: int) -> CPUSet:
        """Answers always."""
        try:
            return super().take(available, count)
        except AllocationHangs:
            return CPUSet(list(available)[:count])


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
        """As if none had been lent."""
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


class PinsPodsWithPodLevelResources(StaticPolicy):
    """Gives containers their CPUs whether or not pod-level resources count."""

    def count(self, pod: Pod, container: Container) -> int:
        """By the container alone."""
        return exclusive_cpus(pod, container)


class SharesExclusiveCPUs(StaticPolicy):
    """Lets every container of a pod with CPUs as a whole run on all of them."""

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        """Takes the right ones, and gives them to every container."""
        super().allocate_pod(state, pod, hint)
        if pod.uid in state.pod_entries:
            for name in list(state.entries[pod.uid]):
                state.set(pod.uid, name, state.pod_entries[pod.uid])


class KeepsThePool(StaticPolicy):
    """Takes back what containers had for themselves, and not what their pod had beside it."""

    def remove_container(self, state: State, uid: str, container: str) -> None:
        """As if there were no CPUs of a whole pod."""
        self.pod_managers, on = False, self.pod_managers
        try:
            super().remove_container(state, uid, container)
        finally:
            self.pod_managers = on
        if uid not in state.entries and uid in state.pod_entries:
            state.delete_pod(uid)


class AdmitsEmptyPools(StaticPolicy):
    """Does not mind that a pod's exclusive containers leave the others no CPU."""

    def pod_hints(self, state: State, pod: Pod) -> list[Hint] | None:
        """As if every container were exclusive."""
        return super().pod_hints(state, self._without_shared(pod))

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        """Nothing for those that have none of their own."""
        super().allocate_pod(state, self._without_shared(pod), hint)

    def _without_shared(self, pod: Pod) -> Pod:
        """The pod's exclusive containers; the whole pod where that leaves it CPUs to share."""
        counts = self.counts(pod)
        if sum(counts.values()) < self.total(pod, counts):
            return pod
        kept = tuple(one for one in pod.containers if counts[one.name])
        return replace(pod, containers=kept)


class RoundsThePodUp(StaticPolicy):
    """Takes a broken number of CPUs for the next whole one."""

    def total(self, pod: Pod, counts: Mapping[str, int]) -> int:
        """Rounded up."""
        if not self.serves_whole(pod):
            return super().total(pod, counts)
        return -(-pod_milli_cpus(pod) // 1000)


class KeepsItsPool(StaticPolicy):
    """Leaves a pod the CPUs that it holds as a whole (what pull request 141041 is to do)."""

    def pod_hints(self, state: State, pod: Pod) -> list[Hint] | None:
        """No preference where it holds some."""
        return None if pod.uid in state.pod_entries else super().pod_hints(state, pod)

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        """Nothing more where it holds some."""
        if pod.uid not in state.pod_entries:
            super().allocate_pod(state, pod, hint)


class PoolsUnderAnyScope(StaticPolicy):
    """Gives a pod CPUs as a whole whatever the Topology Manager's scope is."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """With its first container."""
        if not self.serves_whole(pod):
            super().allocate(state, pod, container, hint)
        elif pod.uid not in state.pod_entries:
            self.allocate_pod(state, pod, hint)


class SplitsCoresOfPods(StaticPolicy):
    """Looks for whole cores when a container is given CPUs, and not when a pod is."""

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        """Any number will do."""
        options, self.options = self.options, replace(self.options, full_pcpus_only=False)
        try:
            super().allocate_pod(state, pod, hint)
        finally:
            self.options = options


class GivesReservedAway(StaticPolicy):
    """Takes reserved CPUs for free ones."""

    def available(self, state: State) -> CPUSet:
        """The whole pool."""
        return state.default


class KeepsACPUShared(StaticPolicy):
    """Refuses a request that takes the pool's last CPU (what pull request 141197 is to do)."""

    def take(self, available: CPUSet, count: int) -> CPUSet:
        """As if one CPU less were free."""
        if count >= len(available):
            raise NotEnoughCPUs(count, len(available) - 1)
        return super().take(available, count)


class ForgetsBaselines(CPUManager):
    """Knows what containers hold, and not what they were given first."""

    def restore(self, state_file: str | None, containers: Mapping[str, tuple[str, str]]) -> State:
        """Keeps none."""
        state = super().restore(state_file, containers)
        state.keeps_baselines, state.baselines = False, {}
        return state


class KeepsTheDead(ManagerByContainer):
    """Never finds that a container has gone."""

    def remove_stale(self, known: Iterable[str | None]) -> None:
        """Nothing is stale."""


class PlainWords(TopologyManager):
    """Refuses a pod with pod-level resources in the words for any other."""

    def refusal(self, pod: Pod) -> TopologyAffinityError:
        """The refusal alone is other."""
        return affinity_error(NEWEST)


@dataclass(frozen=True, slots=True)
class Miniature:
    """A wrong policy, CPU manager, Topology Manager or release (``overrides``: behaviours that it
    has, or ``=off`` has not), and the scenario that is bound to catch it, on this machine and in
    this release; ``also`` are others that do."""

    policy: Callable[..., StaticPolicy] | None
    caught_by: str
    machine: str = "1s-1n-4c-smt2"
    also: tuple[str, ...] = ()
    manager: Callable[..., CPUManager] = CPUManager
    topology_manager: Callable[..., TopologyManager] = TopologyManager
    overrides: tuple[str, ...] = ()
    release: str = NEWEST


_TWO_NODES: Final = "2s-2n-16c-smt2"

MINIATURES: Final[dict[str, Miniature]] = {
    "splits-cores": Miniature(SplitsCores, "packing/whole-core"),
    "forgets-to-give-back": Miniature(ForgetsToGiveBack, "pool/deletion-returns-cpus"),
    "trusts-its-state": Miniature(TrustsItsState, "machine/cpu-upgrade-incident"),
    "ignores-full-pcpus-only": Miniature(
        IgnoresWholeCores, "options/full-pcpus-partial-core-is-rejected"
    ),
    "hangs-over-odd-requests": Miniature(
        HangsOverOddRequests, "options/full-pcpus-partial-core-is-rejected"
    ),
    "ends-with-half-cores": Miniature(EndsWithHalfCores, "options/numa-distribution-may-hang"),
    "keeps-a-cpu-shared": Miniature(KeepsACPUShared, "options/strict-empties-the-pool"),
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
    "pins-pods-with-pod-level-resources": Miniature(
        PinsPodsWithPodLevelResources,
        "pod-level/no-exclusive-cpus-by-default",
        machine=_TWO_NODES,
        also=("pod-level/restricted-admits-it-by-default",),
    ),
    "overlooks-empty-resources": Miniature(
        None,
        "pod-level/empty-resources-make-best-effort",
        overrides=("empty-pod-level-ignored",),
    ),
    "fills-no-requests-in": Miniature(
        None,
        "pod-level/limits-are-requests-too",
        machine=_TWO_NODES,
        overrides=("pod-level-requests-not-filled-in",),
    ),
    "reads-state-of-any-gate": Miniature(
        None,
        "pod-level/gate-off-refuses-the-state",
        machine=_TWO_NODES,
        overrides=("state-with-data",),
    ),
    "shares-exclusive-cpus": Miniature(
        SharesExclusiveCPUs,
        "pod-level/pod-scope-shares-one-pool",
        machine=_TWO_NODES,
        also=("pod-level/init-containers-use-the-pool",),
    ),
    "keeps-the-pool": Miniature(
        KeepsThePool, "pod-level/deletion-returns-the-pool", machine=_TWO_NODES
    ),
    "admits-empty-pools": Miniature(
        AdmitsEmptyPools,
        "pod-level/empty-shared-pool-is-refused",
        machine=_TWO_NODES,
        also=(
            "pod-level/no-cpu-for-init-is-refused",
            "pod-level/restricted-names-pod-level-resources",
        ),
    ),
    "rounds-the-pod-up": Miniature(
        RoundsThePodUp, "pod-level/odd-total-gets-nothing", machine=_TWO_NODES
    ),
    "keeps-its-pool": Miniature(
        KeepsItsPool,
        "pod-level/restart-takes-another-pool",
        machine=_TWO_NODES,
        also=("pod-level/restart-refuses-a-shared-pool",),
    ),
    "pools-under-any-scope": Miniature(
        PoolsUnderAnyScope,
        "pod-level/container-scope-has-no-pool",
        machine=_TWO_NODES,
        also=("pod-level/policy-none-has-no-pool",),
    ),
    "splits-cores-of-pods": Miniature(
        SplitsCoresOfPods, "pod-level/full-pcpus-applies-to-the-pod", machine=_TWO_NODES
    ),
    "makes-empty-resources-count": Miniature(
        None,
        "pod-level/empty-resources-are-ignored",
        overrides=("empty-pod-level-ignored=off",),
        release="1.37",
    ),
    "fills-requests-in": Miniature(
        None,
        "pod-level/limits-alone-are-burstable",
        machine=_TWO_NODES,
        overrides=("pod-level-requests-not-filled-in=off",),
        release="1.37",
    ),
    "refuses-state-of-another-gate": Miniature(
        None,
        "pod-level/gate-off-keeps-the-state",
        machine=_TWO_NODES,
        overrides=("state-with-data=off",),
        release="1.37",
    ),
    "forgets-baselines": Miniature(
        None, "state/first-cpus-are-remembered", manager=ForgetsBaselines, release="1.37"
    ),
    "tells-once": Miniature(
        None,
        "reconcile/every-round-repairs-a-changed-cpuset",
        overrides=("updated-on-change",),
        release="1.20",
    ),
    "gives-reserved-away": Miniature(
        GivesReservedAway,
        "uneven/only-free-cpus-are-given",
        machine="1s-1n-4c-smt2-off7",
        release="1.20",
    ),
    "keeps-the-dead": Miniature(
        None, "restart/reboot-may-move-pods", manager=KeepsTheDead, release="1.17"
    ),
    "lends-init-cpus": Miniature(
        None,
        "init/ended-container-is-given-cpus-again",
        overrides=("keyed-by-pod",),
        release="1.17",
    ),
    "mends-uneven-cores": Miniature(
        None,
        "uneven/reserved-cpu-is-given-away",
        machine="1s-1n-4c-smt2-off7",
        also=("uneven/busy-cpu-is-given-away",),
        overrides=("true-sizes",),
    ),
    "plain-words": Miniature(
        None,
        "pod-level/restricted-names-pod-level-resources",
        machine=_TWO_NODES,
        also=("pod-level/container-scope-refuses",),
        topology_manager=PlainWords,
    ),
}


def miniature(name: str, *, release: str | None = None) -> ReferenceSubject:
    """The subject ``miniature:NAME``, of its own release unless another is given; raises
    :class:`SubjectUsageError` for a name that is none."""
    found = MINIATURES.get(name)
    if found is None:
        known = ", ".join(MINIATURES)
        raise SubjectUsageError(f"unknown miniature {name!r}: there are {known}")
    return ReferenceSubject(
        f"miniature:{name}", release=release or found.release, make=partial(_node, found)
    )


def _node(
    wrong: Miniature,
    trees: Callable[[str], Mapping[str, str]],
    machine: str,
    config: KubeletConfig,
    release: str,
) -> Node:
    def policy(topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease) -> Policy:
        right = make_policy(topology, config, release=release)
        if wrong.policy is None or not isinstance(right, StaticPolicy):
            return right
        return wrong.policy(
            right.topology,
            right.reserved,
            release=release,
            options=right.options,
            pod_managers=right.pod_managers,
        )

    return Node(
        trees,
        machine,
        config,
        release="+".join([release, *wrong.overrides]),
        policy_factory=policy,
        manager_factory=wrong.manager,
        topology_manager_factory=wrong.topology_manager,
        discovering=info_of,
    )
