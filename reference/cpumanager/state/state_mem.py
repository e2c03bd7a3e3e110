"""The CPU manager's state: the default set and who holds what.

What belongs here: the state in memory and the fact that each change of it rewrites the file. What
never does: a decision. Source: ``state_checkpoint.go``, ``state_mem.go``, 1.36 and 1.37.

The kubelet writes the whole file at each single change. Only the last text of a step can be seen,
so here changes are counted and the text is made when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from reference.cpumanager.state.state_checkpoint import Checkpoint, Entries
from reference.cpuset import CPUSet


class State:
    """``stateMemory``. ``default``: the shared pool. ``entries``: exclusive CPUs by pod uid, then
    container. ``pod_entries``: CPUs of whole pods by uid. ``baselines``: what each container of
    ``entries`` was given first, if ``keeps_baselines`` (1.37, feature gate
    InPlacePodVerticalScalingExclusiveCPUs). ``changes`` counts the writes; read the others freely,
    change them by the methods."""

    __slots__ = (
        "baselines", "changes", "default", "entries", "keeps_baselines", "pod_entries",
        "policy_name",
    )  # fmt: skip

    def __init__(self, policy_name: str, *, keeps_baselines: bool = False) -> None:
        self.policy_name = policy_name
        self.default = CPUSet()
        self.entries: dict[str, dict[str, CPUSet]] = {}
        self.pod_entries: dict[str, CPUSet] = {}
        self.baselines: dict[str, dict[str, CPUSet]] = {}
        self.keeps_baselines = keeps_baselines
        self.changes = 0

    @classmethod
    def restored(cls, checkpoint: Checkpoint, *, keeps_baselines: bool = False) -> State:
        """The state that a file holds; as yet unchanged, so the file stays as it is."""
        state = cls(checkpoint.policy_name, keeps_baselines=keeps_baselines)
        state.default = checkpoint.default_cpuset
        state.entries = {uid: dict(named) for uid, named in checkpoint.entries.items()}
        state.pod_entries = dict(checkpoint.pod_entries)
        state.baselines = {uid: dict(named) for uid, named in checkpoint.baselines.items()}
        return state

    @classmethod
    def fresh(cls, policy_name: str, *, keeps_baselines: bool = False) -> State:
        """``NewMemoryState``: the state of a kubelet that found no file; it is written at once."""
        state = cls(policy_name, keeps_baselines=keeps_baselines)
        state.changes = 1
        return state

    def copy(self) -> State:
        """An independent copy."""
        twin = State.restored(self.checkpoint(), keeps_baselines=self.keeps_baselines)
        twin.changes = self.changes
        return twin

    def checkpoint(self) -> Checkpoint:
        """What the file would hold if it were written now."""
        return Checkpoint(
            self.policy_name, self.default, self.entries, self.pod_entries, self.baselines
        )

    def get(self, uid: str, container: str) -> CPUSet | None:
        """``GetCPUSet``: the container's exclusive CPUs, if it has an entry."""
        return self.entries.get(uid, {}).get(container)

    def set_default(self, cpus: CPUSet) -> None:
        """``SetDefaultCPUSet``: replace the shared pool."""
        self.default = cpus
        self.changes += 1

    def set(self, uid: str, container: str, cpus: CPUSet) -> None:
        """``SetCPUSet``: enter a container's exclusive CPUs. Its baseline is what was entered
        first."""
        self.entries.setdefault(uid, {})[container] = cpus
        if self.keeps_baselines:
            self.baselines.setdefault(uid, {}).setdefault(container, cpus)
        self.changes += 1

    def delete(self, uid: str, container: str) -> None:
        """``Delete``: drop a container's entry with its baseline, and the pod's with its last."""
        for held in (self.entries, self.baselines):
            named = held.get(uid)
            if named is not None:
                named.pop(container, None)
                if not named:
                    del held[uid]
        self.changes += 1

    def set_pod(self, uid: str, cpus: CPUSet) -> None:
        """``SetPodCPUSet``: enter the CPUs of a whole pod."""
        self.pod_entries[uid] = cpus
        self.changes += 1

    def delete_pod(self, uid: str) -> None:
        """``DeletePod``: drop the CPUs of a whole pod; those of its containers stay."""
        self.pod_entries.pop(uid, None)
        self.changes += 1

    def clear(self) -> None:
        """``ClearState``: forget everything."""
        self.default = CPUSet()
        self.entries, self.pod_entries, self.baselines = {}, {}, {}
        self.changes += 1


def assigned(entries: Entries) -> CPUSet:
    """All CPUs that some container holds."""
    mask = 0
    for named in entries.values():
        for cpus in named.values():
            mask |= cpus.mask
    return CPUSet.of_mask(mask)


def by_pod(
    entries: Entries,
    owner_of: Callable[[str], tuple[str, str] | None],
    name_of: Callable[[str], str],
) -> dict[str, dict[str, CPUSet]]:
    """CPUs by pod name and container, also where the state file has container ids (up to 1.17).

    ``owner_of``: (pod uid, container) of a container id; ``name_of``: a pod's name by its uid.
    """
    named: dict[str, dict[str, CPUSet]] = {}
    for uid, sets in entries.items():
        for name, cpus in sets.items():
            owner, container = (not uid and owner_of(name)) or (uid, name)
            named.setdefault(name_of(owner), {})[container] = cpus
    return named
