"""The kubelet's HTTP endpoint: its pods and its metrics."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

#: In seconds. A kubelet answers in a millisecond; one whose locks are held never does.
_PATIENCE: Final = 2.0
_LARGEST: Final = 32 << 20
#: :attr:`PodStatus.resize` before the kubelet has decided.
NOT_SEEN: Final = "not seen yet"
#: The same while it carries the resize out.
IN_PROGRESS: Final = "in progress"


class NoAnswer(Exception):
    """The kubelet does not serve (yet), or its answer is not valid."""


@dataclass(frozen=True, slots=True)
class PodStatus:
    """A pod as ``GET /pods`` shows it. ``phase``, ``reason``, ``message`` and ``qos`` are the
    API's, unchanged; ``running`` are the ids of its containers that run by the kubelet's status.
    ``resize`` says why a resize in place is not granted, or that it is in progress. ``resources``
    are those of its containers in the spec that the kubelet has, by name."""

    uid: str
    name: str
    phase: str
    reason: str
    message: str
    qos: str
    running: frozenset[str]
    resize: str = ""
    resources: Mapping[str, Any] = field(default_factory=dict)


class Endpoint:
    """A client of one node's kubelet; it keeps its connection until the kubelet closes it."""

    def __init__(self, make_socket: Callable[[], socket.socket], port: int) -> None:
        self._connection = _Connection(make_socket, port)
        self._answer: bytes | None = None
        self._pods: list[PodStatus] = []

    def close(self) -> None:
        """Close the connection; the next request makes another."""
        self._connection.close()

    def pods(self) -> list[PodStatus]:
        """All pods that the kubelet knows; raises :class:`NoAnswer`."""
        answer = self._get("/pods")
        if answer != self._answer:  # it is often the same: decoding takes longer
            self._pods, self._answer = _pods_of(answer), answer
        return list(self._pods)

    def metrics(self) -> dict[str, float]:
        """Every metric, by its name and labels; raises :class:`NoAnswer`."""
        found = {}
        for line in self._get("/metrics").decode(errors="replace").splitlines():
            name, _, value = line.rpartition(" ")
            if name and not name.startswith("#"):
                try:
                    found[name] = float(value)
                except ValueError as error:
                    raise NoAnswer(f"GET /metrics: not understood: {line[:200]!r}") from error
        return found

    def _get(self, path: str) -> bytes:
        fresh = self._connection.sock is None
        try:
            return self._ask(path)
        except TimeoutError as error:
            self.close()
            raise NoAnswer(f"GET {path}: no answer in {_PATIENCE:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if fresh:
                raise NoAnswer(f"GET {path}: {error}") from error
        return self._get(path)  # the kept connection was to an earlier kubelet

    def _ask(self, path: str) -> bytes:
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        body = response.read(_LARGEST)
        if response.status != http.HTTPStatus.OK:
            raise http.client.HTTPException(f"status {response.status}")
        return body


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket from ``make_socket``."""

    def __init__(self, make_socket: Callable[[], socket.socket], port: int) -> None:
        super().__init__("127.0.0.1", port, timeout=_PATIENCE)
        self._make_socket = make_socket

    def connect(self) -> None:
        connection = self._make_socket()
        try:
            connection.settimeout(_PATIENCE)
            connection.connect((self.host, self.port))
        except OSError:
            connection.close()
            raise
        self.sock = connection


class _Named(msgspec.Struct):
    name: str
    resources: dict[str, Any] = {}


class _Spec(msgspec.Struct):
    containers: list[_Named] = []
    init_containers: list[_Named] = msgspec.field(name="initContainers", default=[])


class _Metadata(msgspec.Struct):
    uid: str
    name: str
    generation: int = 0


class _Container(msgspec.Struct):
    state: dict[str, msgspec.Raw] = {}
    id: str = msgspec.field(name="containerID", default="")


class _Condition(msgspec.Struct):
    type: str
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    reason: str = ""
    message: str = ""
    qos: str = msgspec.field(name="qosClass", default="")
    resize: str = ""
    observed: int | None = msgspec.field(name="observedGeneration", default=None)
    conditions: list[_Condition] = []
    apps: list[_Container] = msgspec.field(name="containerStatuses", default=[])
    inits: list[_Container] = msgspec.field(name="initContainerStatuses", default=[])
    others: list[_Container] = msgspec.field(name="ephemeralContainerStatuses", default=[])


class _Pod(msgspec.Struct):
    """The fields of a pod that are read. Go leaves out empty ones."""

    metadata: _Metadata
    spec: _Spec
    status: _Status


class _Pods(msgspec.Struct):
    items: list[_Pod] | None


_DECODER: Final = msgspec.json.Decoder(_Pods)


def _pods_of(answer: bytes) -> list[PodStatus]:
    """The pods in an answer to ``GET /pods``; raises :class:`NoAnswer`."""
    try:
        return [_pod_status(one) for one in _DECODER.decode(answer).items or ()]
    except msgspec.MsgspecError as error:
        raise NoAnswer(f"GET /pods: not understood: {error}") from error


def _pod_status(pod: _Pod) -> PodStatus:
    status = pod.status
    return PodStatus(
        uid=pod.metadata.uid,
        name=pod.metadata.name,
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        qos=status.qos,
        running=frozenset(
            one.id.rpartition("//")[2]
            for one in (*status.inits, *status.apps, *status.others)
            if "running" in one.state
        ),
        resize=_resize(pod),
        resources=_resources(pod.spec),
    )


def resources_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The resources of a pod's containers, by name. (Up to 1.32 a kubelet does not take a new
    ``metadata.generation`` of a pod that it knows, so resizes are recognised by resources.)"""
    return _resources(msgspec.convert(pod["spec"], _Spec))


def _resources(spec: _Spec) -> dict[str, Any]:
    return {one.name: one.resources for one in (*spec.init_containers, *spec.containers)}


def _resize(pod: _Pod) -> str:
    """From 1.33 on it is in conditions, before in ``status.resize``, without a reason."""
    status = pod.status
    for one in status.conditions:
        if one.type == "PodResizePending":
            return f"{one.reason}: {one.message}"
    if any(one.type == "PodResizeInProgress" for one in status.conditions):
        return IN_PROGRESS
    if status.observed is not None and status.observed < pod.metadata.generation:
        return NOT_SEEN
    return status.resize
