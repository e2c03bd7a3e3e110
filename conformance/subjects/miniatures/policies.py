"""Static policies that are wrong in one way each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reference import CPUSet, CPUTopology
from reference.cpumanager.cpu_assignment import take_by_topology
from reference.cpumanager.policy_static import StaticPolicy
from reference.cpumanager.state.state_mem import State
from reference.errors import (
    AllocationError,
    AllocationHangs,
    EmptyPodSharedPoolError,
    NotEnoughCPUs,
    SMTAlignmentError,
)
from reference.pods.pod_level_resources import empty_pool_fault
from reference.pods.qos import cpu_request, exclusive_cpus, pod_milli_cpus
from reference.steps import Container, Kind, Pod
from reference.topologymanager.hint import Hint


class SplitsCores(StaticPolicy):
    """Takes the lowest CPUs and never looks at cores, sockets or NUMA nodes."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        """Refuses like the real one, and then counts off."""
        super().take(available, count, hint_nodes)
        return CPUSet(list(available)[:count])


class ForgetsToGiveBack(StaticPolicy):
    """Drops a container's entry, but does not return its CPUs to the shared pool."""

    def remove_container(self, state: State, uid: str, container: str) -> None:
        if state.get(uid, container) is not None:
            state.delete(uid, container)


class MovesCPUsWithResizes(StaticPolicy):
    """Takes other CPUs for a container whose request is no longer as many as it holds."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        held = state.get(pod.uid, container.name)
        if held is not None and len(held) != self.count(pod, container):
            self.remove_container(state, pod.uid, container.name)
        super().allocate(state, pod, container, hint)


class TrustsItsState(StaticPolicy):
    """Starts on any state file that it can read, whatever CPUs the machine has now."""

    def validate(self, state: State) -> None:
        """Nothing is compared."""


class IgnoresWholeCores(StaticPolicy):
    """Accepts full-pcpus-only, and admits requests that break it."""

    def require_whole_cores(self, state: State, count: int) -> None:
        """Nothing is required."""


class HangsOverOddRequests(StaticPolicy):
    """Searches for whole cores for ever where the request is not a multiple of a core's size."""

    def require_whole_cores(self, state: State, count: int) -> None:
        try:
            super().require_whole_cores(state, count)
        except SMTAlignmentError as error:
            raise AllocationHangs(f"{error}, and the search goes on") from error


class EndsWithHalfCores(StaticPolicy):
    """Takes the lowest CPUs where its search for whole cores would not end."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        try:
            return super().take(available, count, hint_nodes)
        except AllocationHangs:
            return CPUSet(list(available)[:count])


class IgnoresTheHint(StaticPolicy):
    """Ignores the Topology Manager's choice of NUMA nodes when it takes CPUs."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        super().allocate(state, pod, container, None)


class ForgetsInitContainers(StaticPolicy):
    """Leaves the CPUs of init containers out of its hints, and reuses these CPUs afterwards."""

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        lent, self._reusable = self._reusable, ("", CPUSet())
        try:
            return super().hints(state, pod, container)
        finally:
            self._reusable = lent


def preferring_fewest(hints: Sequence[Hint]) -> list[Hint]:
    """The same hints, of which those with the fewest NUMA nodes are preferred."""
    least = min((one.nodes.bit_count() for one in hints if one.nodes), default=0)
    return [
        Hint(one.nodes, one.nodes is not None and one.nodes.bit_count() == least) for one in hints
    ]


class PrefersWhatIsLeft(StaticPolicy):
    """Prefers the hints with the fewest NUMA nodes, even if an empty machine would need fewer."""

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        return preferring_fewest(super().hints(state, pod, container) or []) or None


class ForgetsWhoHolds(StaticPolicy):
    """Gives the hints for a running pod from free CPUs, as if the pod held none."""

    def pod_hints(self, state: State, pod: Pod) -> list[Hint] | None:
        blank = state.copy()
        blank.entries.pop(pod.uid, None)
        return super().pod_hints(blank, pod)


class ForgetsWhatInitHoldsOfPods(StaticPolicy):
    """Gives the hints for a running pod as if its init containers held nothing."""

    def pod_hints(self, state: State, pod: Pod) -> list[Hint] | None:
        seen = state.copy()
        init = {one.name for one in pod.containers if one.kind is Kind.INIT}
        if pod.uid in seen.entries:
            held = seen.entries[pod.uid].items()
            seen.entries[pod.uid] = {name: cpus for name, cpus in held if name not in init}
        return super().pod_hints(seen, pod)


