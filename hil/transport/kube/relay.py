"""Scripts by a relay on the node, which works while the kubelet is down.

What belongs here: the relay's protocol, on the runner's side. What never does: the relay itself
(``relay.pl``, beside this module).

Exec ends at the kubelet, so nothing could be sent to a node whose kubelet a run has stopped. The
API server reaches a node's own ports without the kubelet (``nodes/proxy``), and without a pod. The
relay listens on a port of the node, and runs commands for this run alone: the run made the key, and
sent it by exec, which TLS protects. What goes over ``nodes/proxy`` is not encrypted between API
server and node, but each request and each answer is signed with the key and with a number that the
relay made for this connection:

    relay   101, CHALLENGE
    runner  sha256(KEY ask CHALLENGE LENGTHS SUM KEY) LENGTHS SUM, then command and stdin (SUM)
    relay   frames (stream, length, bytes), then status and sha256(KEY told CHALLENGE … KEY)

The relay ends when no command has come for some minutes. A boot ends it, too; where the run may
boot the node, a file has the command that starts the same again, which the node's agent does
(``at-boot`` in ``hil/safety/node.sh``). So a node is reached even if its kubelet does not come up.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shlex
import time
from collections.abc import Iterator
from importlib import resources
from typing import Final

from hil.apiserver.server import Server
from hil.apiserver.space import LONGEST
from hil.apiserver.tunnel import Tunnel
from hil.shell import Done, NodeUnfit, NodeUnreachable
from hil.transport.kube.talk import TunnelTalk

#: Seconds without a command after which a relay ends. A run renews its lease far more often.
IDLE: Final = 150
#: The command that ends the relay which runs it.
END: Final = 'kill "$PINPROOF_RELAY"'
_PATIENCE: Final = 20.0
_STREAMS: Final = (1, 2)
_CHUNK: Final = 1 << 16


def _sum(*texts: bytes) -> str:
    return hashlib.sha256(b"".join(texts)).hexdigest()


class Signed:
    """:class:`hil.transport.kube.talk.Form` of a relay's answer."""

    sign = b""

    def __init__(self, name: str, key: str, challenge: str) -> None:
        self._name, self._key, self._challenge = name, key, challenge
        self._buffer, self._kept = bytearray(), bytearray()

    def replies(self) -> bytes:
        return b""

    def read(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._buffer += data
        while len(self._buffer) >= 5:
            size = 5 + int.from_bytes(self._buffer[1:5])
            if len(self._buffer) < size:
                return
            frame = bytes(self._buffer[:size])
            del self._buffer[:size]
            if frame[0] in _STREAMS:
                self._kept += frame
            yield frame[0], frame[5:]

    def status(self, data: bytes) -> int:
        code, _, signature = data.decode("ascii", "replace").partition(" ")
        said = f"{self._key} told {self._challenge} {code} ".encode()
        right = _sum(said, bytes(self._kept), f" {self._key}".encode())
        if not code.isdecimal() or not secrets.compare_digest(signature.encode(), right.encode()):
            raise NodeUnreachable(f"{self._name}: an answer was changed on its way")
        return int(code)


class Relay:
    """A relay that runs on the node."""

    parent: Final = "''"

    def __init__(self, name: str, server: Server, node: str, *, key: str, started: Done) -> None:
        """``started``: how :func:`starting` ended. Raises :class:`hil.shell.NodeUnfit`."""
        found = re.fullmatch(r"(\d+)\n", started.text)
        if started.status != 0 or found is None:
            raise NodeUnfit(
                f"{name}: over kube:// a run that stops the kubelet needs perl in the transport "
                "image or on the node: give another --transport-image, or --max-risk pods",
                evidence=started.stderr.decode("utf-8", "replace"),
            )
        self._name, self._server, self._key = name, server, key
        self._path = f"/api/v1/nodes/http:{node}:{found[1]}/proxy/"

    def begin(self, command: str, stdin: bytes, limit: int) -> TunnelTalk:
        """Run a command of the node's. Raises :class:`hil.shell.NodeUnreachable`."""
        upgrade = {"Connection": "Upgrade", "Upgrade": "pinproof"}
        tunnel = self._server.tunnel(self._path, f"run a command on {self._name}", upgrade)
        try:
            challenge, rest = _challenge(tunnel)
            form = Signed(self._name, self._key, challenge)
            text = command.encode()
            body = text + stdin
            said = f"{len(text)} {len(stdin)} {_sum(body)}"
            signature = _sum(f"{self._key} ask {challenge} {said} {self._key}".encode())
            whole = f"{signature} {said}\n".encode() + body
        except BaseException:
            tunnel.close()
            raise
        assert not rest, "the relay waits for the command"
        pieces = (whole[at : at + _CHUNK] for at in range(0, len(whole), _CHUNK))
        return TunnelTalk(self._name, tunnel, form, pieces, limit)


def _challenge(tunnel: Tunnel) -> tuple[str, bytes]:
    got, end = b"", time.monotonic() + _PATIENCE
    while b"\n" not in got:
        tunnel.wait(1.0, to_send=False)
        data = tunnel.receive()
        if data is None or time.monotonic() > end:
            raise NodeUnreachable("the relay on the node does not answer")
        got += data
    line, _, rest = got.partition(b"\n")
    return line.decode("ascii", "replace"), rest


def new_key() -> str:
    return secrets.token_hex(32)


def starting(folder: str = "", enter: str = "") -> str:
    """The script that starts a relay; its stdin is the key and a newline. ``enter``: the words that
    enter the node from where the script runs. If ``folder`` exists on the node, the file ``relay``
    in it then starts the same relay again."""
    program = resources.files("hil.transport.kube").joinpath("relay.pl").read_text("utf-8")
    command = f"perl {folder}/relay.pl {IDLE} {LONGEST}"
    keep = (
        f"cd {shlex.quote(folder)} 2>/dev/null || exit 0; umask 077\n"
        'printf "%s\\n" "$program" >relay.pl &&\n'
        f'  echo "echo $key | {command} $port" >relay.new && mv relay.new relay\n'
    )
    return (
        f"IFS= read -r key; program={shlex.quote(program)}\n"
        f'port=$(echo "$key" | perl -e "$program" {IDLE} {LONGEST} 0 {enter}) || exit\n'
        'echo "$port"\n'
        f"{keep if folder and not enter else ''}"
    )
