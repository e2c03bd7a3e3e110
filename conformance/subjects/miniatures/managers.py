"""CPU managers and Topology Managers that are wrong in one way each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from operator import and_

from reference import NEWEST, CPUManager, CPUSet
from reference.cpumanager.before_1_18 import ManagerByContainer
from reference.cpumanager.state.state_checkpoint import Checkpoint, parse_leniently
from reference.cpumanager.state.state_mem import State, assigned
from reference.errors import CheckpointError, ConfigurationError, TopologyAffinityError
from reference.machine.machineinfo import MachineInfo
from reference.releases import AnyRelease
from reference.steps import Container, Kind, KubeletConfig, Pod
from reference.topologymanager.hint import Hint
from reference.topologymanager.policy import Merger
from reference.topologymanager.policy_options import TopologyOptions
from reference.topologymanager.topology_manager import HintProvider, TopologyManager, affinity_error


class ForgetsBaselines(CPUManager):
    """Remembers the CPUs that containers hold, and not those that they were given first."""

    def restore(self, state_file: str | None, containers: Mapping[str, tuple[str, str]]) -> State:
        state = super().restore(state_file, containers)
        state.keeps_baselines, state.baselines = False, {}
        return state


class DropsPoolsOfOldFiles(CPUManager):
    """Ignores the CPUs of whole pods in a state file of 1.36."""

    def restore(self, state_file: str | None, containers: Mapping[str, tuple[str, str]]) -> State:
        state = super().restore(state_file, containers)
        if '"data":' not in (state_file or ""):
            state.pod_entries = {}
        return state


class KeepsTheDead(ManagerByContainer):
    """Never finds that a container has gone."""

    def remove_stale(self, known: Iterable[str | None]) -> None:
        """Nothing is stale."""


class PlainWords(TopologyManager):
    """Refuses a pod with pod-level resources with the text for other pods."""

    def refusal(self, pod: Pod) -> TopologyAffinityError:
        return affinity_error(NEWEST)


class AllocatesAgain(CPUManager):
    """Reads its state file, and gives all CPUs back before it admits the pods again."""

    def restore(self, state_file: str | None, containers: Mapping[str, tuple[str, str]]) -> State:
        state = super().restore(state_file, containers)
        state.set_default(state.default | assigned(state.entries))
        for uid, name in [(uid, name) for uid, named in state.entries.items() for name in named]:
            state.delete(uid, name)
        return state


class DropsInitEntries(CPUManager):
    """At a start, drops the state file's entries of init containers."""

    def allocate(self, pod: Pod, container: Container, hint: Hint | None = None) -> None:
        if container.kind is Kind.INIT and self.state.get(pod.uid, container.name) is not None:
            self.policy.remove_container(self.state, pod.uid, container.name)
        else:
            super().allocate(pod, container, hint)


class BelievesAnyFile(CPUManager):
    """Restores what it can read of a damaged state file, or starts with a new file."""

    def restore(self, state_file: str | None, containers: Mapping[str, tuple[str, str]]) -> State:
        try:
            return super().restore(state_file, containers)
        except CheckpointError:
            default, entries = parse_leniently(state_file, release=self._release)
            if not default:
                return State.fresh(self.policy.name)
            return State.restored(Checkpoint(self.policy.name, default, entries))


class NeverUpdates(CPUManager):
    """Never updates the cpuset of a running container."""

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        """A round sends to those that :meth:`reached` names."""
        names = {
            (pod.uid, one.name)
            for pod in self.active_pods()
            for one in self.reached(pod.containers)
        }
        return super().reconcile(lambda uid, name: (uid, name) in names and running(uid, name))

    def reached(self, containers: Sequence[Container]) -> Sequence[Container]:
        """The containers of a pod that it sends changes to."""
        return ()


class UpdatesTheFirst(NeverUpdates):
    """Sends changes of the shared pool only to the first app container of each pod."""

    def reached(self, containers: Sequence[Container]) -> Sequence[Container]:
        return [one for one in containers if one.kind is Kind.APP][:1]


class UpdatesNoSidecars(NeverUpdates):
    """Sends changes of the shared pool only to app containers."""

    def reached(self, containers: Sequence[Container]) -> Sequence[Container]:
        return [one for one in containers if one.kind is Kind.APP]


