"""What drives a node: pods, kubelet settings and steps.

A node under test is a small state machine. ``Start`` and ``Stop`` move it between *down* and
*running* (or *down with an error*); ``Reboot``, ``Configure`` and the state-file steps are legal
only while it is down; pods come and go at any time, because their manifests lie in a folder that
outlives the kubelet.

Each step has its ``sentence``: one line, as explanations and reports show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, TypeAlias

from reference.cpuset import CPUSet
from reference.pods.pod import Container as Container
from reference.pods.pod import Kind as Kind
from reference.pods.pod import Pod as Pod
from reference.pods.pod import PodResources as PodResources
from reference.pods.pod import RestartPolicy as RestartPolicy
from reference.pods.qos import pod_text
from reference.view import CFS_PERIOD

#: Milliseconds between two reconcile rounds: of kubelets that are started in a sandbox, and what a
#: kubelet has by itself.
RECONCILE_PERIOD: Final = 100
PRODUCTION_PERIOD: Final = 10_000

#: What ``enforceNodeAllocatable`` enforces by itself, and what it can enforce of reservations.
ENFORCED_ON_PODS: Final = "pods"
KUBE_RESERVED: Final = "kube-reserved"
SYSTEM_RESERVED: Final = "system-reserved"
#: Behind either of them: only of the CPU time, from 1.32 on.
COMPRESSIBLE: Final = "-compressible"
#: The cgroups that a node has for what is reserved, as ``kubeReservedCgroup`` names them; another
#: one does not exist.
RESERVED_CGROUPS: Final = ("/kube.slice", "/system.slice")

#: The calls of a runtime (CRI) that create a container, and that give a running one other CPUs.
CREATE: Final = "CreateContainer"
UPDATE: Final = "UpdateContainerResources"

#: The exit code of a container whose first process got SIGKILL, as runtimes report it.
SIGKILLED: Final = 137


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """The settings of a kubelet that decide its CPUs; names are those of KubeletConfiguration.

    ``reserved_system_cpus`` is ``reservedSystemCPUs`` (``None``: not set); ``system_reserved`` and
    ``kube_reserved`` are the cpu quantities of those maps (``None``: not set). A setting that a
    release does not know yet is not there for it: the Topology Manager's scope before 1.20, its
    options before 1.26. ``cpu_cfs_quota`` is ``cpuCFSQuota``; ``cpu_cfs_quota_period`` is
    ``cpuCFSQuotaPeriod``, in microseconds.
    ``reconcile_period`` is ``cpuManagerReconcilePeriod``, in milliseconds; where it is the default,
    a real node keeps its own. It decides no CPUs, only when they are corrected.
    ``api_server``: the kubelet belongs to a cluster, and its pods come from the API server instead
    of manifests; a node keeps that.

    ``reserved_memory`` is ``reservedMemory``, the quantity of ordinary memory by NUMA node.
    ``memory_reservation`` is what the node reserves as a whole: systemReserved and the eviction
    threshold together (``None``: as much as ``reserved_memory`` adds up to).

    ``enforce_node_allocatable`` is ``enforceNodeAllocatable`` where the node has cgroups for pods;
    ``kube_reserved_cgroup`` and ``system_reserved_cgroup`` are ``kubeReservedCgroup`` and
    ``systemReservedCgroup`` (``None``: not set).
    """

    policy: str = "static"
    reserved_system_cpus: CPUSet | None = None
    system_reserved: str | None = None
    kube_reserved: str | None = None
    policy_options: Mapping[str, str] = field(default_factory=dict)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_policy_options: Mapping[str, str] = field(default_factory=dict)
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period: int = CFS_PERIOD
    api_server: bool = False
    memory_manager_policy: str = "None"
    reserved_memory: Mapping[int, str] = field(default_factory=dict)
    memory_reservation: str | None = None
    reconcile_period: int = RECONCILE_PERIOD
    enforce_node_allocatable: tuple[str, ...] = (ENFORCED_ON_PODS,)
    kube_reserved_cgroup: str | None = None
    system_reserved_cgroup: str | None = None

    def __str__(self) -> str:
        """As ``policy static, reservedSystemCPUs 0,4``: the policy, and what is not the default."""
        named = (
            ("reservedSystemCPUs", self.reserved_system_cpus),
            ("systemReserved cpu", self.system_reserved),
            ("kubeReserved cpu", self.kube_reserved),
            ("systemReservedCgroup", self.system_reserved_cgroup),
            ("kubeReservedCgroup", self.kube_reserved_cgroup),
        )
        return ", ".join(
            [
                f"policy {self.policy}",
                *(f"{name} {value}" for name, value in named if value is not None),
                *_listed("option", self.policy_options),
                *self._topology_manager(),
                *self._times(),
                *self._enforced(),
                *_listed("gate", self.feature_gates),
                *(["pods from an API server"] if self.api_server else []),
            ]
        )

    def with_memory_manager_of(self, other: KubeletConfig) -> KubeletConfig:
        """These settings, with the memory manager of the others."""
        return replace(
            self,
            memory_manager_policy=other.memory_manager_policy,
            reserved_memory=other.reserved_memory,
            memory_reservation=other.memory_reservation,
        )

    def _times(self) -> Iterator[str]:
        if not self.cpu_cfs_quota:
            yield "cpuCFSQuota false"
        if self.cpu_cfs_quota_period != CFS_PERIOD:
            yield f"cpuCFSQuotaPeriod {self.cpu_cfs_quota_period} us"
        if self.reconcile_period != RECONCILE_PERIOD:
            yield f"cpuManagerReconcilePeriod {self.reconcile_period / 1000:g} s"

    def _enforced(self) -> Iterator[str]:
        if self.enforce_node_allocatable != (ENFORCED_ON_PODS,):
            yield f"enforceNodeAllocatable {' '.join(self.enforce_node_allocatable)}"

    def _topology_manager(self) -> Iterator[str]:
        if self.topology_manager_policy != "none":
            yield f"Topology Manager {self.topology_manager_policy}"
        if self.topology_manager_scope != "container":
            yield f"Topology Manager scope {self.topology_manager_scope}"
        yield from _listed("Topology Manager option", self.topology_manager_policy_options)
        if self.memory_manager_policy != "None":
            yield f"memory manager {self.memory_manager_policy}"
        for node, amount in sorted(self.reserved_memory.items()):
            yield f"reservedMemory {amount} in NUMA node {node}"
        if self.memory_reservation is not None:
            yield f"{self.memory_reservation} of memory reserved as a whole"


@dataclass(frozen=True, slots=True)
class Start:
    """Start the kubelet, and wait until it runs or has given up."""

    sentence: ClassVar[str] = "start the kubelet"


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the kubelet: SIGTERM, or SIGKILL if ``kill``. Containers go on running."""

    kill: bool = False

    @property
    def sentence(self) -> str:
        return "kill the kubelet (SIGKILL)" if self.kill else "stop the kubelet (SIGTERM)"


