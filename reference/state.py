"""The CPU manager's state: the default set and who holds what.

What belongs here: the state in memory and the fact that each change of it rewrites the file. What
never does: a decision. Source: ``state_checkpoint.go``, 1.36.

The kubelet writes the whole file at each single change. Only the last text of a step can be seen,
so here changes are counted and the text is made when it is asked for.
"""

from __future__ import annotations

from reference.checkpoint import Checkpoint, Entries
from reference.cpuset import CPUSet

__all__ = ["State"]


class State:
    """``default``: the shared pool. ``entries``: exclusive CPUs by pod uid, then container.
    ``changes`` counts the writes; read the other two freely, change them by the methods."""

    __slots__ = ("changes", "default", "entries", "policy_name")

    def __init__(self, policy_name: str) -> None:
        self.policy_name = policy_name
        self.default = CPUSet()
        self.entries: dict[str, dict[str, CPUSet]] = {}
        self.changes = 0

    @classmethod
    def restored(cls, checkpoint: Checkpoint) -> State:
        """The state that a file holds; as yet unchanged, so the file stays as it is."""
        state = cls(checkpoint.policy_name)
        state.default = checkpoint.default_cpuset
        state.entries = {uid: dict(named) for uid, named in checkpoint.entries.items()}
        return state

    @classmethod
    def fresh(cls, policy_name: str) -> State:
        """The state of a kubelet that found no file; it is written at once."""
        state = cls(policy_name)
        state.changes = 1
        return state

    def copy(self) -> State:
        """An independent copy."""
        twin = State.restored(self.checkpoint())
        twin.changes = self.changes
        return twin

    def checkpoint(self) -> Checkpoint:
        """What the file would hold if it were written now."""
        return Checkpoint(self.policy_name, self.default, self.entries)

    def get(self, uid: str, container: str) -> CPUSet | None:
        """The container's exclusive CPUs, if it has an entry."""
        return self.entries.get(uid, {}).get(container)

    def set_default(self, cpus: CPUSet) -> None:
        """Replace the shared pool."""
        self.default = cpus
        self.changes += 1

    def set(self, uid: str, container: str, cpus: CPUSet) -> None:
        """Enter a container's exclusive CPUs."""
        self.entries.setdefault(uid, {})[container] = cpus
        self.changes += 1

    def delete(self, uid: str, container: str) -> None:
        """Drop a container's entry, and the pod's with its last."""
        named = self.entries.get(uid)
        if named is not None:
            named.pop(container, None)
            if not named:
                del self.entries[uid]
        self.changes += 1


def assigned(entries: Entries) -> CPUSet:
    """All CPUs that some container holds."""
    mask = 0
    for named in entries.values():
        for cpus in named.values():
            mask |= cpus.mask
    return CPUSet.of_mask(mask)