def _listed(manager: CPUManager) -> set[tuple[str, str]]:
    """Pod uid and name of every container but the ephemeral ones."""
    return {(pod.uid, one.name) for pod in manager.active_pods() for one in pod.containers}


class LendsToEphemeral(CPUManager):
    """Starts ephemeral containers on the exclusive CPUs of their pod."""

    def affinity(self, uid: str, container: str) -> CPUSet:
        if (uid, container) in _listed(self):
            return super().affinity(uid, container)
        return assigned({uid: self.state.entries.get(uid, {})})


class StartsAnywhere(CPUManager):
    """Starts ephemeral containers without a cpuset."""

    def affinity(self, uid: str, container: str) -> CPUSet:
        if (uid, container) in _listed(self):
            return super().affinity(uid, container)
        return CPUSet()


class StartsInitAnywhere(CPUManager):
    """Starts init containers without a cpuset."""

    def affinity(self, uid: str, container: str) -> CPUSet:
        pods = (pod for pod in self.active_pods() if pod.uid == uid)
        inits = {one.name for pod in pods for one in pod.containers if one.kind is Kind.INIT}
        return CPUSet() if container in inits else super().affinity(uid, container)


class VisitsEphemeral(CPUManager):
    """Sends changes of the shared pool to ephemeral containers too."""

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        """Every container that it has started, and that runs."""
        sent = super().reconcile(running)
        others = [key for key in sorted(self._known - _listed(self)) if running(*key)]
        return [*sent, *((*key, self.affinity(*key)) for key in others)]


class UpdatesWhatShrinks(CPUManager):
    """Updates a container's cpuset when the container loses CPUs, and not when it gains CPUs."""

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        before = dict(self._last_sent)
        sent = super().reconcile(running)
        everything = CPUSet(range(4096))
        return [
            (uid, name, cpus)
            for uid, name, cpus in sent
            if not cpus > before.get((uid, name), everything)
        ]


class LosesACPUAtRestarts(CPUManager):
    """Reads its state file without the last CPU of the shared pool."""

    def restore(self, state_file: str | None, containers: Mapping[str, tuple[str, str]]) -> State:
        state = super().restore(state_file, containers)
        if state.default:
            state.default -= CPUSet([max(state.default)])
        return state


class LiftsQuotasOfPods(CPUManager):
    """Lifts the CFS quota of every container of a pod if one of them has exclusive CPUs."""

    def isolates(self, pod: Pod, container: Container) -> bool:
        return any(super(LiftsQuotasOfPods, self).isolates(pod, one) for one in pod.containers)


class KeepsQuotasOfPods(CPUManager):
    """Gives every container of a pod with pod-level resources a CFS quota."""

    def isolates(self, pod: Pod, container: Container) -> bool:
        return pod.resources is None and super().isolates(pod, container)


class ReturnsPoolsEarly(CPUManager):
    """Takes back the CPUs that a pod holds as a whole when one of its containers has ended."""

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        """An app container that has ended is removed, and so are its pod's others."""
        for pod in self.active_pods():
            apps = [one for one in pod.containers if one.kind is Kind.APP]
            some = [one for one in apps if running(pod.uid, one.name)]
            if some and len(some) < len(apps) and pod.uid in self.state.pod_entries:
                for one in pod.containers:
                    self.remove_container(pod.uid, one.name)
        return super().reconcile(running)


class CountsNoNUMANode(CPUManager):
    """Never counts exclusive CPUs by NUMA node, nor containers by the source of their CPUs."""

    def allocate(self, pod: Pod, container: Container, hint: Hint | None = None) -> None:
        super().allocate(pod, container, hint)
        self.metrics = self.metrics._replace(per_numa={}, allocations={}, assignments={})

    def allocate_pod(self, pod: Pod, hint: Hint | None = None) -> None:
        super().allocate_pod(pod, hint)
        self.metrics = self.metrics._replace(per_numa={}, allocations={}, assignments={})


class CountsKnownContainersAgain(CPUManager):
    """Counts the CPUs of a container once more whenever its pod is admitted again."""

    def allocate(self, pod: Pod, container: Container, hint: Hint | None = None) -> None:
        known = len(self.state.get(pod.uid, container.name) or ())
        super().allocate(pod, container, hint)
        pool, exclusive = self.metrics.pool - known, self.metrics.exclusive + known
        self.metrics = self.metrics._replace(pool=pool, exclusive=exclusive)