class ForgetsHeldContainers(StaticPolicy):
    """Gives the hints for a running container from free CPUs, as if it held none."""

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        blank = state.copy()
        blank.entries.pop(pod.uid, None)
        return super().hints(blank, pod, container)


class TakesTheLastOfEquals(StaticPolicy):
    """Takes CPUs of the last of several NUMA nodes with the same room, not of the first."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        """What has to be spread over several NUMA nodes is taken as it should be."""
        taken = super().take(available, count, hint_nodes)
        nodes = self.topology.numa_masks
        free = {one: available & self.topology.cpus_in_numa_nodes(one) for one in nodes}
        chosen = self.topology.numa_node_ids(taken)
        if len(chosen) != 1:
            return taken
        last = max(one for one in free if len(free[one]) == len(free[chosen[0]]))
        return super().take(free[last], count, hint_nodes)


class ForgetsWhatInitHolds(StaticPolicy):
    """After a restart, does not offer an init container's CPUs to its pod's app containers."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        if state.get(pod.uid, container.name) is None:
            super().allocate(state, pod, container, hint)


class AlignsSharedContainers(StaticPolicy):
    """Gives hints for containers without exclusive CPUs too, and prefers one NUMA node."""

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        """Every set of NUMA nodes has the no CPUs that such a container needs."""
        if self.count(pod, container):
            return super().hints(state, pod, container)
        nodes = [1 << numa for numa in sorted(self.topology.numa_masks)]
        return [*(Hint(one, preferred=True) for one in nodes), Hint(sum(nodes), preferred=False)]


class PinsPodsWithPodLevelResources(StaticPolicy):
    """Gives exclusive CPUs to containers of pods with pod-level resources too."""

    def count(self, pod: Pod, container: Container) -> int:
        return exclusive_cpus(pod, container)


class SharesExclusiveCPUs(StaticPolicy):
    """Lets every container of a pod that holds CPUs as a whole run on all these CPUs."""

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        super().allocate_pod(state, pod, hint)
        if pod.uid in state.pod_entries:
            for name in list(state.entries[pod.uid]):
                state.set(pod.uid, name, state.pod_entries[pod.uid])


class KnowsTheLastSidecar(StaticPolicy):
    """Deals out what a pod holds as a whole as if its last sidecar were the only one that stays."""

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        sidecars = [one for one in pod.containers if one.kind is Kind.SIDECAR]
        dealt = (
            replace(one, kind=Kind.INIT) if one in sidecars[:-1] else one for one in pod.containers
        )
        super().allocate_pod(state, replace(pod, containers=tuple(dealt)), hint)


class KeepsThePool(StaticPolicy):
    """Takes back the CPUs of containers, and not the other CPUs that their pod held as a whole."""

    def remove_container(self, state: State, uid: str, container: str) -> None:
        self.pod_managers, on = False, self.pod_managers
        try:
            super().remove_container(state, uid, container)
        finally:
            self.pod_managers = on
        if uid not in state.entries and uid in state.pod_entries:
            state.delete_pod(uid)


class AdmitsEmptyPools(StaticPolicy):
    """Admits a pod whose exclusive containers leave no CPU for its other containers."""

    def pod_hints(self, state: State, pod: Pod) -> list[Hint] | None:
        return super().pod_hints(state, self._without_shared(pod))

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        super().allocate_pod(state, self._without_shared(pod), hint)

    def _without_shared(self, pod: Pod) -> Pod:
        """The pod's exclusive containers; the whole pod where that leaves it CPUs to share."""
        counts = self.counts(pod)
        if sum(counts.values()) < self.total(pod, counts):
            return pod
        kept = tuple(one for one in pod.containers if counts[one.name])
        return replace(pod, containers=kept)


