"""The runner's side of a sandbox: new namespaces, in which one kubelet at a time runs.

Package :mod:`conformance.subjects.kubelet.inside` is the other side. The runner reaches a sandbox's
tmpfs through a descriptor (``/proc/self/fd/…``), so its files have no path on the host. The other
side hands over sockets of the sandbox's network. A sandbox ends with the runner, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.kubelets.klog import Log
from conformance.subject import SubjectLostError, SubjectSetupError
from conformance.subjects.kubelet import forking, inside
from conformance.subjects.kubelet.bell import Bell

AREA: Final = inside.AREA
STATE_DIR: Final = inside.STATE_DIR

#: Seconds that the sandbox's own processes may take for one order; they take milliseconds.
_PATIENCE: Final = 30.0


class Sandbox:
    """Namespaces, a root file system and a network for one kubelet at a time.

    The constructor only begins it: call :meth:`await_birth` before any other method but
    :meth:`close`. ``user_namespace`` asks for a user namespace even if none is needed; the
    attribute of that name says whether there is one. ``own_cgroups``: whether kubelets can have the
    sandbox's cgroup file system. ``killed_at_rename``: the file at whose rename
    :meth:`kill_at_rename` had the last kubelet killed, or ``""``. ``lost``: whether the sandbox has
    ended for any reason. ``files``: files by path that are added to those of the host, or replace
    them.
    """

    def __init__(
        self,
        bell: Bell,
        *,
        user_namespace: bool = False,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self.log: Log | None = None
        self.exit_status: int | None = None
        self.lost = False
        self.killed_at_rename = ""
        self.bell = bell
        self._running = False
        self._answers: queue.SimpleQueue[tuple[dict[str, Any], list[int]]] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._files = dict(files or {})
        words = ["user"] * user_namespace + [f"{inside.FILE}{path}" for path in self._files]
        self._control, self._process = forking.launch(words)
        self._root = -1
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def await_birth(self) -> None:
        """Wait until it can be used; else close it and raise :class:`SubjectSetupError`."""
        try:
            self._receive_birth()
        except BaseException:
            self.close()
            raise

    def _receive_birth(self) -> None:
        try:
            message, descriptors = self._answers.get(timeout=_PATIENCE)
        except queue.Empty:
            raise SubjectSetupError("no sandbox: its first process does not answer") from None
        if message.get("event") != "ready":
            raise SubjectSetupError(f"no sandbox could be made: {message['error']}")
        (self._root,) = descriptors
        self.user_namespace = bool(message["user_namespace"])
        self.own_cgroups = bool(message["own_cgroups"])
        for place, content in self._files.items():
            self.path(place).write_bytes(content)

    @property
    def pid(self) -> int:
        """The process on the host that ends when all other processes in the sandbox have."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether a kubelet runs. It is false as soon as the kubelet has ended."""
        return self._running

    def path(self, inside: str) -> Path:
        """The runner's path for the absolute path ``inside`` of the sandbox."""
        return Path(f"/proc/self/fd/{self._root}{inside}")

    @property
    def place(self) -> Path:
        """Its root, as a path for every process of this user while the runner lives."""
        return Path(f"/proc/{os.getpid()}/fd/{self._root}")

    def write(self, inside: str, text: str, *, mode: int = 0o644) -> None:
        """Write a file and rename it into place, so that no process reads half of it. Its first
        name begins with a dot: a kubelet ignores such manifests."""
        path = self.path(inside)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_bytes(text.encode("utf-8", "surrogateescape"))
        draft.chmod(mode)
        draft.replace(path)

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        cgroups: Sequence[str] | None = None,
    ) -> None:
        """Start a kubelet, with the sandbox's own cgroups, which have these ``cgroups``, or, for
        ``None``, with the host's. Raises :class:`SubjectLostError` if it cannot be executed."""
        ours, theirs = os.pipe()
        self.exit_status, self._running, self.killed_at_rename = None, True, ""
        self.log = Log(os.fdopen(ours, "rb"), self.bell.ring)
        try:
            order = {"do": "start", "argv": list(argv), "env": dict(env)}
            self._ask({**order, "cgroups": cgroups if cgroups is None else list(cgroups)}, [theirs])
        except SubjectLostError as error:
            self._running = False
            raise SubjectLostError(f"{argv[0]} cannot be executed: {error}") from error
        finally:
            os.close(theirs)

    def terminate(self) -> None:
        """Send SIGTERM to the kubelet's process group."""
        self._ask({"do": "terminate"})

    def kill(self) -> None:
        """Send SIGKILL to every process that was started in the sandbox."""
        self._ask({"do": "kill"})

    def kill_at_rename(self, number: int, *, after: bool, any_file: bool = False) -> None:
        """Kill all processes just before the ``number``-th rename from now on, or just ``after``
        it; 0: do not. Renames of the state file count, or of ``any_file`` below the kubelet's root.
        Raises :class:`SubjectLostError`."""
        order = {"number": number, "after": after, "any_file": any_file}
        self._ask({"do": "kill at rename", **order})

    def fail_renames(self, times: int) -> None:
        """Let the next ``times`` renames of the state file fail (ENOSPC), until another kubelet
        starts. Raises :class:`SubjectLostError`."""
        self._ask({"do": "fail renames", "times": times})

    def versions(self, beyond: int = 0) -> list[str]:
        """Every version of the state file that was renamed into place, oldest first, without the
        first ``beyond``."""
        kept = self.path(inside.VERSIONS)
        numbers = range(beyond + 1, self.count_of_versions() + 1)
        return [(kept / str(one)).read_text(errors="surrogateescape") for one in numbers]

    def count_of_versions(self) -> int:
        """How many versions of the state file were renamed into place."""
        return sum(1 for _ in self.path(inside.VERSIONS).iterdir())

    def bind_machine(self, folder: str) -> None:
        """Make the tree in ``folder`` (a path inside) the hardware that kubelets see."""
        self._ask({"do": "machine", "folder": folder})

    def socket(self) -> socket.socket:
        """A TCP socket in the sandbox's network, not connected yet."""
        (descriptor,) = self._ask({"do": "socket"})
        return socket.socket(fileno=descriptor)

    def end(self) -> None:
        """End all processes, mounts and namespaces, without waiting for it."""
        with contextlib.suppress(OSError):  # the other side may have ended
            self._control.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it, and wait until all of it is gone. Raises ``OSError`` if the kernel does not end
        it. May be called twice."""
        self.end()
        gone = self._process.ends_within(_PATIENCE)
        if not gone:
            self._process.kill()
            gone = self._process.ends_within(_PATIENCE)
        self._listener.join(timeout=_PATIENCE)
        self._control.close()
        if self.log is not None:
            self.log.finish()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1
        if not gone:
            raise OSError(f"process {self.pid} is there {_PATIENCE:g} s after SIGKILL")

    def _ask(self, order: dict[str, object], descriptors: Sequence[int] = ()) -> list[int]:
        with self._asking:
            try:
                socket.send_fds(self._control, [json.dumps(order).encode()], list(descriptors))
                message, passed = self._answers.get(timeout=_PATIENCE)
            except (OSError, queue.Empty):
                raise SubjectLostError("the sandbox is gone or does not answer") from None
        if "error" in message:
            raise SubjectLostError(str(message["error"]))
        return passed

    def _listen(self) -> None:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._control, 1 << 20, 4)
            except OSError:
                data, descriptors = b"", []
            if not data:
                break
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            message = json.loads(data)
            if message.get("event") == "exited":
                self.killed_at_rename = message["at_rename"]
                self._note_exit(message["status"])
            else:
                self._answers.put((message, descriptors))
        self.lost = True
        self._note_exit(None)
        self._answers.put(({"error": "the sandbox ended"}, []))

    def _note_exit(self, status: int | None) -> None:
        if self.log is not None:
            self.log.finish()
        if self._running:
            self.exit_status = status
            self._running = False
        self.bell.ring()


def can_be_made() -> None:
    """Make a sandbox and end it. Raises :class:`SubjectSetupError`, which says what to do."""
    sandbox = Sandbox(Bell())
    sandbox.await_birth()
    sandbox.close()