class HintsBeforeTaking(TopologyManager):
    """Decides on the NUMA nodes of all containers of a pod before the first takes its CPUs."""

    def admit(self, pod: Pod, *providers: HintProvider) -> None:
        """Under scope container; what an earlier container takes is not counted."""
        if self.scope == "pod":
            super().admit(pod, *providers)
            return
        near = self.affinities(pod, *providers)
        for container in pod.containers:
            for one in providers:
                one.allocate(pod, container, near[container.name])


class ChoosesTheNarrowest(TopologyManager):
    """Chooses the fewest NUMA nodes where no hint is preferred."""

    def merged(self, every: Sequence[list[Hint] | None]) -> Hint:
        """Of those that hints of all resources have in common."""
        best = super().merged(every)
        if best.preferred or best.nodes is None:
            return best
        lists = [[one.nodes for one in hints or () if one.nodes is not None] for hints in every]
        common = [reduce(and_, nodes) for nodes in product(*filter(None, lists))]
        return Hint(min(filter(None, common), key=_width), preferred=False)


def _width(nodes: int) -> tuple[int, int]:
    """Fewer NUMA nodes before more, and then the last before the first."""
    return nodes.bit_count(), -nodes


class GivesUpWithoutPreference(TopologyManager):
    """Takes CPUs of any NUMA nodes where no hint is preferred."""

    def merged(self, every: Sequence[list[Hint] | None]) -> Hint:
        best = super().merged(every)
        return best if best.preferred else Hint(self._merger.every, preferred=False)


class HeedsDistancesOfPreferredHints(TopologyManager):
    """Where no hint is preferred, looks past the distances of NUMA nodes."""

    def merged(self, every: Sequence[list[Hint] | None]) -> Hint:
        best, merger = super().merged(every), self._merger
        if best.preferred:
            return best
        self._merger = replace(merger, distances=None)
        try:
            return super().merged(every)
        finally:
            self._merger = merger


class _FromTheFirst(Merger):
    """Its distance of several NUMA nodes is that from the first one to all of them."""

    def _distance(self, nodes: int) -> float:
        ids = [one for one in range(nodes.bit_length()) if nodes >> one & 1]
        first = (self.distances or {})[ids[0]]
        return sum(first[other] for other in ids) / len(ids)


class MeasuresFromTheFirstNode(TopologyManager):
    """Takes NUMA nodes for close that are close to the first of them."""

    def __init__(
        self, info: MachineInfo, config: KubeletConfig, *, release: AnyRelease = NEWEST
    ) -> None:
        super().__init__(info, config, release=release)
        self._merger = _FromTheFirst(self._merger.every, self._merger.distances, release)


class _ByTheLowest(Merger):
    """Of masks that are as wide as each other, the one with the lowest node is the better one."""

    def merge(self, lists: Sequence[Sequence[Hint]]) -> Hint:
        return self._merge(lists)

    def _fitter(self, new: int, old: int) -> bool:
        if new.bit_count() == old.bit_count() and new & -new != old & -old:
            return new & -new < old & -old
        return super()._fitter(new, old)


class PrefersTheLowestNode(TopologyManager):
    """Takes the pair of NUMA nodes that has the lowest one, not the one of the lower mask."""

    def __init__(
        self, info: MachineInfo, config: KubeletConfig, *, release: AnyRelease = NEWEST
    ) -> None:
        super().__init__(info, config, release=release)
        self._merger = _ByTheLowest(self._merger.every, self._merger.distances, release)


class LimitsIdsOfNodes(TopologyManager):
    """Refuses NUMA nodes by their ids as well, where these reach the limit of their number."""

    def _require_few_nodes(self, info: MachineInfo, options: TopologyOptions) -> None:
        super()._require_few_nodes(info, options)
        if max(info.numa_node_ids) >= options.max_numa_nodes:
            raise ConfigurationError(
                f"unsupported on machines with more than {options.max_numa_nodes} NUMA Nodes"
            )


class AcceptsAnyNumberOfNodes(TopologyManager):
    """Starts on any number of NUMA nodes."""

    def _require_few_nodes(self, info: MachineInfo, options: TopologyOptions) -> None:
        """They are not counted."""
