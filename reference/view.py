"""What can be seen of a node: the one shape in which the model and every subject report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

from reference.cpuset import CPUSet

_NO_CPUS: Final = CPUSet()


class Phase(Enum):
    """How far a pod has come. A pod that is not admitted yet is ``PENDING``."""

    PENDING = "pending"
    RUNNING = "running"
    REJECTED = "rejected"  # refused at admission: the API's phase Failed, with a reason
    ENDED = "ended"  # all containers have ended for good: phase Succeeded, or Failed and no reason


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod: ``reason`` and ``message`` are the API's ``status.reason`` and ``.message`` of a
    rejected pod, whole and unchanged (``""`` otherwise); ``qos`` is ``status.qosClass``.
    ``resize`` is why a resize in place has not ended, as ``Infeasible: …`` or ``Deferred: …``, or
    ``in progress`` (``""``: none was asked for, or it has ended). ``or_else`` are further reasons
    and messages that the kubelet may give, where the order of a Go map decides; a subject has
    none."""

    phase: Phase
    reason: str = ""
    message: str = ""
    qos: str = ""
    resize: str = ""
    or_else: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def allows(self, seen: PodView) -> bool:
        """Whether a kubelet that does the same may show this."""
        refused = (seen.reason, seen.message)
        return self == seen or (
            refused in self.or_else
            and replace(self, reason=seen.reason, message=seen.message) == seen
        )


@dataclass(frozen=True, slots=True)
class Enforced:
    """What the kernel makes of one running container.

    ``cpus``: the effective cpuset of its cgroup. ``allowed``: the CPUs that the scheduler may put
    any of its tasks on. ``ran_on``: where tasks were seen to run while they spun; empty unless
    that was watched.
    """

    cpus: CPUSet
    allowed: CPUSet
    ran_on: CPUSet = _NO_CPUS


#: The period of CFS quotas in microseconds, where nothing else is set.
CFS_PERIOD: Final = 100_000


@dataclass(frozen=True, slots=True)
class CFS:
    """How much processor time a running container may use, or the cgroup of a pod. ``quota``:
    microseconds in each ``period`` (microseconds too), ``None`` without a quota. ``shares``: its
    weight, 1024 for one CPU, as the runtime was asked for it; ``None`` where only the kernel was
    asked. ``weight``: that of a pod's cgroup as cgroup v2 has it (``cpu.weight``, 1 to 10000);
    ``None`` where it is not seen."""

    quota: int | None
    shares: int | None = None
    period: int = CFS_PERIOD
    weight: int | None = None


@dataclass(frozen=True, slots=True)
class ReservedCgroup:
    """The cgroup of what is reserved. ``weight``: as cgroup v2 has it (``cpu.weight``); ``cpus``:
    the cpuset that is written into it, empty where none is."""

    weight: int = 1
    cpus: CPUSet = _NO_CPUS


