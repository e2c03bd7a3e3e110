"""How a command asks the process of ``pinproof fleet up``: at a socket in the fleet's folder, which
its user alone can open.

A client sends one line of JSON. It gets a line for each stage, and a last one with the answer or
with the error.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from conformance.subject import SubjectError, SubjectLostError, SubjectUsageError
from conformance.verdict import ExitStatus
from pinproof.exit_statuses import status_of
from topologies.errors import one_line

_SOCKET: Final = "control"
#: Bytes of a line, and seconds until a client has sent its own.
_LONGEST: Final = 1 << 20
_PATIENCE: Final = 5.0
#: Seconds between two lines of an answer: a kubelet comes up within a minute, or is given up.
_STAGE: Final = 300.0

Say: TypeAlias = Callable[[str], None]
Handler: TypeAlias = Callable[[dict[str, Any], Say], dict[str, Any]]


@contextlib.contextmanager
def listening(folder: Path) -> Iterator[socket.socket]:
    """The socket of the fleet in this folder."""
    with socket.socket(socket.AF_UNIX) as made, _short(folder) as path:
        made.bind(path)
        Path(path).chmod(0o600)
        made.listen()
        yield made


def serve(listener: socket.socket, handler: Handler) -> None:
    """Answer the client that waits. What it asks for is done even if it goes away."""
    client, _ = listener.accept()
    with client:
        client.settimeout(_PATIENCE)
        try:
            request = json.loads(_line(client))
            answer = handler(request, lambda stage: _send(client, {"stage": stage}))
            _send(client, {"answer": answer})
        except SubjectError as error:
            _send(client, {"error": one_line(str(error), 2000), "status": status_of(error)})
        except (OSError, ValueError, LookupError, TypeError) as error:
            _send(client, {"error": f"the request is invalid: {error}", "status": 2})


def ask(name: str, folder: Path, request: dict[str, Any], say: Say) -> dict[str, Any]:
    """What the process of the fleet ``name`` answers. Raises :class:`SubjectUsageError` and
    :class:`SubjectLostError` as that process does, and the latter where it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.settimeout(_STAGE)
            with _short(folder) as path:
                made.connect(path)
            made.sendall(json.dumps(request).encode() + b"\n")
            for line in _lines(made):
                if "stage" not in line:
                    return _answer(line)
                say(str(line["stage"]))
    except (OSError, ValueError) as error:
        raise SubjectLostError(f"fleet {name}: it does not answer: {error}") from error
    raise SubjectLostError(f"fleet {name}: it ended before it answered")


def _answer(line: dict[str, Any]) -> dict[str, Any]:
    if "error" not in line:
        return dict(line["answer"])
    kind = SubjectUsageError if line["status"] == ExitStatus.USAGE else SubjectLostError
    raise kind(line["error"])


def _lines(made: socket.socket) -> Iterator[dict[str, Any]]:
    with made.makefile("rb") as stream:
        while line := stream.readline(_LONGEST):
            yield json.loads(line)


def _line(client: socket.socket) -> bytes:
    with client.makefile("rb") as stream:
        return stream.readline(_LONGEST)


def _send(client: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        client.sendall(json.dumps(message).encode() + b"\n")


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """The path of the socket through a descriptor: Linux refuses a long path."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{_SOCKET}"
    finally:
        os.close(descriptor)
