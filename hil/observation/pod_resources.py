"""The kubelet's pod-resources socket: the bytes to send, and how an answer is read.

What belongs here: one call, ``v1.PodResourcesLister/List``, as the bytes of a whole HTTP/2
connection, both ways. Pure, and nothing that a node wrote is trusted. What never does: how the
bytes reach the socket (:mod:`hil.observation.pod_resources_script`), what the message means
(:mod:`conformance.kubelets.pod_resources`), and which CPUs these should be.

The call has no argument, so its bytes are the same for every node: preface, settings, windows that
no answer fills, the request. No program on the node has to speak gRPC. The kubelet's server answers
without waiting for acknowledgements (google.golang.org/grpc, ``internal/transport``). Only what it
wrote up to the end of its answer is read.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from google.protobuf.message import DecodeError
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from conformance.kubelets.pod_resources import LIST, CPUsByPod, NoCPUs, cpus_by_pod
from conformance.kubelets.pod_resources_pb2 import ListPodResourcesResponse
from reference import CPUSet
from topologies.errors import one_line

#: The most bytes of an answer that are read on the node; a thousand pods with devices have fewer.
LIMIT: Final = 1 << 20
#: Begins the reason that a node writes instead of an answer. An answer of HTTP/2 begins with a
#: frame's length, which with this first byte would be above 2 MiB.
NO_ANSWER: Final = "!"

_WINDOW: Final = (1 << 31) - 1
_FIRST_WINDOW: Final = (1 << 16) - 1
_STREAM: Final = 1
_HEADERS: Final = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", LIST),
    (":authority", "localhost"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
    ("grpc-timeout", "10S"),
)
#: A gRPC message has its length before it; before that, whether it is compressed.
_PREFIX: Final = 5
#: The type of an HTTP/2 server's first frame, and where in it that is.
_SETTINGS, _TYPE = b"\4", slice(3, 4)


@dataclass(frozen=True, slots=True)
class PodResources:
    """The kubelet's answer: CPUs by pod (namespace and name, as the kubelet has them), then
    container. ``why`` is ``""``, or one line on why nothing could be read."""

    pods: Mapping[tuple[str, str], Mapping[str, CPUSet]] = field(default_factory=dict)
    why: str = ""


class _Unreadable(Exception):
    """``str()`` is why."""


def request() -> bytes:
    """All that a client has to send for its answer."""
    return _requested()[1]


def read_pod_resources(text: str) -> PodResources:
    """Read the answer, which is base64. Never raises: if it cannot be read, the reason is in
    :attr:`PodResources.why`."""
    try:
        return PodResources(_pods(_message(_raw(text))))
    except _Unreadable as error:
        return PodResources(why=one_line(str(error), limit=300))


def _requested() -> tuple[H2Connection, bytes]:
    """A connection that has sent the request, and the bytes of that."""
    connection = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    connection.local_settings = Settings(
        client=True,
        initial_values={
            SettingCodes.ENABLE_PUSH: 0,
            SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW,
        },
    )
    connection.initiate_connection()
    connection.increment_flow_control_window(_WINDOW - _FIRST_WINDOW)
    connection.send_headers(_STREAM, list(_HEADERS))
    connection.send_data(_STREAM, bytes(_PREFIX), end_stream=True)
    return connection, connection.data_to_send()


def _raw(text: str) -> bytes:
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
    except ValueError:  # no base64, or not even ASCII
        raise _Unreadable("the node's answer is not base64") from None
    if raw.startswith(NO_ANSWER.encode()):
        said = raw[len(NO_ANSWER) :].decode(errors="replace").strip()
        raise _Unreadable(said or "the kubelet sent no answer, and the node gives no reason")
    if not raw:
        raise _Unreadable("the kubelet sent no answer")
    return raw


def _message(raw: bytes) -> bytes:
    body, headers = _response(raw)
    status = headers.get(b"grpc-status", b"missing").decode(errors="replace")
    if status != "0":
        says = unquote(headers.get(b"grpc-message", b"").decode(errors="replace"))
        http = headers.get(b":status", b"missing").decode(errors="replace")
        raise _Unreadable(f"the kubelet refuses: grpc-status {status}, HTTP {http}: {says}")
    if body[:1] not in (b"", b"\0"):
        raise _Unreadable(
            "the kubelet's answer is compressed, though the request did not ask for that"
        )
    length = int.from_bytes(body[1:_PREFIX], "big")
    if len(body) != _PREFIX + length:
        raise _Unreadable(
            f"the kubelet's answer is said to have {length} bytes after its first {_PREFIX}, "
            f"and has {len(body)} in all"
        )
    return body[_PREFIX:]


def _response(raw: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Body and headers of the answer, trailers among them, once it has come to its end."""
    connection, _ = _requested()
    body, headers = bytearray(), dict[bytes, bytes]()
    if raw[_TYPE] not in (b"", _SETTINGS):
        raise _Unreadable(f"the kubelet's answer is not HTTP/2: it begins with {raw[:9]!r}")
    try:
        events = connection.receive_data(raw)
    except ProtocolError as error:
        what = f"{type(error).__name__}: {error}"  # of some, the text is a mere number
        raise _Unreadable(f"the kubelet's answer is not HTTP/2: {what}") from error
    for event in events:
        if isinstance(event, (ResponseReceived, TrailersReceived)):
            headers |= {bytes(name): bytes(value) for name, value in event.headers or ()}
        elif isinstance(event, DataReceived):
            body += event.data or b""
        elif isinstance(event, StreamEnded):
            return bytes(body), headers
        elif isinstance(event, (StreamReset, ConnectionTerminated)):
            what = "stream" if isinstance(event, StreamReset) else "connection"
            raise _Unreadable(f"the kubelet closed the {what}: HTTP/2 error {event.error_code}")
    raise _Unreadable(f"the kubelet's answer is cut off after {len(raw)} bytes")


def _pods(message: bytes) -> CPUsByPod:
    try:
        answer = ListPodResourcesResponse.FromString(message)
    except DecodeError:
        raise _Unreadable("the kubelet's answer is not a list of pod resources") from None
    try:
        return cpus_by_pod(answer.pod_resources)
    except NoCPUs as error:
        raise _Unreadable(str(error)) from error
