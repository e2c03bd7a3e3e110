"""Scripts by exec: the API server, the node's kubelet and its runtime carry the streams.

The protocol is ``v4.channel.k8s.io``, which every release and runtime speaks: a frame is a piece of
one stream, which its first byte names. It cannot close stdin, so the shell words get the lengths of
script and stdin. Nothing comes after these until the connection ends: a ``cat`` reads on, and its
end tells the script's watcher that the runner is gone (:mod:`hil.transport.supervised`).

The words enter the mount namespace of the node's first process, and then leave the pod's cgroup for
the one of that process. So the script sees the node's files, and neither the end of the pod nor
a cpuset that the kubelet writes reaches it.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlencode

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import ProtocolError

from hil.apiserver.server import Server
from hil.apiserver.tunnel import Tunnel
from hil.shell import NodeUnfit, NodeUnreachable
from hil.transport.cgroup import leaving
from hil.transport.kube.pod import USED
from hil.transport.kube.talk import TunnelTalk
from topologies.errors import one_line

PROTOCOL: Final = "v4.channel.k8s.io"
_CHUNK: Final = 1 << 15
_STDIN: Final = 0
_WRONG: Final = (CloseReason.PROTOCOL_ERROR, CloseReason.INVALID_FRAME_PAYLOAD_DATA)
#: Begins a line that the shell words print, and not the script.
SAYS: Final = "pinproof-entry:"
#: Programs that enter a mount namespace: the image's, else the node's own.
_ENTERS: Final = (
    "nsenter",
    "busybox nsenter",
    "chroot /proc/1/root nsenter",
    "busybox chroot /proc/1/root nsenter",
)
_LEAVES: Final = leaving(said=f"{SAYS} ")
#: $1 and $2 are the lengths of command and stdin.
_RUNS: Final = (
    'c=$(head -c "$1"); '
    'sh -c \'echo $$; [ "$1" = 0 ] || head -c "$1"; exec cat >/dev/null\' sh "$2" 2>/dev/null | '
    '{ IFS= read -r p; (eval "$c"); r=$?; kill -PIPE "$p" 2>/dev/null; exit $r; }'
)
_FINDS: Final = (
    f"for w in {' '.join(repr(one) for one in _ENTERS)}; do "
    '$w -t 1 -m -- /bin/sh -c : >/dev/null 2>&1 && { echo "$w"; '
    "command -v perl >/dev/null && echo perl; exit 0; }; done; "
    f'echo "{SAYS} no nsenter of image or node enters the mount namespace of a /bin/sh" >&2; '
    "exit 125"
)


class Frames:
    """:class:`hil.transport.kube.talk.Form` of exec."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._socket = Connection(ConnectionType.CLIENT)
        self.sign = self._socket.send(Ping())
        self._replies = bytearray()
        #: The stream of the message that comes, once its first byte is there.
        self._stream: int | None = None

    def framed(self, payload: bytes) -> bytes:
        """A piece of stdin, as it is sent."""
        return self._socket.send(BytesMessage(bytes([_STDIN]) + payload))

    def replies(self) -> bytes:
        replies, self._replies = bytes(self._replies), bytearray()
        return replies

    def read(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Raises :class:`hil.shell.NodeUnreachable`."""
        try:
            self._socket.receive_data(data)
            for event in self._socket.events():
                if isinstance(event, Ping):
                    self._replies += self._socket.send(event.response())
                elif isinstance(event, BytesMessage):
                    yield from self._piece(event)
                elif isinstance(event, CloseConnection) and event.code in _WRONG:
                    raise ProtocolError(event.reason or "a frame is wrong")
        except ProtocolError as error:
            said = one_line(str(error))
            raise NodeUnreachable(f"{self._name}: an answer is not a websocket: {said}") from error

    def _piece(self, event: BytesMessage) -> Iterator[tuple[int, bytes]]:
        payload = bytes(event.data)
        if self._stream is None and payload:
            self._stream, payload = payload[0], payload[1:]
        if self._stream is not None:
            yield self._stream, payload
        if event.message_finished:
            self._stream = None

    def status(self, data: bytes) -> int:
        try:
            said: Any = json.loads(data)
            if said["status"] == "Success":
                return 0
            causes = (said.get("details") or {}).get("causes") or []
            codes = [one["message"] for one in causes if one.get("reason") == "ExitCode"]
            message = str(said.get("message") or "no reason given")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            codes, message = [], data.decode("utf-8", "replace")
        if codes and str(codes[0]).isdecimal():
            return int(codes[0])
        raise _failed(self._name, message)


def _failed(name: str, message: str) -> NodeUnfit | NodeUnreachable:
    said = one_line(" ".join(message.split()), limit=300)
    if "no such file" in message or "not found in $PATH" in message or "executable" in message:
        return NodeUnfit(f"{name}: the transport image has no shell: {said}")
    return NodeUnreachable(f"{name}: the node ended a command without its exit status: {said}")


class Exec:
    """The way by exec into one pod. Once :meth:`found` has read what the image has, ``enter`` is
    what enters the node, and ``perl`` whether a relay can be run from the image."""

    #: The shell word for the process that ends with the connection.
    parent: Final = '"$p"'

    def __init__(self, name: str, server: Server, namespace: str, pod: str) -> None:
        self._name, self._server = name, server
        self._path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
        self.enter = ""
        self.perl = False

    def found(self, text: str) -> None:
        """Take over what :meth:`find` printed."""
        self.enter, _, rest = text.partition("\n")
        self.perl = bool(rest)

    def find(self, limit: int) -> TunnelTalk:
        """Look for a program of the image that enters the node."""
        return self._talk(["sh", "-c", f">{USED}; {_FINDS}"], b"", limit)

    def begin(self, command: str, stdin: bytes, limit: int) -> TunnelTalk:
        """Run a command of the node's. Raises :class:`hil.shell.NodeUnreachable`."""
        enter = f'exec {self.enter} -t 1 -m -- /bin/sh -c "$3" sh "$1" "$2"'
        return self._begin(enter, f"q=$$; {_LEAVES}{_RUNS}", command, stdin, limit)

    def begin_in_image(self, command: str, stdin: bytes, limit: int) -> TunnelTalk:
        """Run a command of the image's, outside of the pod's cgroup too."""
        leave = f'{self.enter} -t 1 -m -- /bin/sh -c "$3" sh "$$" || exit; '
        return self._begin(leave + _RUNS, f"q=$1; {_LEAVES}", command, stdin, limit)

    def _begin(
        self, first: str, on_node: str, command: str, stdin: bytes, limit: int
    ) -> TunnelTalk:
        text = command.encode()
        words = ["sh", "-c", f">{USED}; {first}", "sh", str(len(text)), str(len(stdin)), on_node]
        return self._talk(words, text + stdin, limit)

    def _talk(self, words: list[str], body: bytes, limit: int) -> TunnelTalk:
        streams = [("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
        query = urlencode([*(("command", one) for one in words), *streams])
        tunnel, form = self._opened(f"{self._path}?{query}"), Frames(self._name)
        pieces = (body[at : at + _CHUNK] for at in range(0, len(body), _CHUNK))
        return TunnelTalk(self._name, tunnel, form, map(form.framed, pieces), limit)

    def _opened(self, path: str) -> Tunnel:
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(secrets.token_bytes(16)).decode(),
            "Sec-WebSocket-Protocol": PROTOCOL,
        }
        return self._server.tunnel(path, f"run a command on {self._name}", upgrade)
