"""A small server that speaks exec's websocket protocol (``v4.channel.k8s.io``) and runs the words
on this host, and that carries ``nodes/proxy`` to a port of this host. No API server, no kubelet and
no pod: what those do is for tests on a booted node."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from wsproto.frame_protocol import FrameProtocol, Opcode

from hil.transport.kube.pod import USED
from tests.support.carrying import accepting, carry

#: Runs a command where a node's namespace would be entered: ``nsenter -t 1 -m -- COMMAND``.
_NSENTER = '#!/bin/sh\nshift 4\nPATH={path}\nexec "$@"\n'


class ExecServer:
    """On loopback. ``kubelet`` is whether exec is served; ``cut`` ends what is carried."""

    def __init__(self, folder: Path) -> None:
        self.kubelet = True
        #: What the image has: the first programs of the node's, and a way to the others.
        self.image = folder / "image"
        self.image.mkdir()
        for name in ("sh", "head", "cat", "sha256sum", "perl"):
            (self.image / name).symlink_to(shutil.which(name) or name)
        (self.image / "nsenter").write_text(_NSENTER.format(path=os.environ["PATH"]))
        (self.image / "nsenter").chmod(0o755)
        self._open: list[socket.socket] = []
        self._stack = contextlib.ExitStack()
        listener = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._stack.enter_context(accepting(listener, self._serve))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def cut(self) -> None:
        while self._open:
            with contextlib.suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._stack.close()
        self.cut()

    def _serve(self, client: socket.socket) -> None:
        self._open.append(client)
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(65536)
        path = head.split(b" ")[1].decode()
        if "/proxy/" in path:
            self._carry(client, head, int(path.split("/proxy/")[0].rpartition(":")[2]))
        elif self.kubelet:
            asked = parse_qs(urlsplit(path).query, keep_blank_values=True)
            used = str(self.image / "used")
            self._exec(client, [one.replace(USED, used) for one in asked["command"]])
        else:
            body = json.dumps({"message": "error dialing backend: refused"}).encode()
            size = f"Content-Length: {len(body)}\r\n\r\n".encode()
            client.sendall(b"HTTP/1.1 500 x\r\n" + size + body)

    @staticmethod
    def _carry(client: socket.socket, head: bytes, port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as node:
            node.sendall(head)
            carry(client, node)

    def _exec(self, client: socket.socket, words: list[str]) -> None:
        client.sendall(b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n")
        pipe, environment = subprocess.PIPE, {**os.environ, "PATH": str(self.image)}
        with subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment
        ) as process:
            lock, frames = threading.Lock(), FrameProtocol(client=False, extensions=[])

            def tell(stream: int, data: bytes) -> None:
                with contextlib.suppress(OSError), lock:
                    client.sendall(frames.send_data(bytes([stream]) + data, fin=True))

            def read(stream: int) -> None:
                file = process.stdout if stream == 1 else process.stderr
                while data := os.read(file.fileno(), 65536):  # type: ignore[union-attr]
                    tell(stream, data)

            def feed() -> None:
                with contextlib.suppress(OSError), process.stdin:  # type: ignore[union-attr]
                    for data in _received(client, frames):
                        os.write(process.stdin.fileno(), data)  # type: ignore[union-attr]

            readers = [threading.Thread(target=read, args=(one,), daemon=True) for one in (1, 2)]
            feeder = threading.Thread(target=feed, daemon=True)
            for one in [*readers, feeder]:
                one.start()
            for one in readers:
                one.join()
            causes = [{"reason": "ExitCode", "message": str(process.wait())}]
            said = {"status": "Failure", "details": {"causes": causes}}
            tell(3, json.dumps(said if process.returncode else {"status": "Success"}).encode())
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            feeder.join()


def _received(client: socket.socket, frames: FrameProtocol) -> Iterator[bytes]:
    """What a client's messages carry on stream 0, in pieces; ends with the connection."""
    begins = True
    while data := client.recv(65536):
        frames.receive_bytes(data)
        for frame in frames.received_frames():
            if frame.opcode is Opcode.BINARY and not isinstance(frame.payload, (str, tuple)):
                yield bytes(frame.payload)[begins:]
                begins = frame.message_finished
