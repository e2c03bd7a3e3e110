"""The first process of a sandbox: makes the namespaces, starts kubelets, ends with the runner.

It has one end of a ``SOCK_SEQPACKET`` pair, the runner the other. It enters new namespaces (mount,
network, pid; a user namespace around them if it has no right to do it without) and forks. The child
is pid 1 of the pid namespace; every other process there is a kubelet or was started by one. Pid 1
ends when the control socket does, when the runner's pidfd shows its end, or when its parent dies.
The kernel then kills all processes in the pid namespace, and removes the mounts, the tmpfs and the
network with the last one. No cleanup is needed.

Messages are JSON objects. ``{"do": "start" | "terminate" | "kill" | "kill at rename" | "fail
renames" | "machine" | "socket", …}`` is answered by ``{"ok": true}`` (``socket``: with the
descriptor) or ``{"error": text}``. ``{"event": "ready", …}`` and ``{"event": "exited", "status":
n}`` come without a request.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
from collections.abc import Iterable, Sequence
from typing import NoReturn

from conformance.subjects.kubelet.inside import FILE, calls, cgroups, namespaces, renames, root
from conformance.subjects.kubelet.inside.syscalls import die_with_parent


class Init:
    """Pid 1: runs one kubelet at a time, reports its end, reaps, and ends with the runner."""

    def __init__(self, control: socket.socket, runner: int | None, can_watch_calls: bool) -> None:
        self._control = control
        self._runner = runner
        self._renames = renames.Renames(self._kill_all)
        self._can_watch_calls = can_watch_calls
        self._own_cgroups = False
        self._kubelet = 0
        self._status: int | None = None
        self._calls: int | None = None
        self._children = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._children[1], warn_on_full_buffer=False)

    def run(self) -> None:
        """Serve until the runner has ended."""
        for descriptor in (self._control.fileno(), self._children[0], self._runner):
            if descriptor is not None:
                self._poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, happened in self._poll.poll():
                if descriptor == self._calls:
                    self._serve_call(happened)
                elif descriptor == self._children[0]:
                    os.read(descriptor, 4096)
                    self._reap()
                elif descriptor == self._runner or not self._serve():
                    return

    def _serve(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, 1 << 20, 4)
        if not data:
            return False
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        passed: list[int] = []
        try:
            passed = self._carry_out(json.loads(data), descriptors)
        except OSError as error:
            self.tell({"error": error.strerror or str(error)})
        else:
            self.tell({"ok": True}, passed)
        for descriptor in [*descriptors, *passed]:
            os.close(descriptor)
        return True

    def tell(self, message: dict[str, object], descriptors: Iterable[int] = ()) -> None:
        """Send one message. That the runner has ended is noticed elsewhere."""
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], list(descriptors))
        except (BrokenPipeError, ConnectionResetError):
            return

    def _carry_out(self, order: dict[str, object], descriptors: list[int]) -> list[int]:
        match order:
            case {
                "do": "start",
                "argv": list(argv),
                "env": dict(env),
                "cgroups": (None | list()) as paths,
            }:
                self._start(argv, env, descriptors[0], paths)
            case {"do": "terminate"}:
                if self._kubelet:
                    os.killpg(self._kubelet, signal.SIGTERM)
            case {"do": "kill"}:
                self._kill_all()
            case {
                "do": "kill at rename",
                "number": int(number),
                "after": bool(after),
                "any_file": bool(any_file),
            }:
                self._require_watching()
                self._renames.arm(number, after=after, any_file=any_file)
            case {"do": "fail renames", "times": int(times)}:
                self._require_watching()
                self._renames.fail(times)
            case {"do": "machine", "folder": str(folder)}:
                root.bind_machine(folder)
                cgroups.make_root()
            case {"do": "socket"}:
                return [socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach()]
            case _:
                raise OSError(errno.EINVAL, f"not understood: {order}")
        return []

    def _require_watching(self) -> None:
        if not self._can_watch_calls:
            raise OSError(errno.ENOSYS, "this kernel has no seccomp notifications")

    def _start(
        self, argv: list[str], env: dict[str, str], log: int, paths: list[str] | None
    ) -> None:
        if self._kubelet:
            raise OSError(errno.EBUSY, "a kubelet is running")
        self._status = None
        self._show_cgroups(paths)
        self._renames.begin()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                self._kubelet = os.fork()
                if self._kubelet == 0:
                    self._become(argv, env, log, theirs)
            self._receive_start(ours)

    def _show_cgroups(self, paths: list[str] | None) -> None:
        """Let the next kubelet see own cgroups, at these ``paths``, or for ``None`` the host's."""
        own = paths is not None
        if own is not self._own_cgroups:
            root.show_cgroups(own=own)
            self._own_cgroups = own
        cgroups.make(paths or ())

    def _receive_start(self, child: socket.socket) -> None:
        """Receive from the child the descriptor of its calls, then the error for which it could not
        execute the kubelet. The end of the socket shows that it could."""
        refusal = b""
        if self._can_watch_calls:
            first, descriptors, _, _ = socket.recv_fds(child, 16, 1)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
                self._calls = descriptor
                self._poll.register(descriptor, select.POLLIN)
            refusal = b"" if descriptors else first  # it failed before it had a descriptor
        refusal = refusal or child.recv(16)
        if refusal:
            os.waitpid(self._kubelet, 0)
            self._kubelet = 0
            raise OSError(int(refusal), os.strerror(int(refusal)))

    def _become(
        self, argv: list[str], env: dict[str, str], log: int, parent: socket.socket
    ) -> NoReturn:
        """In the child: become the kubelet, in a session of its own."""
        try:
            os.setsid()
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            if self._can_watch_calls:
                watched_calls = (*renames.CALLS, *(cgroups.CALLS if self._own_cgroups else ()))
                socket.send_fds(parent, [b"calls"], [calls.filter_calls(watched_calls)])
            os.execve(argv[0], argv, env)  # noqa: S606
        except OSError as error:
            parent.send(str(error.errno).encode())
        finally:
            os._exit(127)

    def _serve_call(self, happened: int) -> None:
        if self._calls is None:
            return
        if not happened & select.POLLIN or not calls.serve(self._calls, self._answer):
            self._poll.unregister(self._calls)
            os.close(self._calls)
            self._calls = None

    def _answer(self, call: int, pid: int, arguments: list[int]) -> int | None:
        known = calls.numbers()
        by = self._renames if call in [known.get(name) for name in renames.CALLS] else cgroups
        return by.carry_out(call, pid, arguments)

    def _kill_all(self) -> None:
        """Send SIGKILL to every other process in the pid namespace, in any session: a wrapper may
        have started the kubelet in its own."""
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                return
            if pid == self._kubelet:
                self._status = os.waitstatus_to_exitcode(status)
                self._kill_all()
        if self._status is not None and self._kubelet:
            self._kubelet = 0
            killed = self._renames.killed
            self._renames.arm(0, after=False)
            self.tell({"event": "exited", "status": self._status, "at_rename": killed})


