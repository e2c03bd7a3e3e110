"""What one observation of a node shows, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hil.observation.pod_resources import PodResources
from reference import CPUSet
from reference.view import CFS

_NO_CPUS: Final = CPUSet()


@dataclass(frozen=True, slots=True)
class Level:
    """One cgroup on the way from a container's to the root, by its path in the hierarchy (``/`` is
    the root). ``cpus`` is its ``cpuset.cpus``, ``None`` where the file is not there (the root of
    v2) and empty where none was set; ``effective`` is ``cpuset.cpus.effective`` (v1:
    ``cpuset.effective_cpus``). ``quota`` is in microseconds of each ``period``, ``None`` without.
    """

    path: str
    cpus: CPUSet | None
    effective: CPUSet | None
    quota: int | None = None
    period: int = 100_000


@dataclass(frozen=True, slots=True)
class ContainerObserved:
    """A running container of pinproof. ``levels`` begin at its own cgroup and end at the root.
    ``pod`` is its pod's name, as kubelet and runtime have it, and ``namespace`` that pod's (``""``:
    the runtime does not say).

    ``tasks``: ``Cpus_allowed_list`` by thread id, of every task in its cgroup. ``ran_on``: the
    CPUs on which its tasks were seen running (``/proc/PID/task/*/stat``, field 39), if they spun.
    """

    id: str
    pid: int
    uid: str
    name: str
    levels: tuple[Level, ...]
    tasks: Mapping[int, CPUSet] = field(default_factory=dict)
    ran_on: CPUSet = _NO_CPUS
    pod: str = ""
    namespace: str = ""

    @property
    def cpuset(self) -> CPUSet | None:
        """The cpuset that was set. crun gives a container a cgroup below the one that the runtime
        names, so this is of the first level below the pod's that has one."""
        for level in self.own_levels:
            if level.cpus:
                return level.cpus
        return None

    @property
    def effective(self) -> CPUSet:
        """The effective cpuset of the cgroup that its tasks are in."""
        found = next((each.effective for each in self.levels if each.effective is not None), None)
        return _NO_CPUS if found is None else found

    @property
    def allowed(self) -> CPUSet:
        """Every CPU that the scheduler may put any task of it on."""
        union = _NO_CPUS
        for cpus in self.tasks.values():
            union |= cpus
        return union

    @property
    def cfs(self) -> CFS:
        for level in self.own_levels:
            if level.quota is not None:
                return CFS(level.quota, period=level.period)
        return CFS(None)

    @property
    def pod_cfs(self) -> CFS | None:
        """The CFS quota of its pod's cgroup and the period of that; ``None`` where its cgroup is
        not below one."""
        above = self.levels[len(self.own_levels) :]
        return CFS(above[0].quota, period=above[0].period) if above else None

    @property
    def own_levels(self) -> tuple[Level, ...]:
        """Its own cgroups: those below its pod's."""
        marks = (f"pod{self.uid}", f"pod{self.uid.replace('-', '_')}")
        own: list[Level] = []
        for level in self.levels:
            if any(mark in level.path.rpartition("/")[2] for mark in marks):
                break
            own.append(level)
        return tuple(own)


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The kubelet's unit, as its service manager has it. ``exit_status`` is of the process that
    ended last (``None`` while none has), ``exit_code`` how it ended (``exited``, ``killed``)."""

    active: str = ""
    sub: str = ""
    pid: int = 0
    restarts: int = 0
    exit_status: int | None = None
    exit_code: str = ""
    invocation: str = ""

    @property
    def running(self) -> bool:
        """Whether there is a process that is meant to stay."""
        return self.pid > 0 and self.active in ("active", "activating", "reloading")


@dataclass(frozen=True, slots=True)
class Process:
    """The kubelet's process, by its number and its start (ticks since boot). ``service`` is what
    its service manager said of it, which is valid while it lives."""

    pid: int
    born: str
    service: str


@dataclass(frozen=True, slots=True)
class Observation:
    """A node at one moment.

    ``state_file``: its text, ``None`` without one. ``pods``: the kubelet's own list of its pods
    (the answer to ``GET /pods``), ``None`` where it does not answer. ``log``: the kubelet's last
    lines, only where it was asked for, and ``ended`` (code, status) how it ended first after the
    script had started it: its service manager may have started it again since. ``pod_resources``:
    what the kubelet answers at its pod-resources socket, only where it was asked. ``reached``:
    whether what the script waited for came. ``print`` is a digest over all of it but
    ``pod_resources``: it differs if anything has changed. ``process``: the kubelet's, ``None``
    where it is down. ``boot`` is the boot id. ``files``: of each file that only this run may change
    (:attr:`hil.observation.Places.watched`) its inode, size and time of change.
    """

    online: CPUSet
    service: ServiceState
    state_file: str | None
    containers: tuple[ContainerObserved, ...] = ()
    pods: str | None = None
    log: str = ""
    ended: tuple[str, int] | None = None
    pod_resources: PodResources | None = None
    reached: bool = True
    print: str = ""
    process: Process | None = None
    boot: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
