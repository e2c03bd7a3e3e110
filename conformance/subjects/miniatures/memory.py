"""Memory managers that are wrong in one way each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from typing import Any

from reference.cpuset import CPUSet
from reference.errors import KubeletPanics, MemoryManagerError
from reference.memorymanager.policy_static import MemoryManager, default_machine_state
from reference.memorymanager.state import MEMORY, Amounts, Blocks, State, validate
from reference.pods.pod import Container, Kind, Pod
from reference.pods.qos import memory_request
from reference.pods.quantity import value
from reference.steps import KubeletConfig
from reference.topologymanager.hint import Hint


class IgnoresMemoryHints(MemoryManager):
    """Hands out memory, and gives the Topology Manager no hint."""

    def _hints(self, pod: Pod, held: Blocks | None, requested: Amounts) -> list[Hint] | None:
        return None


class CountsBurstablePods(MemoryManager):
    """Allocates memory to pods that are not Guaranteed too."""

    def _serves(self, pod: Pod) -> bool:
        return True


class NeverRefusesMemory(MemoryManager):
    """Admits pods for which it has no memory."""

    def allocate(self, pod: Pod, container: Container, hint: Hint | None) -> None:
        try:
            super().allocate(pod, container, hint)
        except MemoryManagerError:
            return


class CountsNoRefusedMemory(MemoryManager):
    """Counts no request for memory that it refuses as refused."""

    def allocate(self, pod: Pod, container: Container, hint: Hint | None) -> None:
        try:
            super().allocate(pod, container, hint)
        finally:
            self.errors = 0


class FreesLaterInitMemory(MemoryManager):
    """Forgets the memory of all init containers of a pod once the first of them starts."""

    def add_container(self, uid: str, container: str) -> None:
        for pod in self.active_pods():
            for one in pod.containers if pod.uid == uid else ():
                if one.kind is Kind.INIT and one.name != container:
                    self.state.remove(uid, one.name)


class AsksForTheFirstContainer(MemoryManager):
    """Under scope pod, counts only the memory of a pod's first container."""

    def pod_hints(self, pod: Pod) -> list[Hint] | None:
        return super().pod_hints(replace(pod, containers=pod.containers[:1]))


class BindsEveryContainer(MemoryManager):
    """Gives each container of a pod the hints for the memory of all its containers."""

    def hints(self, pod: Pod, container: Container) -> list[Hint] | None:
        return self.pod_hints(pod)


class LendsNoInitMemory(MemoryManager):
    """Keeps the memory of an init container from its pod's other containers."""

    def _update_reusable(self, pod: Pod, container: Container, blocks: Blocks) -> None:
        """Nothing is used again."""


class RoundsMemoryUp(MemoryManager):
    """Takes a part of a byte for a whole one."""

    def _requested(self, pod: Pod, container: Container) -> Amounts:
        return {MEMORY: value(memory_request(container))}


class ForgetsOwnLentMemory(MemoryManager):
    """Forgets what a pod's own init containers lend where those of an earlier pod have lent some,
    and keeps that of the earlier pod."""

    def _update_reusable(self, pod: Pod, container: Container, blocks: Blocks) -> None:
        others = {key: size for key, size in self._reusable.items() if key[0] != pod.uid}
        self._reusable = others or self._reusable
        super()._update_reusable(pod, container, blocks)
        self._reusable |= others


class LendsMemoryOfSidecars(MemoryManager):
    """Lets app containers use the memory of their pod's sidecars again."""

    def _update_reusable(self, pod: Pod, container: Container, blocks: Blocks) -> None:
        if container.kind is Kind.SIDECAR:
            container = replace(container, kind=Kind.INIT)
        super()._update_reusable(pod, container, blocks)


class ForgetsUpToTheSidecar(MemoryManager):
    """Takes back the memory of ended init containers up to their pod's first sidecar alone."""

    def add_container(self, uid: str, container: str) -> None:
        pods = tuple(self.active_pods())
        self.active_pods, all_pods = lambda: map(_up_to_the_sidecar, pods), self.active_pods
        try:
            super().add_container(uid, container)
        finally:
            self.active_pods = all_pods