@dataclass(frozen=True, slots=True)
class KillAtRename:
    """Have the kubelet killed (SIGKILL) at the ``number``-th rename of its state file from now on:
    just before it, or just ``after`` it. A kubelet writes each version of the file beside it and
    renames it into place. ``any_file``: the renames of every file below the kubelet's root count,
    which the model does not know."""

    number: int
    after: bool = False
    any_file: bool = False

    @property
    def sentence(self) -> str:
        when = "after" if self.after else "before"
        whose = "any of its files" if self.any_file else "its state file"
        return f"have the kubelet killed {when} rename {self.number} of {whose} from now on"


@dataclass(frozen=True, slots=True)
class Reboot:
    """Boot the machine again, as ``machine`` (a name; ``""``: as it was). The kubelet is down
    until the next :class:`Start`; every container is gone; manifests and state file remain."""

    machine: str = ""

    @property
    def sentence(self) -> str:
        return f"reboot the machine as {self.machine}" if self.machine else "reboot the machine"


@dataclass(frozen=True, slots=True)
class Configure:
    """Give the kubelet, which is down, another configuration."""

    config: KubeletConfig

    @property
    def sentence(self) -> str:
        return f"configure the kubelet: {self.config}"


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Put the kubelet of another ``release`` in the place of this one, which is down. Machine,
    configuration, manifests, state file and containers stay."""

    release: str

    @property
    def sentence(self) -> str:
        return f"replace the kubelet by one of {self.release}"


@dataclass(frozen=True, slots=True)
class Apply:
    """Put the pod's manifest in place."""

    pod: Pod

    @property
    def sentence(self) -> str:
        return f"apply {pod_text(self.pod)}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Take the pod's manifest away, and wait until its containers are gone. ``force``: they are
    removed behind the kubelet's back as it takes the pod away, as a forced deletion does."""

    pod: str
    force: bool = False

    @property
    def sentence(self) -> str:
        return f"delete pod {self.pod} by force" if self.force else f"delete pod {self.pod}"


