"""The memory manager's policy Static: on which NUMA nodes a Guaranteed pod's memory lies.

What belongs here: hints, and which containers get memory of which NUMA nodes. What never does:
arithmetic of memory (``state``).

Huge pages are requested beside memory, and lie in the same NUMA nodes.
A NUMA node from which memory is handed out alone serves no request for several, and the other way
round. A request that no set of NUMA nodes holds gets no hint, so the Topology Manager does not
object, and the memory manager refuses it afterwards. The entry of an init container is removed as
soon as a later container starts, so a kubelet that starts takes memory for it again
(kubernetes/kubernetes#123971).
Source: ``memorymanager/policy_static.go``, ``memory_manager.go``, 1.26 to 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

from reference.behaviours import Behaviour
from reference.copies import flat_copy
from reference.cpuset import CPUSet
from reference.errors import (
    ConfigurationError,
    EmptyPodSharedPoolError,
    KubeletPanics,
    MemoryManagerError,
    NotModelled,
)
from reference.memorymanager.state import (
    MEMORY,
    Amounts,
    Block,
    Blocks,
    MemoryTable,
    NodeState,
    State,
    ids,
    subsets,
    sums,
)
from reference.pods.pod import Container, Kind, Pod
from reference.pods.pod_level_resources import (
    empty_pool_fault,
    has_pod_level_resources,
    is_guaranteed_alone,
)
from reference.pods.qos import GUARANTEED, huge_pages, memory_request, qos_class, total_request
from reference.pods.quantity import Quantity, quantity, value, written
from reference.releases import AnyRelease, has
from reference.topologymanager.hint import ANY, Hint

#: A kubelet looks at every set of NUMA nodes. Beyond this many nodes it works for hours.
_MAX_NUMA_NODES: Final = 20
_NO_DEFAULT: Final = (
    "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
)
_NO_PAGES: Final[Mapping[int, Amounts]] = {}


def require_reserved_memory(
    nodes: Collection[int], reserved: Mapping[int, str], whole: str | None
) -> None:
    """``validateReservedMemory``: every NUMA node with a reservation is there, and all of them
    together are ``whole``, what the node reserves. Raises :class:`ConfigurationError`."""
    for node in reserved:
        if node not in nodes:
            raise ConfigurationError(
                f"the reserved memory configuration references a NUMA node {node} that does not "
                "exist on this machine"
            )
    total = sum(value(quantity(amount)) for amount in reserved.values())
    expected = total if whole is None else value(quantity(whole))
    if total != expected:
        raise ConfigurationError(
            f'the total amount "{written(total)}" of type "memory" is not equal to the value '
            f'"{written(expected)}" determined by Node Allocatable feature'
        )


def default_machine_state(
    memory: Mapping[int, int],
    reserved: Mapping[int, str],
    huge_pages: Mapping[int, Amounts] = _NO_PAGES,
) -> State:
    """``getDefaultMachineState``: nothing handed out. ``memory``: the bytes of each NUMA node;
    ``huge_pages``: how many of them are huge pages, by their name; ``reserved``: how much is kept
    of the others, as quantities."""
    machine = {}
    for node, size in memory.items():
        pages = huge_pages.get(node, {})
        left = size - value(quantity(reserved.get(node, "0"))) - sum(pages.values())
        if left < 0:
            raise NotModelled(f"more memory reserved in NUMA node {node} than it has")
        amounts = {MEMORY: left, **pages}
        tables = {kind: MemoryTable(amount, amount) for kind, amount in amounts.items()}
        machine[node] = NodeState(tables, 1 << node)
    return State(machine)


class NotAnInt64(MemoryManagerError):
    """A quantity that the kubelet does not read as a number of bytes."""

    def __init__(self) -> None:
        super().__init__("failed to represent quantity as int64")


def as_int64(amount: Fraction, *, from_server: bool) -> int:
    """``Quantity.AsInt64``: no fraction of a byte; and of a static pod no fraction of a binary
    unit, and nothing in thousandths, as an API server alone writes it in bytes. Raises
    :class:`NotAnInt64`. Seen on 1.26.15, 1.32.2 and 1.36.4."""
    if not from_server and isinstance(amount, Quantity) and (amount.wide or amount.scale < 0):
        raise NotAnInt64
    if value(amount) != amount:
        raise NotAnInt64
    return value(amount)


@contextmanager
def _counted(manager: MemoryManager) -> Iterator[None]:
    """Count a request, and whether it is refused."""
    manager.requests += 1
    try:
        yield
    except (MemoryManagerError, EmptyPodSharedPoolError):
        manager.errors += 1
        raise


class MemoryManager:
    """``manager`` with ``staticPolicy``, of one run of the kubelet: a hint provider of the Topology
    Manager. ``pod_managers``: pods with pod-level resources are served
    (:func:`reference.pods.pod_level_resources.pod_managers_on`). ``from_server``: pods come through
    an API server. ``active_pods`` and ``sources_ready`` as
    :class:`reference.cpumanager.cpu_manager.CPUManager` has them."""

    def __init__(
        self,
        state: State,
        *,
        release: AnyRelease,
        pod_managers: bool = False,
        from_server: bool = False,
    ) -> None:
        self.state = state
        self._pod_managers = pod_managers
        self._from_server = from_server
        self.active_pods: Callable[[], Iterable[Pod]] = tuple
        self.sources_ready = False
        self._release = release
        self._last_admitted: tuple[Pod, ...] = ()
        self._reusable: dict[tuple[str, int, str], int] = {}
        #: How often memory was requested, and how often the request was refused.
        self.requests = self.errors = 0

    def copy(self) -> MemoryManager:
        """An independent copy."""
        twin = flat_copy(self)
        twin.state = self.state.copy()
        twin._reusable = dict(self._reusable)
        return twin

    def add_container(self, uid: str, container: str) -> None:
        """``AddContainer``: a container is about to start, so the init containers before it have
        ended and lose their entries."""
        pods = (pod for pod in self.active_pods() if pod.uid == uid)
        for one in next((pod.containers for pod in pods), ()):
            if one.name == container:
                return
            if one.kind is Kind.INIT:
                self.state.remove(uid, one.name)

    def numa_nodes(self, uid: str, container: str) -> CPUSet:
        """``GetMemoryNUMANodes``: the NUMA nodes that the runtime is asked to bind a container's
        memory to (``PreCreateContainer``); empty where it is bound to none."""
        held = self.state.get(uid, container)
        return CPUSet(ids(held[0].nodes)) if held else CPUSet()

    def remove_stale_state(self) -> None:
        """``removeStaleState``: forget pods that are not active."""
        if not self.sources_ready:
            return
        active = {pod.uid for pod in (*self.active_pods(), *self._last_admitted)}
        for uid in set(self.state.blocks) - active:
            for name in list(self.state.blocks[uid]):
                self.state.remove(uid, name)

    # -- a hint provider -------------------------------------------------------------------------

    def hints(self, pod: Pod, container: Container) -> list[Hint] | None:
        """``GetTopologyHints``: where the container's memory could be; ``None`` without a
        preference, or where it can be nowhere."""
        self._begin(pod)
        if not self._serves(pod):
            return None
        held = self.state.get(pod.uid, container.name)
        try:
            return self._hints(pod, held, self._requested(pod, container))
        except NotAnInt64:
            return None

    def pod_hints(self, pod: Pod) -> list[Hint] | None:
        """``GetPodTopologyHints``: the same for a whole pod. Up to 1.37 what its first container
        with an entry holds is compared with what the whole pod requests
        (kubernetes/kubernetes#141069). A pod whose shared containers would have no memory can be
        nowhere."""
        self._begin(pod)
        if not self._serves(pod):
            return None
        try:
            total = self._pod_total(pod)
            fault = self._is_served_whole(pod) and self._empty_pool_fault(pod, total)
        except NotAnInt64:
            return None
        if fault:
            return []
        blocks = [self.state.get(pod.uid, one.name) for one in pod.containers]
        if has(self._release, Behaviour.POD_MEMORY_KEPT):
            blocks.insert(0, self.state.pods.get(pod.uid))
        return self._hints(pod, next(filter(None, blocks), None), total)

    def _hints(self, pod: Pod, held: Blocks | None, requested: Amounts) -> list[Hint] | None:
        """``regenerateHints`` for what is held already."""
        if not requested:
            return None
        if held is None:
            return self.calculate_hints(pod, requested) or None
        if {block.type: block.size for block in held} != requested:
            return None
        return [Hint(held[0].nodes, preferred=True)]

    def allocate(self, pod: Pod, container: Container, hint: Hint | None) -> None:
        """``Allocate``. Raises :class:`MemoryManagerError`."""
        self._begin(pod)
        skips = has(self._release, Behaviour.NO_MEMORY_NEEDS_NO_NODE)
        if not self._serves(pod) or (skips and not self._requested(pod, container)):
            return
        with _counted(self):
            held = self.state.get(pod.uid, container.name)
            if held is not None:
                self._update_reusable(pod, container, held)
                return
            requested = self._requested(pod, container)
            if not requested:
                self._allocate_nothing(pod, container, hint)
                return
            nodes = self._nodes_for(pod, requested, hint)
        blocks = tuple(Block(nodes, size, kind) for kind, size in requested.items())
        for block in blocks:
            reusable = self._reusable.get((pod.uid, nodes, block.type), 0)
            self.state.take(nodes, max(block.size - reusable, 0), block.type)
        self._update_reusable(pod, container, blocks)
        self.state.set(pod.uid, container.name, blocks)
        for block in blocks:
            self._update_init_containers(pod, container, block)

    def _allocate_nothing(self, pod: Pod, container: Container, hint: Hint | None) -> None:
        """A container of a pod with pod-level resources that shares memory. Up to 1.36 it is served
        as others are: it needs NUMA nodes, although it gets no memory of its own."""
        if hint is None or hint.nodes is ANY:
            raise MemoryManagerError(_NO_DEFAULT)
        self._require_unmixed(hint.nodes)
        self.state.set(pod.uid, container.name, ())

    def allocate_pod(self, pod: Pod, hint: Hint | None) -> None:
        """``AllocatePod``: memory for the pod as a whole, dealt out among its containers. Up to
        1.37 a kubelet that starts takes it once more (kubernetes/kubernetes#140906). Raises
        :class:`MemoryManagerError`, :class:`EmptyPodSharedPoolError`."""
        self._begin(pod)
        kept = pod.uid in self.state.pods and has(self._release, Behaviour.POD_MEMORY_KEPT)
        if kept or not self._serves(pod):
            return
        total = self._pod_total(pod)
        if MEMORY not in total:
            raise NotModelled(f"pod {pod.name}: no memory as a whole under memory manager Static")
        with _counted(self):
            fault = self._empty_pool_fault(pod, total)
            if fault:
                raise EmptyPodSharedPoolError(fault)
            nodes = self._nodes_for(pod, total, hint)
        given = (self._requested(pod, one) or one.kind is not Kind.APP for one in pod.containers)
        self.requests += sum(map(bool, given))
        self.state.set_pod(pod.uid, (Block(nodes, total[MEMORY]),))
        self.state.take(nodes, total[MEMORY])
        for name, size in self._partition(pod, total[MEMORY]).items():
            self.state.set(pod.uid, name, (Block(nodes, size),) if size else ())

    def _partition(self, pod: Pod, total: int) -> dict[str, int]:
        """How much each container of the pod has: what it requests for itself; a shared init
        container what the sidecars before it leave; other shared containers what is left in the
        end."""
        given, left = {}, total
        for one in pod.containers:
            requested = self._requested(pod, one).get(MEMORY, 0)
            if requested or one.kind is Kind.INIT:
                given[one.name] = requested or left
            if one.kind is not Kind.INIT:
                left -= requested
        return {one.name: given.get(one.name, left) for one in pod.containers}

    # -- parts -----------------------------------------------------------------------------------

    def calculate_hints(self, pod: Pod, requested: Amounts) -> list[Hint]:
        """``calculateHints``: every set of NUMA nodes that holds the request now; preferred with as
        few as could hold it were nothing handed out. Raises :class:`KubeletPanics` where a NUMA
        node has no such huge pages at all."""
        machine = self.state.machine
        could = masks = self._masks()  # first: it refuses machines of more sets than are summed up
        if any(kind not in one.tables for kind in requested for one in machine.values()):
            raise KubeletPanics("invalid memory address or nil pointer dereference")
        for kind, size in requested.items():
            allocatable = sums(
                {node: one.tables[kind].allocatable for node, one in machine.items()}
            )
            could = [nodes for nodes in could if allocatable[nodes] >= size]
        least = could[0].bit_count() if could else len(masks)
        violates = self._violating()
        found = [nodes for nodes in could if not violates(nodes)]
        for kind, size in requested.items():
            free = sums({node: one.tables[kind].free for node, one in machine.items()})
            lent = {nodes: self._reusable.get((pod.uid, nodes, kind), 0) for nodes in found}
            found = [nodes for nodes in found if free[nodes] + lent[nodes] >= size]
        return [Hint(nodes, nodes.bit_count() == least) for nodes in found]

    def _violating(self) -> Callable[[int], bool]:
        """Whether a set of NUMA nodes may not serve a request: its only node serves requests for
        several, or some of its nodes serve requests alone or in another group
        (``isAffinityViolatingNUMAAllocations``)."""
        joined = alone = 0
        groups: dict[int, int] = {}
        for node, one in self.state.machine.items():
            bit, in_group = 1 << node, one.cells.bit_count() > 1
            joined |= bit if in_group else 0
            if one.assignments and in_group:
                groups[one.cells] = groups.get(one.cells, 0) | bit
            elif one.assignments:
                alone |= bit

        def violates(nodes: int) -> bool:
            if nodes.bit_count() == 1:
                return bool(nodes & joined)
            others = (members for cells, members in groups.items() if cells != nodes)
            return bool(nodes & alone) or any(nodes & members for members in others)

        return violates

    def _masks(self) -> Sequence[int]:
        """``IterateBitMasks``: every set of NUMA nodes, the smallest first."""
        nodes = sorted(self.state.machine)
        if len(nodes) > _MAX_NUMA_NODES:
            raise NotModelled(
                f"memory hints on {len(nodes)} NUMA nodes: the model goes up to {_MAX_NUMA_NODES}"
            )
        return subsets(tuple(nodes))

    def _nodes_for(self, pod: Pod, requested: Amounts, hint: Hint | None) -> int:
        """The NUMA nodes of the hint, or more where they do not hold the request
        (``getDefaultHint``, ``extendTopologyManagerHint``)."""
        best = hint
        if best is None or best.nodes is ANY:
            every = self.calculate_hints(pod, requested)
            if not every:
                raise MemoryManagerError(_NO_DEFAULT)
            best = _best(every)
        nodes = best.nodes or 0
        given = [one.tables for one in self.state.of(nodes)]
        if any(sum(one[kind].free for one in given) < size for kind, size in requested.items()):
            every = self.calculate_hints(pod, requested)
            wider = [one for one in every if one.nodes is not None and nodes & ~one.nodes == 0]
            if not wider:
                raise MemoryManagerError(
                    "failed to find NUMA nodes to extend the current topology hint"
                )
            extended = _best(wider)
            if best.preferred and not extended.preferred:
                raise MemoryManagerError("failed to find the extended preferred hint")
            nodes = extended.nodes or 0
        self._require_unmixed(nodes)
        return nodes

    def _require_unmixed(self, nodes: int) -> None:
        if nodes.bit_count() == 1 or not self._violating()(nodes):
            return
        if not has(self._release, Behaviour.TOPOLOGY_OPTIONS_STABLE):
            raise NotModelled("memory of NUMA nodes that serve other requests, before 1.32")
        raise MemoryManagerError("preferred hint violates NUMA node allocation")

    def _update_reusable(self, pod: Pod, container: Container, blocks: Blocks) -> None:
        """``updatePodReusableMemory``: what init containers leave to their pod."""
        self._reusable = {key: size for key, size in self._reusable.items() if key[0] == pod.uid}
        for block in blocks:
            key = (pod.uid, block.nodes, block.type)
            left = self._reusable.get(key, 0)
            if container.kind is Kind.INIT:
                self._reusable[key] = max(left, block.size)
            else:
                self._reusable[key] = max(left - block.size, 0)

    def _update_init_containers(self, pod: Pod, container: Container, block: Block) -> None:
        """``updateInitContainersMemoryBlocks``: memory of init containers that a later container
        uses again counts for that container."""
        size = block.size
        for one in pod.containers:
            if one.name == container.name:
                return
            if one.kind is not Kind.INIT:
                continue
            for held in self.state.get(pod.uid, one.name) or ():
                if (held.nodes, held.type) == (block.nodes, block.type):
                    given = min(size, held.size)
                    self.state.lend(pod.uid, one.name, held, given)
                    size -= given

    def _serves(self, pod: Pod) -> bool:
        """Whether a pod gets memory of its own."""
        skipped = has(self._release, Behaviour.POD_LEVEL_RESOURCES_SKIPPED)
        if skipped and has_pod_level_resources(pod) and not self._pod_managers:
            return False
        return qos_class(pod) == GUARANTEED

    def _is_served_whole(self, pod: Pod) -> bool:
        return self._pod_managers and has_pod_level_resources(pod)

    def _requested(self, pod: Pod, container: Container) -> Amounts:
        """``getContainerRequestedResources``: what the container has to itself."""
        if self._is_served_whole(pod) and not is_guaranteed_alone(container):
            return {}
        memory = as_int64(memory_request(container), from_server=self._from_server)
        return {**({MEMORY: memory} if memory else {}), **huge_pages(container)}

    def _pod_total(self, pod: Pod) -> Amounts:
        """``getPodRequestedResources``: of the types that its app containers request."""
        if self._is_served_whole(pod):
            whole = (pod.resources and pod.resources.memory_request) or "0"
            memory = as_int64(quantity(whole), from_server=self._from_server)
            return {MEMORY: memory} if memory else {}
        requested = {one.name: self._requested(pod, one) for one in pod.containers}
        apps = (requested[one.name] for one in pod.containers if one.kind is Kind.APP)
        kinds = dict.fromkeys(kind for amounts in apps for kind in amounts)

        def of(kind: str, container: Container) -> int:
            return requested.get(container.name, {}).get(kind, 0)

        return {kind: total_request(pod, partial(of, kind)) for kind in kinds}

    def _empty_pool_fault(self, pod: Pod, total: Amounts) -> str:
        """``validatePodScopeResources``."""
        if MEMORY not in total:
            return ""
        own = {one.name: self._requested(pod, one).get(MEMORY, 0) for one in pod.containers}
        return empty_pool_fault(pod, total[MEMORY], own, of="memory", noun="memory")

    def _begin(self, pod: Pod) -> None:
        if has(self._release, Behaviour.LAST_ADMITTED_STAYS):
            self._last_admitted = (pod,)
        self.remove_stale_state()


@dataclass(frozen=True, slots=True)
class HugePagesOf:
    """The memory manager's hints for huge pages of one size: those that it has for the container's
    memory too. The pages are handed out with the memory."""

    manager: MemoryManager
    kind: str

    def hints(self, pod: Pod, container: Container) -> list[Hint] | None:
        """As :meth:`MemoryManager.hints`; ``None`` where the container requests none."""
        asked = huge_pages(container)
        return self.manager.hints(pod, container) if self.kind in asked else None

    def pod_hints(self, pod: Pod) -> list[Hint] | None:
        """As :meth:`MemoryManager.pod_hints`; ``None`` where no app container requests any."""
        apps = (one for one in pod.containers if one.kind is Kind.APP)
        asked = any(self.kind in huge_pages(one) for one in apps)
        return self.manager.pod_hints(pod) if asked else None

    def allocate(self, pod: Pod, container: Container, hint: Hint | None) -> None:
        """Nothing: see the class."""

    def allocate_pod(self, pod: Pod, hint: Hint | None) -> None:
        """Nothing: see the class."""


def of_huge_pages(manager: MemoryManager) -> list[HugePagesOf]:
    """A further list of hints for each size of huge pages of the machine."""
    every = {kind for one in manager.state.machine.values() for kind in one.tables}
    return [HugePagesOf(manager, kind) for kind in sorted(every - {MEMORY})]


def _best(hints: Iterable[Hint]) -> Hint:
    """``findBestHint``: a preferred one, then the one with the fewest and lowest NUMA nodes."""

    def order(one: Hint) -> tuple[bool, int, int]:
        nodes = one.nodes or 0
        return (not one.preferred, nodes.bit_count(), nodes)

    return min(hints, key=order)
