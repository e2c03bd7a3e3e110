"""The CPU manager's state: the default set and who holds what.

What belongs here: the state in memory and the fact that each change of it rewrites the file. What
never does: a decision. Source: ``state_checkpoint.go``, ``state_mem.go``, 1.36 and 1.37.

The kubelet writes the whole file at each single change, and may be killed at any write. The text
is made when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from reference.cpumanager.state.state_checkpoint import Checkpoint, Entries
from reference.cpuset import CPUSet
from reference.view import Version


class Crash:
    """The kubelet is killed at the ``number``-th write from now on, before or ``after`` it."""

    __slots__ = ("after", "left")

    def __init__(self, number: int, *, after: bool) -> None:
        self.left = number
        self.after = after

    def copy(self) -> Crash:
        """An independent copy."""
        return Crash(self.left, after=self.after)


class Killed(Exception):
    """The kubelet was killed at a write; ``written`` is the state whose file lies there, ``None``
    where it has not written one."""

    def __init__(self, written: State | None) -> None:
        super().__init__("killed at a write of the state file")
        self.written = written


class State:
    """``stateMemory``. ``default``: the shared pool. ``entries``: exclusive CPUs by pod uid, then
    container. ``pod_entries``: CPUs of whole pods by uid. ``baselines``: what each container of
    ``entries`` was given first, if ``keeps_baselines`` (1.37, feature gate
    InPlacePodVerticalScalingExclusiveCPUs). ``changes`` counts the writes, ``versions`` has each
    since they were last taken away, ``crash`` says at which the kubelet is killed, and ``failures``
    how many of the next ones fail: a kubelet logs that, and goes on. Only the methods, which raise
    :class:`Killed`, may change the others."""

    __slots__ = (
        "baselines", "changes", "crash", "default", "entries", "failures", "keeps_baselines",
        "pod_entries", "policy_name", "versions",
    )  # fmt: skip

    def __init__(self, policy_name: str, *, keeps_baselines: bool = False) -> None:
        self.policy_name = policy_name
        self.default = CPUSet()
        self.entries: dict[str, dict[str, CPUSet]] = {}
        self.pod_entries: dict[str, CPUSet] = {}
        self.baselines: dict[str, dict[str, CPUSet]] = {}
        self.keeps_baselines = keeps_baselines
        self.changes = 0
        self.versions: list[Version] = []
        self.crash: Crash | None = None
        self.failures = 0

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
        state.versions.append(Version(CPUSet(), CPUSet()))
        return state

    def killed_at_birth(self) -> None:
        """A fresh state has been written. Raises :class:`Killed`."""
        self._write(None)
        self.changes -= 1  # it is counted already, and so is its version
        self.versions.pop()

    def _before_write(self) -> State | None:
        """What lies in the file if the kubelet is killed at the write that follows."""
        return self.copy() if self.crash is not None and self.crash.left == 1 else None

    def _write(self, before: State | None) -> None:
        """The write that follows a change. Raises :class:`Killed`."""
        if self.failures:
            self.failures -= 1
            return
        crash = self.crash
        if crash is not None:
            crash.left -= 1
            if not crash.left and not crash.after:
                raise Killed(before)
        self.changes += 1
        self.versions.append(Version(self.default, assigned(self.entries)))
        if crash is not None and not crash.left:
            raise Killed(self)

    def copy(self) -> State:
        """An independent copy."""
        twin = State.restored(self.checkpoint(), keeps_baselines=self.keeps_baselines)
        twin.changes = self.changes
        twin.versions = list(self.versions)
        twin.crash = self.crash.copy() if self.crash is not None else None
        twin.failures = self.failures
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
        before = self._before_write()
        self.default = cpus
        self._write(before)

    def set(self, uid: str, container: str, cpus: CPUSet) -> None:
        """``SetCPUSet``: enter a container's exclusive CPUs. Its baseline is what was entered
        first."""
        before = self._before_write()
        self.entries.setdefault(uid, {})[container] = cpus
        if self.keeps_baselines:
            self.baselines.setdefault(uid, {}).setdefault(container, cpus)
        self._write(before)

    def delete(self, uid: str, container: str) -> None:
        """``Delete``: drop a container's entry with its baseline, and the pod's with its last."""
        before = self._before_write()
        for held in (self.entries, self.baselines):
            named = held.get(uid)
            if named is not None:
                named.pop(container, None)
                if not named:
                    del held[uid]
        self._write(before)

    def set_pod(self, uid: str, cpus: CPUSet) -> None:
        """``SetPodCPUSet``: enter the CPUs of a whole pod."""
        before = self._before_write()
        self.pod_entries[uid] = cpus
        self._write(before)

    def delete_pod(self, uid: str) -> None:
        """``DeletePod``: drop the CPUs of a whole pod; those of its containers stay."""
        before = self._before_write()
        self.pod_entries.pop(uid, None)
        self._write(before)

    def clear(self) -> None:
        """``ClearState``: forget everything."""
        before = self._before_write()
        self.default = CPUSet()
        self.entries, self.pod_entries, self.baselines = {}, {}, {}
        self._write(before)


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