@dataclass(frozen=True, slots=True)
class Replace:
    """Delete a pod, and apply another as soon as the containers of the first are gone: no reconcile
    round is waited for, so the admission itself has to find what has become free."""

    gone: str
    pod: Pod

    @property
    def sentence(self) -> str:
        return f"delete pod {self.gone}, and at once apply {pod_text(self.pod)}"


@dataclass(frozen=True, slots=True)
class ApplyTogether:
    """Apply several pods at once: a running kubelet hears of each, in this order, before the
    containers of the first are there. ``slow``: the first call to the runtime
    of this kind takes its time. With :data:`CREATE` it creates the first container of the first
    pod; with :data:`UPDATE` it gives a shared container the pool that the first pod has left. The
    other pods are applied when the call has come, and it ends when they run or are refused."""

    pods: tuple[Pod, ...]
    slow: str = ""

    @property
    def sentence(self) -> str:
        if self.slow:
            first, *others = map(pod_text, self.pods)
            return f"apply {first}, and {', '.join(others)} while the first {self.slow} still runs"
        return f"apply at once {', '.join(map(pod_text, self.pods))}"


@dataclass(frozen=True, slots=True)
class ReplaceStopping:
    """Delete a pod whose containers take their time to end, and apply another pod meanwhile. They
    end in :class:`EndStopping`, which has to be the next step."""

    gone: str
    pod: Pod

    @property
    def sentence(self) -> str:
        return f"delete pod {self.gone}, and apply {pod_text(self.pod)} while it still stops"


@dataclass(frozen=True, slots=True)
class EndStopping:
    """Let the containers of the pod that stops end."""

    sentence: ClassVar[str] = "let the containers end that still stop"


@dataclass(frozen=True, slots=True)
class Resize:
    """Give a pod from the API server other resources, in place: those of ``pod``, which has the
    same name and uid."""

    pod: Pod

    @property
    def sentence(self) -> str:
        return f"resize in place to {pod_text(self.pod)}"


@dataclass(frozen=True, slots=True)
class AddEphemeral:
    """Add an ephemeral container to a pod from the API server; it runs until it is killed."""

    pod: str
    container: str

    @property
    def sentence(self) -> str:
        return f"add ephemeral container {self.container} to pod {self.pod}"


@dataclass(frozen=True, slots=True)
class RemoveState:
    """Remove the state file, while the kubelet is down."""

    sentence: ClassVar[str] = "remove the state file"


@dataclass(frozen=True, slots=True)
class WriteState:
    """Put this text in the place of the state file, while the kubelet is down."""

    text: str

    @property
    def sentence(self) -> str:
        return f"write the state file: {_shortened(self.text)}"


@dataclass(frozen=True, slots=True)
class Tamper:
    """Change a running container's cpuset behind the kubelet's back."""

    pod: str
    container: str
    cpus: CPUSet

    @property
    def sentence(self) -> str:
        owner = f"{self.pod}/{self.container}"
        return f"set the cpuset of {owner} to {self.cpus} behind the kubelet's back"


@dataclass(frozen=True, slots=True)
class AwaitReconcile:
    """Wait until the kubelet has gone through a whole reconcile round."""

    sentence: ClassVar[str] = "wait for a reconcile round"


@dataclass(frozen=True, slots=True)
class TamperQuota:
    """Give a running container a CFS quota, in microseconds of each 100 ms, behind the kubelet's
    back."""

    pod: str
    container: str
    quota: int

    @property
    def sentence(self) -> str:
        owner = f"{self.pod}/{self.container}"
        return f"give {owner} a CFS quota of {self.quota} us behind the kubelet's back"


