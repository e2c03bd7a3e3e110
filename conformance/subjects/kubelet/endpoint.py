"""The kubelet's HTTP endpoint: what it says of its pods, and what it counts."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

#: A kubelet answers in a millisecond; one whose locks are held never does.
_PATIENCE: Final = 2.0
_LARGEST: Final = 32 << 20
#: What :attr:`PodStatus.resize` is before the kubelet has decided.
NOT_SEEN: Final = "not seen yet"


class NoAnswer(Exception):
    """The kubelet does not serve (yet), or what it said is no list of pods."""


@dataclass(frozen=True, slots=True)
class PodStatus:
    """A pod as ``GET /pods`` shows it. ``phase``, ``reason``, ``message`` and ``qos`` are the
    API's, unchanged; ``running`` are the ids of its containers that the kubelet knows to run;
    ``resize`` says why a resize in place is not granted, or that it is on its way; ``resources``
    are those that its containers are to have by all that the kubelet knows, by name."""

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
    """A client of one kubelet; it keeps its connection while the kubelet does."""

    def __init__(self, make_socket: Callable[[], socket.socket], port: int) -> None:
        self._connection = _Connection(make_socket, port)
        self._answer: bytes | None = None
        self._pods: list[PodStatus] = []

    def close(self) -> None:
        """Drop the connection; the next question makes another."""
        self._connection.close()

    def pods(self) -> list[PodStatus]:
        """All pods that the kubelet knows; raises :class:`NoAnswer`."""
        answer = self._get("/pods")
        if answer != self._answer:  # it is asked many times between two changes
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
        return self._get(path)  # the kept connection was the last kubelet's

    def _ask(self, path: str) -> bytes:
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        body = response.read(_LARGEST)
        if response.status != http.HTTPStatus.OK:
            raise http.client.HTTPException(f"status {response.status}")
        return body


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket that somebody else makes."""

    def __init__(self, make_socket: Callable[[], socket.socket], port: int) -> None:
        super().__init__("127.0.0.1", port, timeout=_PATIENCE)
        self._make_socket = make_socket

    def connect(self) -> None:
        made = self._make_socket()
        try:
            made.settimeout(_PATIENCE)
            made.connect((self.host, self.port))
        except OSError:
            made.close()
            raise
        self.sock = made


def _pods_of(answer: bytes) -> list[PodStatus]:
    """The pods in an answer to ``GET /pods``; raises :class:`NoAnswer`."""
    try:
        items = msgspec.json.decode(answer)["items"] or []
        return [_pod_status(item) for item in items]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoAnswer(f"GET /pods: not understood: {error!r}") from error


def _pod_status(item: Mapping[str, Any]) -> PodStatus:
    metadata, status = item["metadata"], item.get("status") or {}
    containers = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
        *(status.get("ephemeralContainerStatuses") or ()),
    ]
    return PodStatus(
        uid=metadata["uid"],
        name=metadata["name"],
        phase=status.get("phase", ""),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        qos=status.get("qosClass", ""),
        running=frozenset(
            each.get("containerID", "").rpartition("//")[2]
            for each in containers
            if "running" in (each.get("state") or {})
        ),
        resize=_resize(item, status),
        resources=resources_of(item),
    )


def resources_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """What the containers of a pod ask for, by name. (Up to 1.32 a kubelet takes over no other
    ``metadata.generation`` of a pod that it knows.)"""
    spec = item.get("spec") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return {one["name"]: one.get("resources", {}) for one in containers}


def _resize(item: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """From 1.33 on conditions say it, before ``status.resize`` did, without a reason."""
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodResizePending":
            return f"{condition.get('reason', '')}: {condition.get('message', '')}"
    seen = status.get("observedGeneration")
    if seen is not None and seen < item["metadata"].get("generation", 0):
        return NOT_SEEN
    return str(status.get("resize", ""))
