"""The sandboxes and containers of the fake container runtime, and the log of its calls.

What belongs here: their state, and how a call changes it. What never does: CRI's messages
(:mod:`conformance.subjects.kubelet.cri.handlers`), locks, and judging a kubelet's calls.

An init container exits with status 0 as soon as it is started; every other one runs until it is
stopped. The image says which it is.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import grpc

from conformance.kubelets.manifests import EXIT_IMAGE
from conformance.subjects.kubelet.cri import cri_pb2 as pb
from conformance.subjects.kubelet.cri.service import CallError
from reference.cpuset import CPUSet, CPUSetParseError
from reference.kubelet.runtime import container_id

_RUNNING: Final = pb.ContainerState.CONTAINER_RUNNING
_EXITED: Final = pb.ContainerState.CONTAINER_EXITED
_KILLED: Final = 137  # 128 + SIGKILL, as runtimes report it
_NO_RESOURCES: Final = pb.LinuxContainerResources()
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Call:
    """A call that changed something. ``cpuset`` is the text that was sent, ``""`` for none;
    ``seconds`` are those of ``time.monotonic``."""

    method: str
    pod: str
    container: str = ""
    cpuset: str = ""
    seconds: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        owner = f"{self.pod}/{self.container}" if self.container else self.pod
        return f"{self.method} {owner}" + (f" cpuset {self.cpuset}" if self.cpuset else "")


@dataclass(slots=True)
class PodSandbox:
    """A pod's sandbox as the kubelet asked for it; ``created`` is in nanoseconds since 1970.
    ``peak_quota``: the most microseconds that the CFS quotas of its running containers came to."""

    id: str
    config: pb.PodSandboxConfig
    handler: str
    created: int = field(default_factory=time.time_ns)
    state: pb.PodSandboxState = pb.PodSandboxState.SANDBOX_READY
    peak_quota: int = 0

    @property
    def uid(self) -> str:
        """Of the pod."""
        return self.config.metadata.uid

    @property
    def ready(self) -> bool:
        """Whether it was not stopped."""
        return self.state == pb.PodSandboxState.SANDBOX_READY

    @property
    def cgroup(self) -> str:
        """Without a leading slash; ``""`` if the kubelet named none."""
        return self.config.linux.cgroup_parent.strip("/")

    @property
    def quota(self) -> int | None:
        """The CFS quota that it was created with; ``None`` without one."""
        quota = self.config.linux.resources.cpu_quota
        return quota if quota > 0 else None


@dataclass(slots=True)
class Container:
    """A container as the kubelet asked for it. Times are in nanoseconds since 1970, 0 before the
    event. ``started_on`` and ``state_file``: its cpuset and the CPU manager's state file when it
    was started. ``sent``: the cpusets of its updates since then."""

    id: str
    sandbox: PodSandbox
    config: pb.ContainerConfig
    created: int = field(default_factory=time.time_ns)
    state: pb.ContainerState = pb.ContainerState.CONTAINER_CREATED
    started: int = 0
    finished: int = 0
    exit_code: int = 0
    started_on: str = ""
    state_file: str | None = None
    sent: list[CPUSet] = field(default_factory=list)

    @property
    def uid(self) -> str:
        """Of the pod."""
        return self.sandbox.uid

    @property
    def name(self) -> str:
        """The container's name in the pod."""
        return self.config.metadata.name

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.state == _RUNNING

    @property
    def ends_at_once(self) -> bool:
        """Whether it is an init container."""
        return self.config.image.image == EXIT_IMAGE

    @property
    def resources(self) -> pb.LinuxContainerResources:
        """The resources that were sent last."""
        return self.config.linux.resources

    @property
    def reason(self) -> str:
        """Why it ended, in a runtime's word; ``""`` before."""
        if self.state != _EXITED:
            return ""
        return "Error" if self.exit_code else "Completed"

    def exit(self, code: int) -> None:
        """End it with this status, unless it has ended already."""
        if self.state != _EXITED:
            self.state, self.exit_code, self.finished = _EXITED, code, time.time_ns()