@dataclass(frozen=True, slots=True)
class KillContainer:
    """End a running container behind the kubelet's back: its first process gets SIGKILL, or exits
    with another ``exit_code``. The pod's restart policy decides whether the kubelet starts the
    container again; a pod has ended with the last of its containers."""

    pod: str
    container: str
    exit_code: int = SIGKILLED

    @property
    def sentence(self) -> str:
        owner = f"{self.pod}/{self.container}"
        if self.exit_code != SIGKILLED:
            return f"let container {owner} exit with code {self.exit_code}"
        return f"kill container {owner} (SIGKILL)"


@dataclass(frozen=True, slots=True)
class Spin:
    """Let the tasks of every running container spin for a moment, and watch where they run."""

    sentence: ClassVar[str] = "let every container spin, and watch where it runs"


@dataclass(frozen=True, slots=True)
class AskPodResources:
    """Ask the running kubelet at its pod-resources socket which container has which CPUs: of every
    pod (``List``), or of the pod of this name alone (``Get``), which need not be there."""

    pod: str = ""

    @property
    def sentence(self) -> str:
        asked = "ask the kubelet at its pod-resources socket"
        return f"{asked} for pod {self.pod}" if self.pod else asked


@dataclass(frozen=True, slots=True)
class AskAllocatable:
    """Ask the running kubelet at its pod-resources socket which CPUs it could give to pods
    (``GetAllocatableResources``)."""

    sentence: ClassVar[str] = (
        "ask the kubelet at its pod-resources socket which CPUs pods could have"
    )


@dataclass(frozen=True, slots=True)
class FloodPodResources:
    """Ask the running kubelet at its pod-resources socket for every pod, ``times`` times at
    once."""

    times: int

    @property
    def sentence(self) -> str:
        return f"ask the kubelet at its pod-resources socket {self.times} times at once"


@dataclass(frozen=True, slots=True)
class AskMetrics:
    """Ask the running kubelet for its metrics."""

    sentence: ClassVar[str] = "ask the kubelet for its metrics"


@dataclass(frozen=True, slots=True)
class RestartRuntime:
    """Restart the container runtime under the kubelet. Containers go on running."""

    sentence: ClassVar[str] = "restart the container runtime"


#: As good as every update: a kubelet tries again in each reconcile round, ten times a second at
#: most.
FOR_EVER: Final = 10_000


@dataclass(frozen=True, slots=True)
class FailUpdates:
    """Let the runtime refuse the next ``times`` updates of any container's resources;
    :data:`FOR_EVER` and more: every one. ``container``: it refuses only updates of containers of
    this name. The step replaces an earlier one."""

    times: int
    container: str = ""

    @property
    def sentence(self) -> str:
        of = f" of container {self.container}" if self.container else ""
        return f"let the container runtime refuse the next {self.times} updates{of}"


@dataclass(frozen=True, slots=True)
class FailWrites:
    """Let the next ``times`` writes of the running kubelet's state file fail, as on a full file
    system (ENOSPC); 0: none. A kubelet that starts later can write."""

    times: int

    @property
    def sentence(self) -> str:
        return f"let the next {self.times} writes of the state file fail: no space left on device"


@dataclass(frozen=True, slots=True)
class Device:
    """One device that a plugin serves. ``numa_nodes``: the ids of the NUMA nodes that it is near
    to; empty where the plugin names none, or, with ``names_none``, where it sends an empty list.
    ``healthy``: whether the plugin says that the device is."""

    id: str
    numa_nodes: tuple[int, ...] = ()
    names_none: bool = False
    healthy: bool = True

    def __str__(self) -> str:
        """As ``d0 on NUMA node 1``, or ``d0 on NUMA node 1 (unhealthy)``."""
        return self._place if self.healthy else f"{self._place} (unhealthy)"

    @property
    def _place(self) -> str:
        if not self.numa_nodes:
            return f"{self.id} on no NUMA node" if self.names_none else self.id
        noun = "NUMA node" if len(self.numa_nodes) == 1 else "NUMA nodes"
        return f"{self.id} on {noun} {CPUSet(self.numa_nodes)}"


