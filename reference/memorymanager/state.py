"""What the memory manager knows: the memory of each NUMA node, and which containers hold how much.

What belongs here: taking memory and giving it back. What never does: on which NUMA nodes
(``policy_static``). Memory is of several types: :data:`MEMORY`, and huge pages of each size, under
the names that pods request them by. Sources: ``memorymanager/state``, ``policy_static.go``
(``updateMachineState``, ``releaseMemory``), 1.26 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, permutations
from typing import Final, TypeAlias

from reference.behaviours import Behaviour
from reference.errors import NotModelled, StateError
from reference.releases import AnyRelease, has, minor_of

#: Memory that is not huge pages.
MEMORY: Final = "memory"

#: Bytes by the type of memory.
Amounts: TypeAlias = Mapping[str, int]

_CORRUPT: Final = "checkpoint is corrupted"
_OTHER_POLICY: Final = (
    '[memorymanager] configured policy "{}" differs from state checkpoint policy "{}"'
)
_DIFFERENT: Final = (
    "start memory manager error: [memorymanager] the expected machine state is different from the "
    "real one"
)
_GONE: Final = (
    "start memory manager error: [memorymanager] (pod: {}, container: {}) the memory assignment "
    "uses {what} that does not exist"
)
#: More blocks of NUMA nodes that overlap have too many orders.
_MOST_ORDERED: Final = 6
#: The newest minor that is known to compare each NUMA node alone as it starts, and the oldest that
#: is known to compare the sums of a group.
_ALONE_UNTIL: Final = 26
_TOGETHER_SINCE: Final = 32


def _unrestored(fault: str) -> str:
    return (
        f"start memory manager error: could not restore state from checkpoint: {fault}, please "
        "drain this node and delete the memory manager checkpoint file "
        '"/var/lib/kubelet/memory_manager_state" before restarting Kubelet'
    )


@dataclass(frozen=True, slots=True)
class Block:
    """``Block``: bytes of one type of memory in these NUMA nodes, a bit for each, that a container
    or pod holds."""

    nodes: int
    size: int
    type: str = MEMORY


#: What a container or a pod holds, a block for each type, all in the same NUMA nodes. There may be
#: an entry without any, which holds nothing.
Blocks: TypeAlias = tuple[Block, ...]


@dataclass(slots=True)
class MemoryTable:
    """``MemoryTable`` of one type in one NUMA node, in bytes."""

    allocatable: int
    free: int
    reserved: int = 0


@dataclass(slots=True)
class NodeState:
    """``NUMANodeState``: its table of each type. ``cells``: the NUMA nodes, a bit for
    each, that memory is handed out from together with this one; just its own where it is handed out
    alone, or not at all."""

    tables: dict[str, MemoryTable]
    cells: int
    assignments: int = 0

    def copy(self) -> NodeState:
        """An independent copy."""
        tables = {kind: replace(one) for kind, one in self.tables.items()}
        return NodeState(tables, self.cells, self.assignments)


@dataclass(slots=True)
class State:
    """``machine``: by NUMA node. ``blocks``: by pod uid, then container. ``pods``: what pods hold
    as a whole, by uid; the blocks of their containers are parts of it. ``of_pods``: whether its
    file has the memory of whole pods, too. ``writes_pods``: whether the kubelet writes that, as
    with feature gate PodLevelResourceManagers. ``policy``: of the kubelet that wrote the file;
    under None the file has nothing else."""

    machine: dict[int, NodeState]
    blocks: dict[str, dict[str, Blocks]] = field(default_factory=dict)
    pods: dict[str, Blocks] = field(default_factory=dict)
    of_pods: bool = False
    writes_pods: bool = False
    policy: str = "Static"

    def copy(self) -> State:
        """An independent copy."""
        machine = {node: each.copy() for node, each in self.machine.items()}
        blocks = {uid: dict(named) for uid, named in self.blocks.items()}
        pods = dict(self.pods)
        return State(machine, blocks, pods, self.of_pods, self.writes_pods, self.policy)

    def assume(self, other: State) -> None:
        """Take over what ``other``, of the same machine, has handed out."""
        twin = other.copy()
        self.machine, self.blocks, self.pods = twin.machine, twin.blocks, twin.pods

    def require_policy(self, policy: str) -> None:
        """``restoreState``: raise :class:`StateError` where another policy wrote the file."""
        if self.policy != policy:
            raise StateError(_unrestored(_OTHER_POLICY.format(policy, self.policy)))

    def taken_up(self, *, writes_pods: bool, release: AnyRelease) -> State:
        """A copy for a kubelet that starts, which writes the file again once something changes.
        1.36 without the gate finds a file of whole pods corrupt (seen on 1.36.4); later ones forget
        what pods hold as a whole. Raises :class:`StateError`."""
        readable = not self.of_pods or writes_pods
        if not readable and not has(release, Behaviour.MEMORY_FILE_OF_ANY_GATE):
            raise StateError(_unrestored(_CORRUPT))
        twin = self.copy()
        twin.writes_pods = writes_pods
        if not writes_pods:
            twin.pods = {}
        return twin

    def get(self, uid: str, container: str) -> Blocks | None:
        """``GetMemoryBlocks``."""
        return self.blocks.get(uid, {}).get(container)

    def set(self, uid: str, container: str, blocks: Blocks) -> None:
        """``SetMemoryBlocks``."""
        self.blocks.setdefault(uid, {})[container] = blocks
        self.of_pods = self.writes_pods

    def lend(self, uid: str, container: str, block: Block, size: int) -> None:
        """``size`` bytes of this block count for another container from now on."""
        left = replace(block, size=block.size - size)
        held = self.get(uid, container) or ()
        self.set(uid, container, tuple(left if one is block else one for one in held))

    def set_pod(self, uid: str, blocks: Blocks) -> None:
        """``SetPodMemoryBlocks``."""
        self.pods[uid] = blocks
        self.of_pods = self.writes_pods

    def take(self, nodes: int, size: int, kind: str = MEMORY) -> None:
        """``updateMachineState``: one NUMA node after the other gives what it has free."""
        for each in self.of(nodes):
            each.assignments += 1
            each.cells = nodes
            table = each.tables[kind]
            given = min(size, table.free)
            table.free -= given
            table.reserved += given
            size -= given

    def remove(self, uid: str, container: str) -> None:
        """``RemoveContainer``: forget a container, and give its memory back. What a pod holds as a
        whole it keeps until its last container is forgotten."""
        held = self.blocks.get(uid, {}).pop(container, None)
        if held is None:
            return
        self.of_pods = self.writes_pods
        is_last = not self.blocks[uid]
        if is_last:
            del self.blocks[uid]
        if uid not in self.pods:
            self._release(held)
        elif is_last:
            self._release(self.pods.pop(uid))

    def _release(self, blocks: Blocks) -> None:
        """``releaseMemory``."""
        for block in blocks:
            size = block.size
            for node in ids(block.nodes):
                each = self.machine[node]
                each.assignments -= 1
                if not each.assignments:
                    each.cells = 1 << node
                table = each.tables[block.type]
                given = min(size, table.reserved)
                table.free += given
                table.reserved -= given
                size -= given

    def of(self, nodes: int) -> list[NodeState]:
        """The NUMA nodes of a set, by rising id."""
        return [self.machine[node] for node in ids(nodes)]


def ids(nodes: int) -> Iterable[int]:
    """The NUMA nodes of a set, by rising id."""
    return [node for node in range(nodes.bit_length()) if nodes >> node & 1]


@lru_cache
def subsets(nodes: tuple[int, ...]) -> tuple[int, ...]:
    """Every set of some of these NUMA nodes, the smallest first."""
    sizes = range(1, len(nodes) + 1)
    return tuple(sum(1 << node for node in some) for n in sizes for some in combinations(nodes, n))


def sums(amounts: Mapping[int, int]) -> dict[int, int]:
    """How much each set of these NUMA nodes has together."""
    found = {0: 0}
    for node, amount in amounts.items():
        found |= {nodes | 1 << node: total + amount for nodes, total in found.items()}
    return found


def same_machine(one: State, other: State) -> bool:
    """Whether both have the same NUMA nodes with as much memory to hand out."""
    sizes = [
        {
            (node, kind): table.allocatable
            for node, each in state.machine.items()
            for kind, table in each.tables.items()
        }
        for state in (one, other)
    ]
    return sizes[0] == sizes[1]


def validate(kept: State, fresh: State, *, release: AnyRelease) -> None:
    """``validateState``: what a kubelet that starts makes of the kept blocks, one after the other,
    must be the kept machine. ``fresh``: the machine that it finds, with nothing handed out. It
    may not have other memory, nor another reservation (kubernetes/kubernetes#131253).

    Raises :class:`StateError`, and :class:`NotModelled` where the order of a Go map decides: which
    of several containers is named whose NUMA nodes or huge pages are gone; and where some blocks
    share NUMA nodes and others do not, the last one decides the cells. Seen on 1.36.4: such a
    kubelet starts by chance.
    """
    held = [
        (uid, name, block)
        for uid, named in kept.blocks.items()
        for name, every in ({"": kept.pods[uid]} if uid in kept.pods else named).items()
        for block in every
    ]
    _require_there(held, fresh)
    if not same_machine(kept, fresh):
        raise StateError(_DIFFERENT)
    blocks = [block for _, _, block in held]
    orders = permutations(blocks) if _overlap(blocks) else (tuple(blocks),)
    if _overlap(blocks) and len(blocks) > _MOST_ORDERED:
        raise NotModelled(f"the order of {len(blocks)} memory blocks")
    said = {_is_expected(kept, fresh, order, release) for order in orders}
    if len(said) > 1:
        raise NotModelled("memory blocks of NUMA nodes that overlap: whether the kubelet starts")
    if said == {False}:
        raise StateError(_DIFFERENT)


def _require_there(held: Iterable[tuple[str, str, Block]], fresh: State) -> None:
    """``updateExpectedMachineState``: the machine has the NUMA nodes and the types of these blocks,
    each of a container of a pod."""
    texts = {
        _GONE.format(uid, name, what=what)
        for uid, name, block in held
        if (what := _missing(block, fresh))
    }
    if len(texts) > 1:
        raise NotModelled("which of several memory blocks is named that the machine has not")
    if texts:
        raise StateError(texts.pop())


def _missing(block: Block, fresh: State) -> str:
    for node in ids(block.nodes):
        if (there := fresh.machine.get(node)) is None:
            return "the NUMA"
        if block.type not in there.tables:
            return "memory resource"
    return ""


def _overlap(blocks: Iterable[Block]) -> bool:
    """Whether some of the blocks share NUMA nodes without having the same ones."""
    masks = {block.nodes for block in blocks}
    return any(one & other for one, other in combinations(masks, 2))


def _is_expected(kept: State, fresh: State, order: Iterable[Block], release: AnyRelease) -> bool:
    """``areMachineStatesEqual``. Raises :class:`NotModelled` where it is not known whether the
    release looks at each NUMA node alone, as 1.26, or at those of a group together, as 1.32."""
    made = fresh.copy()
    for block in order:
        made.take(block.nodes, block.size, block.type)
    pairs = [(each, made.machine[node]) for node, each in kept.machine.items()]
    if any((one.assignments, one.cells) != (two.assignments, two.cells) for one, two in pairs):
        return False
    alone = all(one.tables == two.tables for one, two in pairs)
    together = all(_sums(kept, one.cells) == _sums(made, one.cells) for one, _ in pairs)
    if alone != together and _ALONE_UNTIL < minor_of(release) < _TOGETHER_SINCE:
        raise NotModelled(f"memory of a group of NUMA nodes at a start of release {release}")
    return together if minor_of(release) >= _TOGETHER_SINCE else alone


def _sums(state: State, nodes: int) -> dict[str, tuple[int, int]]:
    """What is free and what is reserved in all these NUMA nodes, by type."""
    every = [one.tables for one in state.of(nodes)]
    return {
        kind: (sum(one[kind].free for one in every), sum(one[kind].reserved for one in every))
        for kind in every[0]
    }