class Containers:
    """All sandboxes and containers of one runtime. ``calls`` are the last calls that changed
    something, oldest first; ``changed`` is called after each. ``sandboxes`` and ``containers`` are
    by id. ``owners``: pod uid and name of every container by id, also of removed ones.
    ``refusals``: how many of the next updates are refused, as a runtime does if a cgroup has
    children (EBUSY). ``refuses``: only updates of containers of this name are (``""``: of any).

    A call for a missing sandbox or container raises :class:`CallError`, unless CRI lets it succeed.
    """

    def __init__(self, changed: Callable[[], None], state_file: Callable[[], str | None]) -> None:
        self.calls: deque[Call] = deque(maxlen=1000)
        self.sandboxes: dict[str, PodSandbox] = {}
        self.containers: dict[str, Container] = {}
        self.owners: dict[str, tuple[str, str]] = {}
        self.refusals = 0
        self.refuses = ""
        self._changed = changed
        self._state_file = state_file
        self._numbers = itertools.count(1)
        self._made: Counter[tuple[str, str]] = Counter()

    def sandbox(self, sandbox_id: str) -> PodSandbox:
        return _found(self.sandboxes, sandbox_id, "sandbox")

    def container(self, container_id: str) -> Container:
        return _found(self.containers, container_id, "container")

    def running(self) -> list[Container]:
        """The running containers, in the order in which they were created."""
        return [container for container in self.containers.values() if container.running]

    def clear(self) -> None:
        """Remove all containers and sandboxes, as a reboot does."""
        self.sandboxes.clear()
        self.containers.clear()

    # --- what calls change -------------------------------------------------------------------

    def run_sandbox(self, config: pb.PodSandboxConfig, handler: str) -> PodSandbox:
        """Make a new sandbox, which is ready."""
        sandbox = PodSandbox(f"{next(self._numbers):064x}", config, handler)
        self.sandboxes[sandbox.id] = sandbox
        self._note("RunPodSandbox", sandbox)
        return sandbox

    def stop_sandbox(self, sandbox_id: str) -> None:
        """Kill the sandbox's containers; does nothing if the sandbox is gone."""
        sandbox = self.sandboxes.get(sandbox_id)
        if sandbox is not None:
            sandbox.state = pb.PodSandboxState.SANDBOX_NOTREADY
            for container in self._in(sandbox):
                container.exit(_KILLED)
            self._note("StopPodSandbox", sandbox)

    def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove the sandbox and its containers; does nothing if the sandbox is gone."""
        sandbox = self.sandboxes.pop(sandbox_id, None)
        if sandbox is not None:
            for container in self._in(sandbox):
                del self.containers[container.id]
            self._note("RemovePodSandbox", sandbox)

    def create(self, sandbox_id: str, config: pb.ContainerConfig) -> Container:
        """Make a container, which does not run yet. Its id is the one that the model expects."""
        sandbox = self.sandbox(sandbox_id)
        _check_cpuset(config.linux.resources.cpuset_cpus)
        _check_cpuset(config.linux.resources.cpuset_mems)
        owner = (sandbox.uid, config.metadata.name)
        self._made[owner] += 1
        container = Container(container_id(*owner, self._made[owner]), sandbox, config)
        self.owners[container.id] = owner
        self.containers[container.id] = container
        self._note("CreateContainer", sandbox, container, container.resources)
        return container

    def start(self, container_id: str) -> None:
        """Start a container; an init container ends at once."""
        container = self.container(container_id)
        container.state, container.started = _RUNNING, time.time_ns()
        container.started_on, container.sent = container.resources.cpuset_cpus, []
        container.state_file = self._state_file()
        if container.ends_at_once:
            container.exit(0)
        self._note_quotas(container.sandbox)
        self._note("StartContainer", container.sandbox, container)

    def stop(self, container_id: str) -> None:
        container = self.container(container_id)
        container.exit(_KILLED)
        self._note("StopContainer", container.sandbox, container)

    def remove(self, container_id: str) -> None:
        """Remove a container; does nothing if it is gone."""
        container = self.containers.pop(container_id, None)
        if container is not None:
            self._note("RemoveContainer", container.sandbox, container)

    def update(self, container_id: str, resources: pb.LinuxContainerResources) -> None:
        """Change the values that ``resources`` sets. In CRI a value of zero is not set."""
        container = self.container(container_id)
        cpus = _check_cpuset(resources.cpuset_cpus)
        if self.refusals and self.refuses in ("", container.name):
            self.refusals -= 1
            raise CallError(grpc.StatusCode.UNKNOWN, "device or resource busy")
        container.resources.MergeFrom(resources)
        self._note_quotas(container.sandbox)
        container.sent += [cpus] if cpus else []
        self._note("UpdateContainerResources", container.sandbox, container, resources)

    def _note_quotas(self, sandbox: PodSandbox) -> None:
        quotas = (one.resources.cpu_quota for one in self._in(sandbox) if one.running)
        sandbox.peak_quota = max(sandbox.peak_quota, sum(max(quota, 0) for quota in quotas))

    def _in(self, sandbox: PodSandbox) -> list[Container]:
        return [each for each in self.containers.values() if each.sandbox is sandbox]

    def _note(
        self,
        method: str,
        sandbox: PodSandbox,
        container: Container | None = None,
        sent: pb.LinuxContainerResources = _NO_RESOURCES,
    ) -> None:
        name = container.name if container else ""
        self.calls.append(Call(method, sandbox.config.metadata.name, name, sent.cpuset_cpus))
        self._changed()


def _found(by_id: dict[str, _T], wanted: str, kind: str) -> _T:
    try:
        return by_id[wanted]
    except KeyError:
        raise CallError(grpc.StatusCode.NOT_FOUND, f"no {kind} {wanted}") from None


def _check_cpuset(text: str) -> CPUSet:
    try:
        return CPUSet.parse(text)
    except CPUSetParseError as error:
        raise CallError(grpc.StatusCode.INVALID_ARGUMENT, f"cpuset {text!r}: {error}") from None