def _pid_1(control: socket.socket, runner: int | None, *, user: bool, files: Sequence[str]) -> None:
    die_with_parent(signal.SIGKILL)
    can_watch_calls = calls.can_be_heard()
    init = Init(control, runner, can_watch_calls)
    try:
        root.build(files)
        namespaces.bring_up_loopback()
    except OSError as error:
        init.tell({"error": namespaces.refusal("its file systems", error)})
        return
    folder = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    init.tell({"event": "ready", "user_namespace": user, "own_cgroups": can_watch_calls}, [folder])
    os.close(folder)
    init.run()


def begin(control: socket.socket, pipe: int, runner: int | None, words: list[str]) -> None:
    """Make a sandbox and wait for its end. ``runner`` is a pidfd. ``words``: ``user`` asks for a
    user namespace, ``file=PATH`` for a file's writable folder. ``pipe`` is open until the end."""
    control.set_inheritable(False)
    os.set_inheritable(pipe, False)
    try:
        user = namespaces.enter(user="user" in words)
    except namespaces.Refused as error:
        control.send(json.dumps({"error": str(error)}).encode())
        return
    child = os.fork()
    if child == 0:
        try:
            os.close(pipe)
            files = [word.removeprefix(FILE) for word in words if word.startswith(FILE)]
            _pid_1(control, runner, user=user, files=files)
        finally:
            os._exit(0)
    control.close()
    os.waitpid(child, 0)