def _up_to_the_sidecar(pod: Pod) -> Pod:
    first = takewhile(lambda one: one.kind is not Kind.SIDECAR, pod.containers)
    return replace(pod, containers=tuple(first))


class AddsUpInitMemory(MemoryManager):
    """Under scope pod, asks for the memory of all containers of a pod together."""

    def _pod_total(self, pod: Pod) -> Amounts:
        return sum((Counter(self._requested(pod, one)) for one in pod.containers), Counter())


class SumsMemoryWithoutSidecars(MemoryManager):
    """Under scope pod, leaves the memory of sidecars out of what a pod needs."""

    def _pod_total(self, pod: Pod) -> Amounts:
        kept = tuple(one for one in pod.containers if one.kind is not Kind.SIDECAR)
        return super()._pod_total(replace(pod, containers=kept))


class KeepsMemoryOfTheDead(MemoryManager):
    """Never takes back the memory of a deleted pod."""

    def remove_stale_state(self) -> None:
        """Nothing is stale."""


class KeepsEmptyGroups(MemoryManager):
    """Leaves a NUMA node in its group when the last pod goes, if that pod had no memory there."""

    def remove_stale_state(self) -> None:
        before = {
            node: (each.cells, each.tables[MEMORY].reserved)
            for node, each in self.state.machine.items()
        }
        super().remove_stale_state()
        for node, each in self.state.machine.items():
            cells, reserved = before[node]
            if not each.assignments and not reserved:
                each.cells = cells


class ForgetsMemory(MemoryManager):
    """Starts with all memory of every NUMA node free."""

    def __init__(self, state: State, **how: Any) -> None:
        fresh = state.copy()
        for uid, named in state.blocks.items():
            for name in named:
                fresh.remove(uid, name)
        super().__init__(fresh, **how)


class ComparesEachNodeAlone(MemoryManager):
    """Refuses a state file in which a NUMA node of a group has other memory left than it works
    out."""

    def __init__(self, state: State, **how: Any) -> None:
        sizes = {node: each.tables[MEMORY].allocatable for node, each in state.machine.items()}
        validate(state, default_machine_state(sizes, {}), release="1.26")
        super().__init__(state, **how)


class BindsNoMemory(MemoryManager):
    """Asks the runtime to bind no container's memory to NUMA nodes."""

    def numa_nodes(self, uid: str, container: str) -> CPUSet:
        return CPUSet()


class MixesMemory(MemoryManager):
    """Hands out memory of several NUMA nodes of which one serves a pod alone."""

    def _violating(self) -> Callable[[int], bool]:
        violates = super()._violating()
        return lambda nodes: nodes.bit_count() == 1 and violates(nodes)


class PrefersEveryHint(MemoryManager):
    """Prefers each set of NUMA nodes that has the memory, however many they are."""

    def calculate_hints(self, pod: Pod, requested: Amounts) -> list[Hint]:
        return [one._replace(preferred=True) for one in super().calculate_hints(pod, requested)]


class KeepsEndedInitContainers(MemoryManager):
    """Keeps the entry of an init container that has ended."""

    def add_container(self, uid: str, container: str) -> None:
        """Nothing is removed."""


class ForgetsTheEndedAtOnce(MemoryManager):
    """Forgets the memory of a pod as soon as it is not active any more."""

    @property
    def state(self) -> State:
        if self.sources_ready:
            active = {pod.uid for pod in (*self.active_pods(), *self._last_admitted)}
            for uid in set(self._kept.blocks) - active:
                for name in list(self._kept.blocks[uid]):
                    self._kept.remove(uid, name)
        return self._kept

    @state.setter
    def state(self, state: State) -> None:
        self._kept = state