@dataclass(frozen=True, slots=True)
class RegisterDevices:
    """Start a device plugin for a resource at the running kubelet, in place of an earlier one, and
    wait until the kubelet knows its devices. Where several would do, the plugin prefers those whose
    ids come first. It ends with the kubelet, or by :class:`EndDevicePlugin`. Each call of Allocate
    takes so many ``seconds``, and the first ``failures`` of them fail."""

    resource: str
    devices: tuple[Device, ...]
    failures: int = 0
    seconds: int = 0

    @property
    def sentence(self) -> str:
        said = f"register the devices {', '.join(map(str, self.devices))} as {self.resource}"
        said += f", whose first {self.failures} allocations fail" if self.failures else ""
        return f"{said}, each allocation takes {self.seconds} s" if self.seconds else said


@dataclass(frozen=True, slots=True)
class ReportDevices:
    """Let the device plugin of a resource report these devices in place of those that it has
    reported before, as where one of them becomes unhealthy (``ListAndWatch``), and wait until the
    kubelet knows them."""

    resource: str
    devices: tuple[Device, ...]

    @property
    def sentence(self) -> str:
        devices = ", ".join(map(str, self.devices))
        return f"let the device plugin of {self.resource} report the devices {devices}"


@dataclass(frozen=True, slots=True)
class EndDevicePlugin:
    """End the device plugin of a resource, and wait until the node's status says so at the API
    server, which the node needs."""

    resource: str

    @property
    def sentence(self) -> str:
        return f"end the device plugin of {self.resource}"


@dataclass(frozen=True, slots=True)
class DaemonReload:
    """Let the service manager read its units again."""

    sentence: ClassVar[str] = "let systemd read its units again (daemon-reload)"


@dataclass(frozen=True, slots=True)
class AwaitCrashLoop:
    """Wait until the service manager has started a kubelet that gives up once more."""

    sentence: ClassVar[str] = "wait until the kubelet has been started once more"


@dataclass(frozen=True, slots=True)
class OfflineCPUs:
    """Take CPUs offline under whatever runs; the machine is ``machine`` from now on."""

    cpus: CPUSet
    machine: str

    @property
    def sentence(self) -> str:
        return f"take CPUs {self.cpus} offline"


@dataclass(frozen=True, slots=True)
class OnlineCPUs:
    """Bring CPUs back; the machine is ``machine`` from now on."""

    cpus: CPUSet
    machine: str

    @property
    def sentence(self) -> str:
        return f"bring CPUs {self.cpus} online"


Step: TypeAlias = (
    Start | Stop | KillAtRename | Reboot | Configure | TakeOver | Apply | Delete | Replace
    | ApplyTogether | ReplaceStopping | EndStopping | Resize | AddEphemeral | RemoveState
    | WriteState | Tamper | AwaitReconcile | TamperQuota | KillContainer | Spin | AskPodResources
    | AskAllocatable | FloodPodResources | AskMetrics | RestartRuntime | FailUpdates | FailWrites
    | RegisterDevices | ReportDevices | EndDevicePlugin | DaemonReload | AwaitCrashLoop
    | OfflineCPUs | OnlineCPUs
)  # fmt: skip


def _listed(noun: str, options: Mapping[str, object]) -> list[str]:
    return [f"{noun} {key}={value}" for key, value in sorted(options.items())]


def _shortened(text: str) -> str:
    if not text:
        return "(empty)"
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text)} characters)"


def applied(step: Step) -> tuple[Pod, ...]:
    """The pods that a step applies, in their order."""
    match step:
        case Apply(pod=pod) | Replace(pod=pod) | ReplaceStopping(pod=pod):
            return (pod,)
        case ApplyTogether(pods=pods):
            return pods
        case _:
            return ()


def note_pods(pods: dict[str, Pod], steps: Iterable[Step]) -> None:
    """Note in ``pods``, by name, which there are after pods were applied and deleted."""
    for step in steps:
        if isinstance(step, Apply):
            pods[step.pod.name] = step.pod
        elif isinstance(step, Delete):
            pods.pop(step.pod, None)
