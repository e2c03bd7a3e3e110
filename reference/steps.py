"""The words in which a node is driven: pods, kubelet settings and steps.

What belongs here: plain facts that a scenario writes down, and that the model as well as every
subject understands. What never does: how a step is carried out, and what ought to come of it.

A node under test is a small state machine. ``Start`` and ``Stop`` move it between *down* and
*running* (or *down with an error*); ``Reboot``, ``Configure`` and the state-file steps are legal
only while it is down; pods come and go at any time, because their manifests lie in a folder that
outlives the kubelet.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from reference.cpuset import CPUSet

#: The exit code of a container whose first process got SIGKILL, as runtimes report it.
SIGKILLED: Final = 137

_POD_NAMESPACE: Final = uuid.UUID("7ab0c1de-5d2f-5a39-9a6e-0d9d3c1b7f10")


class Kind(Enum):
    """What part of a pod a container is."""

    INIT = "init"
    SIDECAR = "sidecar"  # a restartable init container
    APP = "app"


class RestartPolicy(Enum):
    """Which containers of a pod are started again once they have ended (``spec.restartPolicy``).
    Sidecars always are."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"  # those that ended with another exit code than 0
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod, with the resources that decide its CPUs.

    Quantities are Kubernetes' own texts (``"2"``, ``"1500m"``, ``"64Mi"``); ``None`` leaves the
    entry out of the manifest. As in the API, a limit without a request is also the request.
    ``restarts_all_on``: the exit codes with which it has all containers of its pod start again
    (a restart rule with action RestartAllContainers, from 1.36 on by default).
    """

    name: str
    cpu_request: str | None = None
    cpu_limit: str | None = None
    memory_request: str | None = None
    memory_limit: str | None = None
    kind: Kind = Kind.APP
    restarts_all_on: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResources:
    """Pod-level resources (``spec.resources``): quantities as in :class:`Container`."""

    cpu_request: str | None = None
    cpu_limit: str | None = None
    memory_request: str | None = None
    memory_limit: str | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as its manifest states it. ``containers`` is in spec order, init containers first.
    ``resources``: of the pod as a whole (``None``: not in the manifest).

    The uid is written into the manifest, so that the pod keeps its entry in the state file
    whatever release reads it (a static pod without one is named by a hash that changes).
    """

    name: str
    containers: tuple[Container, ...]
    uid: str = ""
    resources: PodResources | None = None
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS

    def __post_init__(self) -> None:
        if not self.uid:
            object.__setattr__(self, "uid", str(uuid.uuid5(_POD_NAMESPACE, self.name)))


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """The settings of a kubelet that decide its CPUs; names are those of KubeletConfiguration.

    ``reserved_system_cpus`` is ``reservedSystemCPUs`` (``None``: not set); ``system_reserved`` and
    ``kube_reserved`` are the cpu quantities of those maps (``None``: not set). A setting that a
    release does not know yet is not there for it: the Topology Manager's scope before 1.20, its
    options before 1.26.
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


@dataclass(frozen=True, slots=True)
class Start:
    """Start the kubelet, and wait until it runs or has given up."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the kubelet: SIGTERM, or SIGKILL if ``kill``. Containers go on running."""

    kill: bool = False


@dataclass(frozen=True, slots=True)
class Reboot:
    """Boot the machine again, as ``machine`` (a name; ``""``: as it was). The kubelet is down
    until the next :class:`Start`; every container is gone; manifests and state file remain."""

    machine: str = ""


@dataclass(frozen=True, slots=True)
class Configure:
    """Give the kubelet, which is down, another configuration."""

    config: KubeletConfig


@dataclass(frozen=True, slots=True)
class Apply:
    """Put the pod's manifest in place."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Delete:
    """Take the pod's manifest away, and wait until its containers are gone. ``force``: they are
    removed behind the kubelet's back at the same moment, as a forced deletion does."""

    pod: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class RemoveState:
    """Remove the state file, while the kubelet is down."""


@dataclass(frozen=True, slots=True)
class WriteState:
    """Put this text in the place of the state file, while the kubelet is down."""

    text: str


@dataclass(frozen=True, slots=True)
class Tamper:
    """Change a running container's cpuset behind the kubelet's back."""

    pod: str
    container: str
    cpus: CPUSet


@dataclass(frozen=True, slots=True)
class AwaitReconcile:
    """Wait until the kubelet has gone through a whole reconcile round."""


@dataclass(frozen=True, slots=True)
class TamperQuota:
    """Give a running container a CFS quota, in microseconds of each 100 ms, behind the kubelet's
    back."""

    pod: str
    container: str
    quota: int


@dataclass(frozen=True, slots=True)
class KillContainer:
    """End a running container behind the kubelet's back: its first process gets SIGKILL, or exits
    with another ``exit_code``. The pod's restart policy decides whether the kubelet starts the
    container again; a pod has ended with the last of its containers."""

    pod: str
    container: str
    exit_code: int = SIGKILLED


@dataclass(frozen=True, slots=True)
class Spin:
    """Let the tasks of every running container spin for a moment, and watch where they run."""


@dataclass(frozen=True, slots=True)
class AskPodResources:
    """Ask the running kubelet at its pod-resources socket which container has which CPUs: of every
    pod (``List``), or of the pod of this name alone (``Get``), which need not be there."""

    pod: str = ""


@dataclass(frozen=True, slots=True)
class AskAllocatable:
    """Ask the running kubelet at its pod-resources socket which CPUs it could give to pods
    (``GetAllocatableResources``)."""


@dataclass(frozen=True, slots=True)
class AskMetrics:
    """Ask the running kubelet for its metrics."""


@dataclass(frozen=True, slots=True)
class RestartRuntime:
    """Restart the container runtime under the kubelet. Containers go on running."""


@dataclass(frozen=True, slots=True)
class FailUpdates:
    """Let the runtime refuse the next ``times`` updates of any container's resources."""

    times: int


@dataclass(frozen=True, slots=True)
class DaemonReload:
    """Let the service manager read its units again."""


@dataclass(frozen=True, slots=True)
class AwaitCrashLoop:
    """Wait until the service manager has started a kubelet that gives up once more."""


@dataclass(frozen=True, slots=True)
class OfflineCPUs:
    """Take CPUs offline under whatever runs; the machine is ``machine`` from now on."""

    cpus: CPUSet
    machine: str


@dataclass(frozen=True, slots=True)
class OnlineCPUs:
    """Bring CPUs back; the machine is ``machine`` from now on."""

    cpus: CPUSet
    machine: str


Step: TypeAlias = (
    Start
    | Stop
    | Reboot
    | Configure
    | Apply
    | Delete
    | RemoveState
    | WriteState
    | Tamper
    | AwaitReconcile
    | TamperQuota
    | KillContainer
    | Spin
    | AskPodResources
    | AskAllocatable
    | AskMetrics
    | RestartRuntime
    | FailUpdates
    | DaemonReload
    | AwaitCrashLoop
    | OfflineCPUs
    | OnlineCPUs
)