@dataclass(frozen=True, slots=True)
class Asked:
    """What the kubelet asked of its runtime for one container. ``started_on``: the cpuset that it
    was started with, ``None`` without one. ``entry``: its exclusive CPUs in the state file at that
    moment, ``None`` where it had no entry. ``updates``: how often its cpuset was updated since,
    refused updates left out; ``sent``: the cpusets of these updates, in their order. ``mems``: the
    NUMA nodes that its memory is to be from, empty where none were asked for. ``id``: the
    container's, which is another one where it was started again. ``raced``: other pods were
    admitted or refused at the same time, or a round came, so ``started_on`` is the shared pool of
    some moment of it: a round may have removed the entry of a pod that is refused or gone."""

    started_on: CPUSet | None
    entry: CPUSet | None
    updates: int = 0
    id: str = ""
    raced: bool = False
    mems: CPUSet = _NO_CPUS
    sent: tuple[CPUSet, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class HeldDevice:
    """A device as the kubelet reports it at its pod-resources socket; ``numa_nodes`` by rising
    id."""

    resource: str
    id: str
    numa_nodes: tuple[int, ...] = ()


class Offered(NamedTuple):
    """How many devices of a resource a node's status has as ``capacity``, and how many of them as
    ``allocatable``: the healthy ones."""

    capacity: int
    allocatable: int

    def __str__(self) -> str:
        return f"{self.capacity}, of which {self.allocatable} allocatable"


@dataclass(frozen=True, slots=True, order=True)
class HeldMemory:
    """Memory as the kubelet reports it at its pod-resources socket: so many bytes that are of these
    NUMA nodes, by rising id, ordinary memory or huge pages."""

    numa_nodes: tuple[int, ...]
    size: int
    type: str = "memory"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the state file: the shared pool, and all CPUs of its entries."""

    shared_pool: CPUSet
    exclusive: CPUSet


@dataclass(frozen=True, slots=True)
class View:
    """A node at one moment.

    ``running``: whether the kubelet runs. ``error``: the error with which it gave up (the text
    that follows ``start cpu manager error: `` where there is one, else its last error line);
    ``""`` while it runs, and when it was stopped on purpose. ``exit_status``: of a kubelet that
    gave up by itself, else ``None``.

    ``hangs``: why a kubelet is known to do nothing any more, ``""`` where it answers. The model and
    a subject say this in different words, so it is no part of what makes two views equal.

    ``pods``: by pod name. ``assignments``: exclusive CPUs by pod name, then container, as the
    kubelet holds them (read from its state file, uids turned into names; a uid of no known pod
    stays a uid). ``shared_pool``: the default set there; both are empty while there is no state
    file or it cannot be read. ``state_file``: its text, ``None`` without one.

    ``cpusets``: by pod name, then container: the cpuset of every *running* container as the
    runtime has it (``None``: no cpuset was ever asked for, so it may run anywhere).

    ``enforced``: by pod name, then container, what the kernel makes of it; empty where the subject
    has no kernel of its own. It is no part of what makes two views equal: the model has no kernel.

    ``cfs``: by pod name, then container, the processor time of every running container, where it is
    seen or modelled. No part of what makes two views equal.

    ``pod_cfs``: by pod name, the processor time of the cgroup of each pod that has a running
    container, where it is seen or modelled. No part of what makes two views equal.

    ``peak_quotas``: by pod name, the most microseconds that the CFS quotas of the pod's running
    containers came to at one moment, for each pod that has a running container, where that is seen
    or modelled. No part of what makes two views equal.

    ``sandbox_quotas``: by pod name, the CFS quota that the runtime was told when it created the
    sandbox, in microseconds, ``None`` without one; for each pod that has a running container, where
    that is seen or modelled. No part of what makes two views equal.

    ``pods_weight``: the weight of the cgroup that all pods are in; ``burstable_weight``: that of
    the cgroup that all Burstable pods are in, as it was when a pod last got its cgroup. ``None``
    where they are not seen. ``pods_cpus``: the cpuset that is written into the first of them; empty
    where none is. No part of what makes two views equal.

    ``reserved_cgroups``: by the name that the configuration has for it, each cgroup in which a
    kubelet has enforced a reservation since the machine booted, where that is seen or modelled. No
    part of what makes two views equal.

    ``asked``: by pod name, then container, what was asked of the runtime for every running
    container, and for the init containers, which have ended, where it is seen or modelled. No part
    of what makes two views equal.

    ``pod_resources``: by pod name, then container, the CPUs that the kubelet reports at its
    pod-resources socket (empty where it reports the container without a CPU); a pod that is
    gone may still be in it. CPUs of a pod as a whole are under the container ``""``. ``None``
    unless the last step was to ask. ``got_pod``: the same of one pod, where only that was asked
    for. ``allocatable``: the CPUs that it reports there as those that pods could have, ``None``
    unless the last step was to ask for them. ``pod_resources_error``: the text with which it
    refused to answer. ``flood_answers``: how often it answered with which error (``""``: with
    none), ``None`` unless the last step was to ask many times at once. ``devices``: by pod name,
    then container, the devices that it reports there, with ``pod_resources``;
    ``allocatable_devices``: those that pods could have, with ``allocatable``. ``memory`` and
    ``allocatable_memory``: the same of memory, where the memory manager hands it out.
    ``offered``: by resource, the devices of the node's status at its API server, empty unless the
    last step was that a device plugin reported others, or ended.
    ``metrics``: the CPU manager's metrics by name and labels, as they stand at ``/metrics``;
    ``None`` unless the last step was to ask for them. ``versions``: every version of the state file
    that the last step brought, oldest first; ``None`` where they cannot be seen. None of these is
    part of what makes two views equal.
    """

    running: bool
    error: str = ""
    exit_status: int | None = None
    pods: Mapping[str, PodView] = field(default_factory=dict)
    assignments: Mapping[str, Mapping[str, CPUSet]] = field(default_factory=dict)
    shared_pool: CPUSet = _NO_CPUS
    state_file: str | None = None
    cpusets: Mapping[str, Mapping[str, CPUSet | None]] = field(default_factory=dict)
    enforced: Mapping[str, Mapping[str, Enforced]] = field(default_factory=dict, compare=False)
    cfs: Mapping[str, Mapping[str, CFS]] = field(default_factory=dict, compare=False)
    pod_cfs: Mapping[str, CFS] = field(default_factory=dict, compare=False)
    peak_quotas: Mapping[str, int] = field(default_factory=dict, compare=False)
    sandbox_quotas: Mapping[str, int | None] = field(default_factory=dict, compare=False)
    pods_weight: int | None = field(default=None, compare=False)
    burstable_weight: int | None = field(default=None, compare=False)
    pods_cpus: CPUSet = field(default=CPUSet(), compare=False)
    reserved_cgroups: Mapping[str, ReservedCgroup] = field(default_factory=dict, compare=False)
    asked: Mapping[str, Mapping[str, Asked]] = field(default_factory=dict, compare=False)
    pod_resources: Mapping[str, Mapping[str, CPUSet]] | None = field(default=None, compare=False)
    got_pod: Mapping[str, CPUSet] | None = field(default=None, compare=False)
    allocatable: CPUSet | None = field(default=None, compare=False)
    pod_resources_error: str = field(default="", compare=False)
    flood_answers: Mapping[str, int] | None = field(default=None, compare=False)
    devices: Mapping[str, Mapping[str, frozenset[HeldDevice]]] = field(
        default_factory=dict, compare=False
    )
    allocatable_devices: frozenset[HeldDevice] = field(default=frozenset(), compare=False)
    memory: Mapping[str, Mapping[str, frozenset[HeldMemory]]] = field(
        default_factory=dict, compare=False
    )
    allocatable_memory: frozenset[HeldMemory] = field(default=frozenset(), compare=False)
    offered: Mapping[str, Offered] = field(default_factory=dict, compare=False)
    metrics: Mapping[str, float] | None = field(default=None, compare=False)
    versions: tuple[Version, ...] | None = field(default=None, compare=False)
    hangs: str = field(default="", compare=False)
