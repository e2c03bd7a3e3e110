"""The first process of a sandbox: makes the namespaces, builds the file system, keeps kubelets.

What belongs here: what has to be done from inside. What never does: an import of the project or
of anything outside the standard library. The file is run by its path (``python -I -S``), because
a start takes a hundredth of a second that way.

The runner starts it with one end of a ``SOCK_SEQPACKET`` pair. It enters new namespaces (mount,
network, pid; a user namespace around them where it may not do so otherwise) and forks: the child
is pid 1 of the pid namespace, and everything else in there is a kubelet or was started by one. Pid
1 ends when the control socket does, when the runner's pidfd says that it is gone, or when its
parent dies; the kernel then kills what is left in the pid namespace, and with the last process
the mounts, the tmpfs and the network vanish. Nothing has to be cleaned up by anybody.

The sandbox's root is a tmpfs that mirrors the host's root by bind mounts, all of them read-only;
*holes* are places where the sandbox has an empty folder of its own. So a kubelet that runs as root
can write to the tmpfs and to nothing else; kernel settings that it writes at every start
(``cm/container_manager_linux.go``, ``setupKernelTunables``) are private files too.

Messages are JSON objects. ``{"do": "start" | "terminate" | "kill" | "machine" | "socket", …}`` is
answered by ``{"ok": true}`` (``socket``: with the descriptor) or ``{"error": text}``;
``{"event": "ready", …}`` and ``{"event": "exited", "status": n}`` come by themselves.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

#: The sandbox's own folder: machines, manifests, sockets, temporary files.
AREA = "/pinproof"
STATE_DIR = "/var/lib/kubelet"
#: Places of a machine's tree that a kubelet looks at.
MACHINE_PLACES = ("sys/devices/system/cpu", "sys/devices/system/node", "proc/cpuinfo")
#: Where the sandbox has folders of its own. ``/run`` is one lest a kubelet talk to the host's
#: services through their sockets (cAdvisor asks containerd, CRI-O and Docker by itself).
HOLES = (
    AREA, STATE_DIR, "/proc", "/run", "/var/log/pods", "/var/log/containers",
    "/sys/devices/system/cpu", "/sys/devices/system/node",
)  # fmt: skip
#: Kernel settings that every kubelet writes, and the boot id, which a reboot renews.
PRIVATE_SETTINGS = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "kernel/random/boot_id",
)  # fmt: skip

_NEW_NS, _NEW_USER, _NEW_PID, _NEW_NET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_REMOUNT, _NOATIME, _NODIRATIME, _BIND, _REC = 32, 1024, 2048, 4096, 16384
_PRIVATE, _RELATIME = 1 << 18, 1 << 21
_DETACH = 2
_SYS_MOUNT_SETATTR = 442  # the same number on every architecture
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "s390x": 217, "ppc64le": 203, "riscv64": 41}
_MOUNT_FLAGS = {
    "ro": _RDONLY, "nosuid": _NOSUID, "nodev": _NODEV, "noexec": _NOEXEC,
    "noatime": _NOATIME, "nodiratime": _NODIRATIME, "relatime": _RELATIME,
}  # fmt: skip
_PR_SET_PDEATHSIG = 1
_IFF_UP, _SIOCGIFFLAGS, _SIOCSIFFLAGS = 1, 0x8913, 0x8914

_libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """The sandbox cannot be made; the text says what was refused and by what."""


# --- system calls ---------------------------------------------------------------------------


def _check(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """``mount(2)``; raises ``OSError``."""
    words = [os.fsencode(word) if word else None for word in (source, target, kind)]
    _check(
        _libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(data) if data else None),
        f"mount {target}",
    )


def _unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def _unmount(target: str) -> None:
    _check(_libc.umount2(os.fsencode(target), _DETACH), f"umount {target}")


def read_only(target: str) -> None:
    """Make the mount at ``target`` and all beneath it read-only; raises ``OSError``."""
    attributes = struct.pack("=QQQQ", 1, 0, 0, 0)  # set MOUNT_ATTR_RDONLY, clear nothing
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR, -100, os.fsencode(target), 0x8000, attributes, len(attributes)
    )
    if result < 0 and ctypes.get_errno() == errno.ENOSYS:  # before Linux 5.12
        read_only_one_by_one(target)
    else:
        _check(result, f"make {target} read-only")


def read_only_one_by_one(target: str) -> None:
    """What :func:`read_only` does, for kernels that can only do it mount by mount."""
    for place, options in _mounts_beneath(target):
        flags = sum(_MOUNT_FLAGS.get(option, 0) for option in options)
        try:
            mount("", place, "", _REMOUNT | _BIND | flags | _RDONLY)
        except OSError as error:
            # A mount hidden beneath another one cannot be reached, by the kubelet neither.
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                raise


def _mounts_beneath(target: str) -> list[tuple[str, list[str]]]:
    found = {}
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields = line.split(b" ")
        place = os.fsdecode(fields[4].decode("unicode_escape").encode("latin-1"))
        if place == target or place.startswith(target.rstrip("/") + "/"):
            found[place] = fields[5].decode().split(",")
    return list(found.items())


def _pivot(new: str, old: str) -> None:
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise Refused(f"pivot_root is not known for {os.uname().machine}")
    _check(_libc.syscall(number, os.fsencode(new), os.fsencode(old)), "pivot_root")


# --- namespaces -----------------------------------------------------------------------------


def enter_namespaces(user: bool) -> bool:
    """Leave the host's namespaces; whether that took a user namespace.

    ``user`` asks for one even where it could be done without. Raises :class:`Refused`.
    """
    wanted = _NEW_NS | _NEW_PID | _NEW_NET
    refusal = "a user namespace was asked for"
    if not user:
        try:
            _unshare(wanted)
        except OSError as error:
            refusal = f"without a user namespace: {error.strerror}"
        else:
            return False
    uid, gid = os.geteuid(), os.getegid()
    try:
        _unshare(wanted | _NEW_USER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise Refused(
            f"{refusal}; with one: {error.strerror or error}{user_namespace_hint()}"
        ) from error
    return True


def user_namespace_hint() -> str:
    """The kernel setting that forbids user namespaces, as a hint; ``""`` if none is seen."""
    settings = (
        ("user/max_user_namespaces", "0"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
    )
    for name, forbidding in settings:
        path = Path("/proc/sys", name)
        if path.exists() and path.read_text().strip() == forbidding:
            return f" (sysctl {name.replace('/', '.')} is {forbidding})"
    return ""


# --- the file system ------------------------------------------------------------------------


def build_root() -> None:
    """Make a tmpfs the root: the host's tree read-only, and the holes. Raises ``OSError``."""
    mount("", "/", "", _REC | _PRIVATE)
    base = next(path for path in ("/tmp", "/mnt", "/run", "/var") if Path(path).is_dir())  # noqa: S108
    mount("pinproof", base, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1g")
    old = f"{base}/.host"
    Path(old).mkdir()
    _pivot(base, old)
    os.chdir("/")
    _mirror("/.host", "")
    for hole in HOLES:
        Path(hole).mkdir(parents=True, exist_ok=True)
    _mount_proc()
    for folder in ("tmp", "manifests", "logs", "machines"):
        Path(AREA, folder).mkdir()
    _unmount("/.host")
    Path("/.host").rmdir()


def _mirror(old: str, place: str) -> None:
    """Make ``place`` of the new root like the folder ``old``, holes left out."""
    for entry in os.scandir(old):
        path = f"{place}/{entry.name}"
        if path in HOLES or path == "/.host":
            continue
        if any(hole.startswith(path + "/") for hole in HOLES) and entry.is_dir():
            Path(path).mkdir()
            _mirror(entry.path, path)
        elif entry.is_symlink():
            Path(path).symlink_to(Path(entry.path).readlink())
        else:
            _bind_read_only(entry.path, path, folder=entry.is_dir())


def _bind_read_only(source: str, target: str, *, folder: bool) -> None:
    _make_place(target, folder=folder)
    try:
        mount(source, target, "", _BIND | _REC)
    except OSError as error:
        # Another user's FUSE mount, a dead network share: not to be seen is all that can be done.
        if error.errno in (errno.EACCES, errno.ENOENT, errno.ESTALE, errno.ENOTCONN):
            return
        raise
    read_only(target)


def _make_place(path: str, *, folder: bool) -> None:
    if folder:
        Path(path).mkdir()
    else:
        Path(path).touch()


def _mount_proc() -> None:
    try:
        mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    except PermissionError:  # parts of the host's /proc are masked, as in most containers
        mount("/.host/proc", "/proc", "", _BIND | _REC)
    mount("/proc/sys", "/proc/sys", "", _BIND | _REC)
    read_only("/proc/sys")
    for name in PRIVATE_SETTINGS:
        _make_private(name)


def _make_private(setting: str) -> None:
    real, own = Path("/proc/sys", setting), Path(AREA, "settings", setting)
    if not real.exists():
        return
    own.parent.mkdir(parents=True, exist_ok=True)
    try:
        own.write_text(real.read_text())
    except PermissionError:  # in a user namespace some may not even be read
        own.write_text("0\n")
    mount(str(own), str(real), "", _BIND)


def bind_machine(folder: str) -> None:
    """Put the tree in ``folder`` in the place of the host's hardware, or of the last machine."""
    for place in MACHINE_PLACES:
        source, target = f"{folder}/{place}", f"/{place}"
        try:
            _unmount(target)
        except OSError as error:
            if error.errno != errno.EINVAL:  # nothing is mounted there yet
                raise
        if Path(source).exists():
            mount(source, target, "", _BIND)


def bring_up_loopback() -> None:
    """Set ``lo`` up in the network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request)
        flags = struct.unpack("16sH14x", answer)[1] | _IFF_UP
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags))


# --- pid 1 ----------------------------------------------------------------------------------


class Init:
    """Pid 1: starts a kubelet at a time, reaps, reports its end, and ends with the runner."""

    def __init__(self, control: socket.socket, runner: int | None) -> None:
        self._control = control
        self._runner = runner
        self._kubelet = 0
        self._status: int | None = None
        self._children = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._children[1], warn_on_full_buffer=False)

    def run(self) -> None:
        """Serve until the runner is gone."""
        poll = select.poll()
        for descriptor in (self._control.fileno(), self._children[0], self._runner):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._children[0]:
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
        """Send one message. A runner that is gone is noticed elsewhere."""
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], list(descriptors))
        except (BrokenPipeError, ConnectionResetError):
            return

    def _carry_out(self, order: dict[str, object], descriptors: list[int]) -> list[int]:
        match order:
            case {"do": "start", "argv": list(argv), "env": dict(env)}:
                self._start(argv, env, descriptors[0])
            case {"do": "terminate"}:
                if self._kubelet:
                    os.killpg(self._kubelet, signal.SIGTERM)
            case {"do": "kill"}:
                self._kill_all()
            case {"do": "machine", "folder": str(folder)}:
                bind_machine(folder)
            case {"do": "socket"}:
                return [socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach()]
            case _:
                raise OSError(errno.EINVAL, f"not understood: {order}")
        return []

    def _start(self, argv: list[str], env: dict[str, str], log: int) -> None:
        if self._kubelet:
            raise OSError(errno.EBUSY, "a kubelet is running")
        self._status = None
        self._kubelet = os.posix_spawn(
            argv[0], argv, env,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT],
        )  # fmt: skip

    def _kill_all(self) -> None:
        """SIGKILL to everything in the pid namespace but this process, whatever session it is
        in: a wrapper may have started the kubelet anyhow."""
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
            self.tell({"event": "exited", "status": self._status})


def _pid_1(control: socket.socket, runner: int | None, user: bool) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    init = Init(control, runner)
    try:
        build_root()
        bring_up_loopback()
    except (OSError, Refused) as error:
        hint = user_namespace_hint() if user else ""
        init.tell({"error": f"{error.strerror if isinstance(error, OSError) else error}{hint}"})
        return
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    init.tell({"event": "ready", "user_namespace": user}, [root])
    os.close(root)
    init.run()


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno == errno.ENOSYS:  # before Linux 5.3: the control socket's end has to do
            return None
        raise


def main(argv: list[str]) -> int:
    """``init.py CONTROL-FD RUNNER-PID auto|user``."""
    control = socket.socket(fileno=int(argv[0]))
    control.set_inheritable(False)
    runner = _pidfd(int(argv[1]))
    if os.getppid() != int(argv[1]):
        return 1  # the runner was gone before it could be watched
    try:
        user = enter_namespaces(argv[2] == "user")
    except Refused as error:
        control.send(json.dumps({"error": str(error)}).encode())
        return 1
    child = os.fork()
    if child == 0:
        try:
            _pid_1(control, runner, user)
        finally:
            os._exit(0)
    control.close()
    os.waitpid(child, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
