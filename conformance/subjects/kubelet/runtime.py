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
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from conformance.subjects.kubelet.bell import Bell
from conformance.subjects.kubelet.cri import cri_pb2 as pb
from conformance.subjects.kubelet.cri.service import CallError, serve
from reference.cpuset import CPUSet, CPUSetParseError

#: Containers of this image exit at once; those of any other run for ever.
EXIT_IMAGE: Final = "pinproof.invalid/exit:1"
PAUSE_IMAGE: Final = "pinproof.invalid/pause:1"

_RUNNING: Final = pb.ContainerState.CONTAINER_RUNNING
_EXITED: Final = pb.ContainerState.CONTAINER_EXITED
_KILLED: Final = 137


@dataclass(frozen=True, slots=True)
class Call:
    """A call that changed something. ``cpuset`` is the text that was sent, ``""`` for none;
    ``seconds`` are those of ``time.monotonic``."""

    method: str
    pod: str = ""
    container: str = ""
    cpuset: str = ""
    seconds: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        owner = f" {self.pod}/{self.container}" if self.container else f" {self.pod}"
        return f"{self.method}{owner}" + (f" cpuset {self.cpuset}" if self.cpuset else "")


@dataclass(slots=True)
class _PodSandbox:
    id: str
    config: pb.PodSandboxConfig
    handler: str
    created: int
    ready: bool = True


@dataclass(slots=True)
class _Container:
    id: str
    sandbox: _PodSandbox
    config: pb.ContainerConfig
    resources: pb.LinuxContainerResources
    created: int
    state: pb.ContainerState = pb.ContainerState.CONTAINER_CREATED
    started: int = 0
    finished: int = 0
    exit_code: int = 0

    @property
    def uid(self) -> str:
        return self.sandbox.config.metadata.uid

    @property
    def name(self) -> str:
        return self.config.metadata.name


class FakeRuntime:
    """RuntimeService and ImageService on a unix socket. It outlives kubelets.

    ``calls`` are the last calls that changed something, ``not_served_paths`` what was asked for in
    vain, ``called`` whether any kubelet ever called.
    """

    def __init__(self, socket_path: Path, bell: Bell) -> None:
        self.calls: deque[Call] = deque(maxlen=2000)
        self.not_served_paths: set[str] = set()
        self.called = False
        self._bell = bell
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._sandboxes: dict[str, _PodSandbox] = {}
        self._containers: dict[str, _Container] = {}
        self._methods = _methods_of(self)
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
            for container in self._containers.values():
                if container.state == _RUNNING:
                    text = container.resources.cpuset_cpus
                    cpus = CPUSet.parse(text) if text else None
                    found.setdefault(container.uid, {})[container.name] = cpus
        return found

    def container_ids(self, uid: str | None = None) -> dict[str, str]:
        """Running containers by id, with the name: all of them, or those of one pod."""
        with self._lock:
            return {
                container.id: container.name
                for container in self._containers.values()
                if container.state == _RUNNING and uid in (None, container.uid)
            }

    def set_cpuset(self, uid: str, name: str, cpus: CPUSet) -> bool:
        """Change a running container's cpuset behind the kubelet's back; whether it is there."""
        with self._lock:
            for container in self._containers.values():
                if (container.uid, container.name, container.state) == (uid, name, _RUNNING):
                    container.resources.cpuset_cpus = str(cpus)
                    return True
        return False

    def drop_everything(self) -> None:
        """What a reboot does: no container, no sandbox."""
        with self._lock:
            self._sandboxes.clear()
            self._containers.clear()

    # --- what gRPC brings --------------------------------------------------------------------

    def answer(self, method: str, version: str, request: Message) -> Message:
        """One call of a kubelet; see :class:`conformance.subjects.kubelet.cri.service.Listener`."""
        self.called = True
        if method == "Version":
            return pb.VersionResponse(
                version="0.1.0",
                runtime_name="pinproof",
                runtime_version="1.0.0",
                runtime_api_version=version,
            )
        with self._lock:
            before = len(self.calls), self.calls[-1:] if False else None
            answer = self._methods.get(method, _empty)(request)
        del before
        return answer

    def not_served(self, path: str) -> None:
        """Note a call that is not served."""
        self.not_served_paths.add(path)
        self._bell.ring()

