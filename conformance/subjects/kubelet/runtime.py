"""A container runtime that runs nothing: it keeps what a kubelet asked for, and says so.

What belongs here: the state of sandboxes and containers, and the answers of CRI that follow from
it. What never does: gRPC (:mod:`conformance.subjects.kubelet.cri.service`) and any idea of what a
kubelet ought to ask for.

An init container has exited with status 0 as soon as it is started; every other one runs until it
is stopped. Which is which the manifest tells through the image. All images are present.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from conformance.kubelets.manifests import EXIT_IMAGE
from conformance.subjects.kubelet.bell import Bell
from conformance.subjects.kubelet.cri import cri_pb2 as pb
from conformance.subjects.kubelet.cri.service import CallError, serve
from reference.cpuset import CPUSet, CPUSetParseError
from reference.kubelet.runtime import container_id

_CREATED: Final = pb.ContainerState.CONTAINER_CREATED
_RUNNING: Final = pb.ContainerState.CONTAINER_RUNNING
_EXITED: Final = pb.ContainerState.CONTAINER_EXITED
_KILLED: Final = 137  # 128 + SIGKILL, as runtimes report it


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
class _PodSandbox:
    id: str
    config: pb.PodSandboxConfig
    handler: str
    created: int
    state: pb.PodSandboxState = pb.PodSandboxState.SANDBOX_READY


@dataclass(slots=True)
class _Container:
    id: str
    sandbox: _PodSandbox
    config: pb.ContainerConfig
    created: int
    state: pb.ContainerState = _CREATED
    started: int = 0
    finished: int = 0
    exit_code: int = 0

    @property
    def uid(self) -> str:
        return self.sandbox.config.metadata.uid

    @property
    def name(self) -> str:
        return self.config.metadata.name

    @property
    def resources(self) -> pb.LinuxContainerResources:
        return self.config.linux.resources

    def exit(self, code: int) -> None:
        if self.state != _EXITED:
            self.state, self.exit_code, self.finished = _EXITED, code, time.time_ns()


class FakeRuntime:
    """RuntimeService and ImageService on a unix socket. It outlives kubelets.

    ``calls`` are the last calls that changed something, ``not_served_paths`` what was asked for in
    vain, ``called`` whether a kubelet ever called.
    """

    def __init__(self, socket_path: Path, bell: Bell) -> None:
        self.calls: deque[Call] = deque(maxlen=1000)
        self.not_served_paths: set[str] = set()
        self.called = False
        self._bell = bell
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._sandboxes: dict[str, _PodSandbox] = {}
        self._containers: dict[str, _Container] = {}
        self._made: Counter[tuple[str, str]] = Counter()
        self._owners: dict[str, tuple[str, str]] = {}
        self._methods = self._table()
        self._server = serve(self, socket_path)

    def close(self) -> None:
        """Stop serving. May be called twice."""
        self._server.stop(None).wait()

    # --- what the harness sees and does ------------------------------------------------------

    def cpusets(self) -> dict[str, dict[str, CPUSet | None]]:
        """The cpuset of every running container, by pod uid and container name (``None``: none
        was ever sent)."""
        found: dict[str, dict[str, CPUSet | None]] = {}
        with self._lock:
            for container in self._running():
                text = container.resources.cpuset_cpus
                cpus = CPUSet.parse(text) if text else None
                found.setdefault(container.uid, {})[container.name] = cpus
        return found

    def running_ids(self) -> dict[str, str]:
        """The running containers: id to pod uid."""
        with self._lock:
            return {container.id: container.uid for container in self._running()}

    def quotas(self) -> dict[str, dict[str, int]]:
        """The CFS quota of every running container in microseconds, by pod uid and container name
        (0: none was ever sent)."""
        found: dict[str, dict[str, int]] = {}
        with self._lock:
            for container in self._running():
                found.setdefault(container.uid, {})[container.name] = container.resources.cpu_quota
        return found

    def pods(self) -> set[str]:
        """The uids of the pods for which there is a sandbox."""
        with self._lock:
            return {each.config.metadata.uid for each in self._sandboxes.values()}

    def owner(self, container: str) -> tuple[str, str] | None:
        """Pod uid and name of the container of this id, though it be gone."""
        with self._lock:
            return self._owners.get(container)

    def set_cpuset(self, uid: str, name: str, cpus: CPUSet) -> bool:
        """Change a running container's cpuset behind the kubelet's back; whether it is there."""
        with self._lock:
            for container in self._running():
                if (container.uid, container.name) == (uid, name):
                    container.resources.cpuset_cpus = str(cpus)
                    return True
        return False

    def recent_calls(self, number: int) -> list[Call]:
        """The last ``number`` calls that changed something."""
        with self._lock:
            return list(self.calls)[-number:]

    def drop_everything(self) -> None:
        """What a reboot does: no container, no sandbox."""
        with self._lock:
            self._sandboxes.clear()
            self._containers.clear()

    def _running(self) -> list[_Container]:
        return [container for container in self._containers.values() if container.state == _RUNNING]

    # --- what gRPC brings --------------------------------------------------------------------

    def answer(self, method: str, version: str, request: Message) -> Message:
        """One call of a kubelet; see :class:`conformance.subjects.kubelet.cri.service.Listener`."""
        self.called = True
        if method == "Version":
            return _version(version)
        with self._lock:
            return self._methods[method](request) if method in self._methods else pb.Empty()

    def not_served(self, path: str) -> None:
        """Note a call that is not served."""
        self.not_served_paths.add(path)
        self._bell.ring()

    def _table(self) -> Mapping[str, Callable[[Any], Message]]:
        """What has an answer; the other served methods answer with an empty message."""
        return {
            "Status": _status,
            "RuntimeConfig": _runtime_config,
            "RunPodSandbox": self._run_pod_sandbox,
            "StopPodSandbox": self._stop_pod_sandbox,
            "RemovePodSandbox": self._remove_pod_sandbox,
            "PodSandboxStatus": self._pod_sandbox_status,
            "ListPodSandbox": self._list_pod_sandbox,
            "CreateContainer": self._create_container,
            "StartContainer": self._start_container,
            "StopContainer": self._stop_container,
            "RemoveContainer": self._remove_container,
            "ContainerStatus": self._container_status,
            "ListContainers": self._list_containers,
            "UpdateContainerResources": self._update_container_resources,
            "ImageStatus": _image_status,
            "PullImage": lambda request: pb.PullImageResponse(image_ref=request.image.image),
            "ImageFsInfo": _image_fs_info,
        }

    def _note(self, method: str, pod: _PodSandbox, container: str = "", cpuset: str = "") -> None:
        self.calls.append(Call(method, pod.config.metadata.name, container, cpuset))
        self._bell.ring()

    def _sandbox(self, sandbox_id: str) -> _PodSandbox:
        try:
            return self._sandboxes[sandbox_id]
        except KeyError:
            raise CallError(grpc.StatusCode.NOT_FOUND, f"no sandbox {sandbox_id}") from None

    def _container(self, container_id: str) -> _Container:
        try:
            return self._containers[container_id]
        except KeyError:
            raise CallError(grpc.StatusCode.NOT_FOUND, f"no container {container_id}") from None

    def _new_id(self) -> str:
        return f"{next(self._numbers):064x}"

    # --- pod sandboxes -----------------------------------------------------------------------

    def _run_pod_sandbox(self, request: pb.RunPodSandboxRequest) -> Message:
        made = _PodSandbox(
            self._new_id(), request.config, request.runtime_handler, time.time_ns()
        )  # fmt: skip
        self._sandboxes[made.id] = made
        self._note("RunPodSandbox", made)
        return pb.PodSandboxId(pod_sandbox_id=made.id)

    def _stop_pod_sandbox(self, request: pb.PodSandboxId) -> Message:
        sandbox = self._sandboxes.get(request.pod_sandbox_id)
        if sandbox is not None:
            sandbox.state = pb.PodSandboxState.SANDBOX_NOTREADY
            for container in self._containers_of(sandbox):
                container.exit(_KILLED)
            self._note("StopPodSandbox", sandbox)
        return pb.Empty()

    def _remove_pod_sandbox(self, request: pb.PodSandboxId) -> Message:
        sandbox = self._sandboxes.pop(request.pod_sandbox_id, None)
        if sandbox is not None:
            for container in self._containers_of(sandbox):
                del self._containers[container.id]
            self._note("RemovePodSandbox", sandbox)
        return pb.Empty()

    def _containers_of(self, sandbox: _PodSandbox) -> list[_Container]:
        return [each for each in self._containers.values() if each.sandbox is sandbox]

    def _pod_sandbox_status(self, request: pb.PodSandboxId) -> Message:
        sandbox = self._sandbox(request.pod_sandbox_id)
        # The namespace options have to come back as they went in: a kubelet that misses them takes
        # the sandbox for changed and makes it anew, for ever.
        options = sandbox.config.linux.security_context.namespace_options
        return pb.PodSandboxStatusResponse(
            status=pb.PodSandboxStatus(
                id=sandbox.id,
                metadata=sandbox.config.metadata,
                state=sandbox.state,
                created_at=sandbox.created,
                network=pb.PodSandboxNetworkStatus(ip="127.0.0.1"),
                linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options)),
                labels=sandbox.config.labels,
                annotations=sandbox.config.annotations,
                runtime_handler=sandbox.handler,
            )
        )

    def _list_pod_sandbox(self, request: pb.ListPodSandboxRequest) -> Message:
        wanted = request.filter
        return pb.ListPodSandboxResponse(
            items=[
                pb.PodSandbox(
                    id=sandbox.id,
                    metadata=sandbox.config.metadata,
                    state=sandbox.state,
                    created_at=sandbox.created,
                    labels=sandbox.config.labels,
                    annotations=sandbox.config.annotations,
                    runtime_handler=sandbox.handler,
                )
                for sandbox in self._sandboxes.values()
                if wanted.id in ("", sandbox.id)
                and (not wanted.HasField("state") or wanted.state.state == sandbox.state)
                and _has_labels(sandbox.config.labels, wanted.label_selector)
            ]
        )

    # --- containers --------------------------------------------------------------------------

    def _create_container(self, request: pb.CreateContainerRequest) -> Message:
        sandbox = self._sandbox(request.pod_sandbox_id)
        cpuset = request.config.linux.resources.cpuset_cpus
        _check_cpuset(cpuset)
        owner = (sandbox.config.metadata.uid, request.config.metadata.name)
        self._made[owner] += 1
        new_id = container_id(*owner, self._made[owner])
        self._owners[new_id] = owner
        made = _Container(new_id, sandbox, request.config, time.time_ns())
        self._containers[made.id] = made
        self._note("CreateContainer", sandbox, made.name, cpuset)
        return pb.ContainerId(container_id=made.id)

    def _start_container(self, request: pb.ContainerId) -> Message:
        container = self._container(request.container_id)
        container.state, container.started = _RUNNING, time.time_ns()
        if container.config.image.image == EXIT_IMAGE:
            container.exit(0)
        self._note("StartContainer", container.sandbox, container.name)
        return pb.Empty()

    def _stop_container(self, request: pb.ContainerId) -> Message:
        container = self._container(request.container_id)
        container.exit(_KILLED)
        self._note("StopContainer", container.sandbox, container.name)
        return pb.Empty()

    def _remove_container(self, request: pb.ContainerId) -> Message:
        container = self._containers.pop(request.container_id, None)
        if container is not None:
            self._note("RemoveContainer", container.sandbox, container.name)
        return pb.Empty()

    def _update_container_resources(self, request: pb.UpdateContainerResourcesRequest) -> Message:
        container = self._container(request.container_id)
        _check_cpuset(request.linux.cpuset_cpus)
        # Merging leaves alone what the request has not set, which is what CRI says of zero values.
        container.resources.MergeFrom(request.linux)
        cpuset = request.linux.cpuset_cpus
        self._note("UpdateContainerResources", container.sandbox, container.name, cpuset)
        return pb.Empty()

    def _container_status(self, request: pb.ContainerId) -> Message:
        container = self._container(request.container_id)
        config = container.config
        return pb.ContainerStatusResponse(
            status=pb.ContainerStatus(
                id=container.id,
                metadata=config.metadata,
                state=container.state,
                created_at=container.created,
                started_at=container.started,
                finished_at=container.finished,
                exit_code=container.exit_code,
                image=config.image,
                image_ref=config.image.image,
                image_id=config.image.image,
                reason=_reason(container),
                labels=config.labels,
                annotations=config.annotations,
                log_path=config.log_path,
                resources=pb.ContainerResources(linux=container.resources),
            )
        )

    def _list_containers(self, request: pb.ListContainersRequest) -> Message:
        wanted = request.filter
        return pb.ListContainersResponse(
            containers=[
                pb.Container(
                    id=container.id,
                    pod_sandbox_id=container.sandbox.id,
                    metadata=container.config.metadata,
                    image=container.config.image,
                    image_ref=container.config.image.image,
                    image_id=container.config.image.image,
                    state=container.state,
                    created_at=container.created,
                    labels=container.config.labels,
                    annotations=container.config.annotations,
                )
                for container in self._containers.values()
                if wanted.id in ("", container.id)
                and wanted.pod_sandbox_id in ("", container.sandbox.id)
                and (not wanted.HasField("state") or wanted.state.state == container.state)
                and _has_labels(container.config.labels, wanted.label_selector)
            ]
        )


def _version(version: str) -> Message:
    return pb.VersionResponse(
        version="0.1.0",
        runtime_name="pinproof",
        runtime_version="1.0.0",
        runtime_api_version=version,
    )


def _status(_: Message) -> Message:
    conditions = [
        pb.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")
    ]
    return pb.StatusResponse(status=pb.RuntimeStatus(conditions=conditions))


def _runtime_config(_: Message) -> Message:
    linux = pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CgroupDriver.CGROUPFS)
    return pb.RuntimeConfigResponse(linux=linux)


def _image_status(request: pb.ImageRequest) -> Message:
    name = request.image.image
    return pb.ImageStatusResponse(image=pb.Image(id=name, repo_tags=[name], size=1))


def _image_fs_info(_: Message) -> Message:
    usage = pb.FilesystemUsage(
        timestamp=time.time_ns(),
        fs_id=pb.FilesystemIdentifier(mountpoint="/"),
        used_bytes=pb.UInt64Value(value=0),
        inodes_used=pb.UInt64Value(value=0),
    )
    return pb.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])


def _reason(container: _Container) -> str:
    if container.state != _EXITED:
        return ""
    return "Error" if container.exit_code else "Completed"


def _has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def _check_cpuset(text: str) -> None:
    try:
        CPUSet.parse(text)
    except CPUSetParseError as error:
        raise CallError(grpc.StatusCode.INVALID_ARGUMENT, f"cpuset {text!r}: {error}") from None
