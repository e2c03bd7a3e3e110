"""A cgroup v2 file system that is none, so that pods have cgroups on any host.

From 1.33 on (in-place resize) a kubelet without cgroups of its own for each pod (``cgroupsPerQOS:
false``) gets a nil pointer in ``kuberuntime_manager.go``, ``doPodResizeAction``, as soon as a pod
with init containers goes on to the next container: seen on 1.36.4. Real cgroups would be the
host's, and an ordinary user seldom may make them. So ``/sys/fs/cgroup`` is a folder of the
sandbox's tmpfs, and a seccomp filter on the kubelet hands three system calls to pid 1 when they
name it (everything else the kernel goes on with):

    statfs    says that the folder is a cgroup v2 file system
    mkdirat   makes a folder with the files that a new cgroup has
    unlinkat  of a folder (``AT_REMOVEDIR``) removes it with those files

Nothing acts on what a kubelet writes there: containers do not exist either.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import itertools
import os
import struct
from pathlib import Path
from typing import Final, NamedTuple

from conformance.subjects.kubelet.inside import AREA, CGROUPS
from conformance.subjects.kubelet.inside.syscalls import check, libc

_MAGIC: Final = 0x63677270  # CGROUP2_SUPER_MAGIC
_CONTROLLERS: Final = "cpuset cpu io memory pids\n"

#: Files are overwritten, not truncated (cgroup files take each write as a whole), so no content
#: may be longer than what comes after it.
_EVERY_CGROUP: Final = {
    "cgroup.controllers": _CONTROLLERS,
    "cgroup.subtree_control": "",
    "cgroup.procs": "",
    "cgroup.stat": "nr_descendants 0\nnr_dying_descendants 0\n",
    "cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\n",
    "cpuset.cpus.effective": "",
    "cpuset.mems.effective": "",
    "io.stat": "",
    "memory.stat": "anon 0\nfile 0\ninactive_file 0\nactive_file 0\npgfault 0\npgmajfault 0\n",
}
_EVERY_CHILD: Final = _EVERY_CGROUP | {
    "cgroup.events": "populated 0\nfrozen 0\n",
    "cgroup.freeze": "0",
    "cgroup.type": "domain",
    "cpu.idle": "0",
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "cpu.weight": "1",
    "cpuset.cpus": "",
    "cpuset.mems": "",
    "memory.current": "0",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
    "memory.high": "max",
    "memory.low": "0",
    "memory.max": "max",
    "memory.min": "0",
    "memory.swap.current": "0",
    "memory.swap.max": "max",
    "pids.current": "0",
    "pids.max": "max",
}


class _Machine(NamedTuple):
    """What the filter has to know of an architecture: its number and those of the calls."""

    audit: int
    seccomp: int
    statfs: int
    mkdirat: int
    unlinkat: int


_MACHINES: Final = {
    "x86_64": _Machine(0xC000003E, 317, 137, 258, 263),
    "aarch64": _Machine(0xC00000B7, 277, 43, 34, 35),
}

_AT_REMOVEDIR: Final = 0x200
_GET_NOTIF_SIZES, _SET_MODE_FILTER = 3, 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_PR_SET_NO_NEW_PRIVS: Final = 38
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE: Final = 1
#: ``struct seccomp_notif`` (id, pid, flags, nr, arch, ip, six arguments), and its answer.
_REQUEST: Final = struct.Struct("=QIIiIQ6Q")
_ANSWER: Final = struct.Struct("=QqiI")
#: For folders that a kubelet does not see, before they are made whole and after they are removed.
_NUMBERS: Final = itertools.count(1)


def can_be_made() -> bool:
    """Whether this kernel and this architecture have what it takes."""
    machine = _MACHINES.get(os.uname().machine)
    if machine is None:
        return False
    sizes = ctypes.create_string_buffer(6)
    return bool(libc.syscall(machine.seccomp, _GET_NOTIF_SIZES, 0, sizes) == 0)


def make_root() -> None:
    """Make the root cgroup anew, without children."""
    for entry in Path(CGROUPS).iterdir():
        _take_away(entry)
    _fill(Path(CGROUPS), _EVERY_CGROUP)


def _fill(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).write_text(content)


# --- the filter, in the process that becomes a kubelet ----------------------------------------


def filter_calls() -> int:
    """Put this process, and what it will execute and start, under the filter; the descriptor that
    calls are to be read from. Raises ``OSError``."""
    machine = _MACHINES[os.uname().machine]
    program = _program(machine)
    code = ctypes.create_string_buffer(program, len(program))
    filtering = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(code))
    check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        listener = libc.syscall(machine.seccomp, _SET_MODE_FILTER, flags, filtering)
        if listener >= 0 or ctypes.get_errno() != errno.EINVAL:  # before Linux 5.19
            break
    return check(listener, "seccomp")


def _program(machine: _Machine) -> bytes:
    load, equal, anything, give = 0x20, 0x15, 0x45, 0x06
    steps = [
        (load, 0, 0, 4),  # the architecture
        (equal, 0, 7, machine.audit),
        (load, 0, 0, 0),  # the call's number
        (equal, 4, 0, machine.statfs),
        (equal, 3, 0, machine.mkdirat),
        (equal, 0, 3, machine.unlinkat),
        (load, 0, 0, 32),  # its third argument
        (anything, 0, 1, _AT_REMOVEDIR),
        (give, 0, 0, _NOTIFY),
        (give, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


# --- answering, in pid 1 ----------------------------------------------------------------------


def serve(listener: int) -> bool:
    """Answer one call; whether the listener is still of use."""
    request = bytearray(_REQUEST.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, request)
    except OSError as error:
        return error.errno in (errno.ENOENT, errno.EINTR)  # the caller is gone
    number, pid, _, call, _, _, *arguments = _REQUEST.unpack(request)
    failure: int | None
    try:
        failure = _carry_out(call, pid, arguments)
    except OSError as error:
        failure = error.errno or errno.EIO
    proceed = _CONTINUE if failure is None else 0
    with contextlib.suppress(OSError):  # the caller died meanwhile
        fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, -(failure or 0), proceed))
    return True


def _carry_out(call: int, pid: int, arguments: list[int]) -> int | None:
    """0 for a call that was carried out, an error's number, or ``None`` if it is the kernel's."""
    machine = _MACHINES[os.uname().machine]
    path = os.path.normpath(_text_at(pid, arguments[0 if call == machine.statfs else 1]))
    if path != CGROUPS and not path.startswith(CGROUPS + "/"):
        return None
    if call == machine.statfs:
        if not Path(path).exists():
            return None
        _write_at(pid, arguments[1], struct.pack("=15Q", _MAGIC, 4096, *[0] * 6, 255, *[0] * 6))
        return 0
    return _make(path) if call == machine.mkdirat else _remove(path)


def _make(path: str) -> int:
    """A cgroup appears with its files; cAdvisor, which watches, would see them come one by one."""
    if Path(path).exists():
        return errno.EEXIST
    draft = _hidden()
    draft.mkdir(mode=0o755)
    _fill(draft, _EVERY_CHILD)
    try:
        draft.rename(path)
    except OSError:
        _take_away(draft)
        raise
    return 0


def _remove(path: str) -> int:
    if any(entry.is_dir() for entry in os.scandir(path)):
        return errno.EBUSY
    grave = _hidden()
    Path(path).rename(grave)
    _take_away(grave)
    return 0


def _hidden() -> Path:
    return Path(AREA, f"cgroup-{next(_NUMBERS)}")


def _take_away(place: Path) -> None:
    """Remove a file or a folder. ``shutil`` and ``tempfile`` would do, and be a fifth of what the
    start of a sandbox costs."""
    if not place.is_dir() or place.is_symlink():
        place.unlink()
        return
    for entry in place.iterdir():
        _take_away(entry)
    place.rmdir()


def _text_at(pid: int, address: int) -> str:
    """The text at an address of another process, up to its NUL; read page by page, because what
    follows the text's page may not be mapped."""
    text = b""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        while b"\0" not in text and len(text) < 8192:
            memory.seek(address + len(text))
            text += memory.read(4096 - (address + len(text)) % 4096)
    return os.fsdecode(text.partition(b"\0")[0])


def _write_at(pid: int, address: int, data: bytes) -> None:
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:  # noqa: PTH123
        memory.seek(address)
        memory.write(data)