class SharesMemoryOfSidecars(MemoryManager):
    """Lets the shared containers of a pod have the memory that its sidecars have to themselves."""

    def _partition(self, pod: Pod, total: int) -> dict[str, int]:
        given = super()._partition(pod, total)
        own = {one.name: self._requested(pod, one).get(MEMORY, 0) for one in pod.containers}
        extra = sum(own[one.name] for one in pod.containers if one.kind is Kind.SIDECAR)
        return {name: own[name] or size + extra for name, size in given.items()}


class LeavesNoMemoryToShare(MemoryManager):
    """Admits a pod whose shared containers are left no memory."""

    def _empty_pool_fault(self, pod: Pod, total: Amounts) -> str:
        return ""


class ReportsFreeMemoryAlone(MemoryManager):
    """Reports only free memory as allocatable."""

    def allocate(self, pod: Pod, container: Container, hint: Hint | None) -> None:
        super().allocate(pod, container, hint)
        for node in self.state.machine.values():
            for table in node.tables.values():
                table.allocatable = table.free


class IgnoresHugePages(MemoryManager):
    """Hands out ordinary memory alone, and no huge pages."""

    def _requested(self, pod: Pod, container: Container) -> Amounts:
        return super()._requested(pod, replace(container, huge_pages=()))


class CountsOneSizeOfHugePages(MemoryManager):
    """Looks at one size of huge pages of a container that requests several."""

    def _requested(self, pod: Pod, container: Container) -> Amounts:
        return super()._requested(pod, replace(container, huge_pages=container.huge_pages[:1]))


class TakesNoHugePages(MemoryManager):
    """Looks for free huge pages, and never takes them."""

    def allocate(self, pod: Pod, container: Container, hint: Hint | None) -> None:
        super().allocate(pod, container, hint)
        for node in self.state.machine.values():
            for kind, table in node.tables.items():
                table.free = table.free if kind == MEMORY else table.allocatable


class CountsHugePagesAsMemory(MemoryManager):
    """Hands out the memory of huge pages as ordinary memory too."""

    def __init__(self, state: State, **how: Any) -> None:
        for node in state.machine.values():
            pages = sum(one.allocatable for kind, one in node.tables.items() if kind != MEMORY)
            node.tables[MEMORY].allocatable += pages
            node.tables[MEMORY].free += pages
        super().__init__(state, **how)


class CountsFirstHugePagesAsMemory(MemoryManager):
    """Hands out the memory of huge pages of the first size as ordinary memory too, where there are
    several sizes."""

    def __init__(self, state: State, **how: Any) -> None:
        for node in state.machine.values():
            pages = [one.allocatable for kind, one in node.tables.items() if kind != MEMORY]
            for first in pages[:-1]:
                node.tables[MEMORY].allocatable += first
                node.tables[MEMORY].free += first
        super().__init__(state, **how)


class RefusesMissingSizes(MemoryManager):
    """Refuses a pod with huge pages of a size that the machine has not, and goes on."""

    def _nodes_for(self, pod: Pod, requested: Amounts, hint: Hint | None) -> int:
        try:
            return super()._nodes_for(pod, requested, hint)
        except KubeletPanics:
            raise MemoryManagerError("no such huge pages") from None

    def hints(self, pod: Pod, container: Container) -> list[Hint] | None:
        try:
            return super().hints(pod, container)
        except KubeletPanics:
            return []


def managing_memory_always(config: KubeletConfig) -> KubeletConfig:
    """Runs the static memory manager under policy None too, where memory is reserved."""
    policy = "Static" if config.reserved_memory else config.memory_manager_policy
    return replace(config, memory_manager_policy=policy)


def overlooking_missing_nodes(config: KubeletConfig) -> KubeletConfig:
    """Starts with a reservation of a NUMA node that the machine lacks, and reserves it in the
    first."""
    if len(config.reserved_memory) != 1:
        return config
    (amount,) = config.reserved_memory.values()
    return replace(config, reserved_memory={0: amount})


def overlooking_sums(config: KubeletConfig) -> KubeletConfig:
    """Starts whether or not the reservations of the NUMA nodes add up to that of the node."""
    return replace(config, memory_reservation=None)