class RoundsThePodUp(StaticPolicy):
    """Rounds a pod's fractional number of CPUs up to the next whole number."""

    def total(self, pod: Pod, counts: Mapping[str, int]) -> int:
        if not self.serves_whole(pod):
            return super().total(pod, counts)
        return -(-pod_milli_cpus(pod) // 1000)


class PoolsUnderAnyScope(StaticPolicy):
    """Gives a pod CPUs as a whole whatever the Topology Manager's scope is."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        if not self.serves_whole(pod):
            super().allocate(state, pod, container, hint)
        elif pod.uid not in state.pod_entries:
            self.allocate_pod(state, pod, hint)


class SplitsCoresOfPods(StaticPolicy):
    """Requires whole cores for the CPUs of a container, and not for the CPUs of a whole pod."""

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        options, self.options = self.options, replace(self.options, full_pcpus_only=False)
        try:
            super().allocate_pod(state, pod, hint)
        finally:
            self.options = options


class GivesReservedAway(StaticPolicy):
    """Treats reserved CPUs as free CPUs."""

    def available(self, state: State) -> CPUSet:
        return state.default


class KeepsACPUShared(StaticPolicy):
    """Refuses a request that takes the pool's last CPU, as pull request 141197 proposes."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        if count >= len(available):
            raise NotEnoughCPUs(count, len(available) - 1)
        return super().take(available, count, hint_nodes)


class LendsInitCPUsTwice(StaticPolicy):
    """Offers the CPUs of an init container to every app container of its pod."""

    def reusable_after(self, before: CPUSet, container: Container, cpus: CPUSet) -> CPUSet:
        if container.kind is Kind.APP:
            return before
        return super().reusable_after(before, container, cpus)


class LendsInitCPUsToAll(StaticPolicy):
    """Offers the CPUs of an init container to the pod that is admitted next."""

    def reusable(self, pod: Pod) -> CPUSet:
        return self._reusable[1]


class ErasesSiblings(StaticPolicy):
    """Enters a container's CPUs and drops the entries of its pod's other containers."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """One entry a pod; CPUs of the others return to the pool."""
        super().allocate(state, pod, container, hint)
        held = state.get(pod.uid, container.name)
        for name in set(state.entries.get(pod.uid, {})) - {container.name} if held else ():
            state.set_default(state.default | state.entries[pod.uid][name] - (held or CPUSet()))
            state.delete(pod.uid, name)


class IgnoresLaterHints(StaticPolicy):
    """Ignores the hint for the second and later containers of a pod."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        super().allocate(state, pod, container, hint if container == pod.containers[0] else None)


class KnowsTwoNodesAtMost(StaticPolicy):
    """Gives no hint with more than two NUMA nodes."""

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        hints = super().hints(state, pod, container)
        return hints and [one for one in hints if (one.nodes or 0).bit_count() < 3]


class WeighsLaterContainers(StaticPolicy):
    """Refuses a pod whose exclusive containers leave no CPU for an init container that ends before
    they start."""

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        last = sorted(pod.containers, key=lambda one: one.kind is Kind.INIT)
        counts = self.counts(pod)
        turned = replace(pod, containers=tuple(last))
        if fault := empty_pool_fault(turned, self.total(pod, counts), counts):
            raise EmptyPodSharedPoolError(fault)
        super().allocate_pod(state, pod, hint)


class RefusesWithoutOneCache(StaticPolicy):
    """Under prefer-align-cpus-by-uncorecache, refuses what would fit in one empty uncore cache and
    fits in none now."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        taken = super().take(available, count, hint_nodes)
        caches = map(CPUSet.of_mask, self.topology.uncore_masks.values())
        fits = any(count <= len(one) for one in caches)
        if self.options.prefer_uncore_cache and fits and not self.is_in_one_cache(taken):
            raise AllocationError(f"no uncore cache has {count} CPUs")
        return taken


class StartsWithTheLastCache(StaticPolicy):
    """Under prefer-align-cpus-by-uncorecache, takes CPUs of the uncore cache with the highest id
    that has room."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        caches = [*map(CPUSet.of_mask, self.topology.uncore_masks.values())]
        if self.options.prefer_uncore_cache:
            roomy = [one & available for one in caches if len(one & available) >= count]
            available = roomy[-1] if roomy else available
        return super().take(available, count, hint_nodes)


class SumsWithoutInit(StaticPolicy):
    """Under scope pod, leaves init containers out of what a pod needs."""

    left_out = Kind.INIT

    def total(self, pod: Pod, counts: Mapping[str, int]) -> int:
        kept = tuple(one for one in pod.containers if one.kind is not self.left_out)
        return super().total(replace(pod, containers=kept), counts)


class SumsWithoutSidecars(SumsWithoutInit):
    """Under scope pod, leaves sidecars out of what a pod needs."""

    left_out = Kind.SIDECAR


class AddsUpInit(StaticPolicy):
    """Under scope pod, asks for all init containers of a pod together."""

    def total(self, pod: Pod, counts: Mapping[str, int]) -> int:
        together = sum(counts[one.name] for one in pod.containers if one.kind is Kind.INIT)
        return max(together, super().total(pod, counts))


class DealsTheRemainderElsewhere(StaticPolicy):
    """Takes the remainder of an even distribution from a NUMA node that has no share in it."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        taken = super().take(available, count, hint_nodes)
        if not self.options.distribute_across_numa:
            return taken
        parts = {
            numa: taken & self.topology.cpus_in_numa_nodes(numa)
            for numa in self.topology.numa_masks
        }
        least = min((len(part) for part in parts.values() if part), default=0)
        over = CPUSet(cpu for part in parts.values() for cpu in list(part)[least:])
        idle = [numa for numa, part in parts.items() if not part]
        spare = list(available & self.topology.cpus_in_numa_nodes(*idle))[: len(over)]
        return taken - over | CPUSet(spare) if len(spare) == len(over) else taken


class BreaksAFurtherCache(StaticPolicy):
    """Takes what whole uncore caches leave of a request from another cache that is free as a
    whole."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        taken = super().take(available, count, hint_nodes)
        if not self.options.prefer_uncore_cache:
            return taken
        caches = [CPUSet.of_mask(mask) for mask in self.topology.uncore_masks.values()]
        rest = taken - CPUSet(cpu for one in caches if one <= taken for cpu in one)
        free = [one for one in caches if one <= available - taken]
        if not free or rest == taken:
            return taken
        return taken - rest | CPUSet(list(free[0])[: len(rest)])


class OrdersCoresBySocket(StaticPolicy):
    """Sorts the cores of a socket by their own free CPUs alone, as 1.22 does, and not those of each
    NUMA node."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        if self.options.strategy != "packed":
            return super().take(available, count, hint_nodes)
        return take_by_topology(self.topology, available, count, release="1.22")


class SpreadsByWhatIsFree(StaticPolicy):
    """Spreads a request over two NUMA nodes that is more than half of all that is free, though one
    has room for it."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        taken = _halves(self.topology, available, count)
        is_large = self.options.distribute_across_numa and 2 * count > len(available)
        if is_large and len(taken) == count:
            return taken
        return super().take(available, count, hint_nodes)


class PacksOverEveryNode(StaticPolicy):
    """Under distribute-cpus-across-numa, packs a request that takes CPUs of each of three or more
    NUMA nodes with free CPUs."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        taken = super().take(available, count, hint_nodes)
        spread, free = map(self.topology.numa_node_ids, (taken, available))
        if self.options.distribute_across_numa and spread == free and len(free) > 2:
            return take_by_topology(self.topology, available, count, release=self.release)
        return taken


class SpreadsOverUnevenNodes(StaticPolicy):
    """Under distribute-cpus-across-numa, spreads a request over two NUMA nodes of different sizes
    that is larger than a NUMA node is on average."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        taken = _halves(self.topology, available, count)
        sizes = {mask.bit_count() for mask in self.topology.numa_masks.values()}
        is_large = count > len(self.topology.cpus) // len(self.topology.numa_masks)
        is_spread = self.options.distribute_across_numa and len(sizes) > 1 and is_large
        if is_spread and len(taken) == count:
            return taken
        return super().take(available, count, hint_nodes)


class PacksLargeRequests(StaticPolicy):
    """Under distribute-cpus-across-cores, packs a request for more CPUs than a socket has cores."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        topology = self.topology
        is_large = count > topology.num_cores // len(topology.socket_masks)
        if self.options.strategy == "spread" and is_large:
            return take_by_topology(topology, available, count, release=self.release)
        return super().take(available, count, hint_nodes)


class AveragesUncoreCaches(StaticPolicy):
    """Takes an uncore cache as a whole where as many of its CPUs are free as caches have on
    average."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        masks = self.topology.uncore_masks.values()
        average = len(self.topology.cpus) // max(len(masks), 1)
        for mask in masks if self.options.strategy == "uncore" else ():
            size, free = mask.bit_count(), (mask & available.mask).bit_count()
            if size != average == free and size <= count:
                cache = CPUSet.of_mask(mask)
                return cache | super().take(available - cache, count - size, hint_nodes)
        return super().take(available, count, hint_nodes)


class AlignsToOneSocket(StaticPolicy):
    """Under align-by-socket, takes CPUs of one socket of a hint first, and then any."""

    def take_near(self, available: CPUSet, count: int, hint: Hint | None) -> CPUSet:
        if hint is not None and hint.nodes and self.options.align_by_socket:
            hint = hint._replace(nodes=hint.nodes & -hint.nodes)
        return super().take_near(available, count, hint)


class SpreadsAFullNode(StaticPolicy):
    """Under distribute-cpus-across-numa, spreads a request that is as large as a NUMA node over
    two."""

    def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
        taken = _halves(self.topology, available, count)
        sizes = {mask.bit_count() for mask in self.topology.numa_masks.values()}
        if self.options.distribute_across_numa and sizes == {count} and len(taken) == count:
            return taken
        return super().take(available, count, hint_nodes)


def _halves(topology: CPUTopology, available: CPUSet, count: int) -> CPUSet:
    """Half of so many CPUs of each NUMA node."""
    halves = [
        list(available & topology.cpus_in_numa_nodes(numa))[: count // 2]
        for numa in topology.numa_masks
    ]
    return CPUSet(cpu for half in halves for cpu in half)


class IgnoresSocketsNearHints(StaticPolicy):
    """Under align-by-socket, takes only CPUs of the hint's NUMA nodes."""

    def take_near(self, available: CPUSet, count: int, hint: Hint | None) -> CPUSet:
        options, self.options = self.options, replace(self.options, align_by_socket=False)
        try:
            return super().take_near(available, count, hint)
        finally:
            self.options = options


class PinsWholeRequests(StaticPolicy):
    """Gives CPUs to any container that requests a whole number of them, whatever its QoS class."""

    def count(self, pod: Pod, container: Container) -> int:
        request = cpu_request(container)
        return int(request) if request and request % 1 == 0 else super().count(pod, container)


class PinsByCPUsAlone(StaticPolicy):
    """In a pod with pod-level resources, gives CPUs to a container whose cpu limit is its request,
    whatever its memory is."""

    def count(self, pod: Pod, container: Container) -> int:
        if not self.serves_whole(pod) or container.cpu_limit != container.requested_cpu:
            return super().count(pod, container)
        return exclusive_cpus(pod, container)


class PinsUnequalContainers(StaticPolicy):
    """In a pod with pod-level resources, gives CPUs to a container whose limit is above its
    request."""

    def count(self, pod: Pod, container: Container) -> int:
        if not self.serves_whole(pod):
            return super().count(pod, container)
        return exclusive_cpus(pod, container)


class IgnoresStrictReservation(StaticPolicy):
    """Leaves the reserved CPUs in the shared pool under strict-cpu-reservation."""

    def start(self, state: State) -> None:
        self.options = replace(self.options, strict_reservation=False)
        super().start(state)


class AcceptsAnyReservedCPUs(StaticPolicy):
    """Starts on a state file whose shared pool contradicts the reserved CPUs."""

    def _validate_reserved(self, default: CPUSet) -> None:
        """Nothing is compared."""


class AcceptsSomeReservedCPUs(StaticPolicy):
    """Starts on a state file if its shared pool has one of the reserved CPUs."""

    def _validate_reserved(self, default: CPUSet) -> None:
        if self.reserved.isdisjoint(default):
            super()._validate_reserved(default)


class DropsUnwrittenEntries(StaticPolicy):
    """Forgets a container's entry if it cannot write it."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """The CPUs have left the shared pool all the same."""
        fails = state.failures
        super().allocate(state, pod, container, hint)
        if fails:
            state.entries.get(pod.uid, {}).pop(container.name, None)


class EntersBeforeTaking(StaticPolicy):
    """Writes a container's entry before it takes the CPUs from the shared pool."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """What is there in the end is right."""
        trial = state.copy()
        trial.crash = None
        super().allocate(trial, pod, container, hint)
        taken = trial.get(pod.uid, container.name)
        if taken is not None and state.get(pod.uid, container.name) is None:
            state.set(pod.uid, container.name, taken)
            state.set_default(trial.default)
