"""Leaves the host's namespaces, as root or as an ordinary user."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from errno import EACCES, ENOSPC, EPERM
from pathlib import Path
from typing import Final

from conformance.subjects.kubelet.inside.syscalls import NEW_NET, NEW_NS, NEW_PID, NEW_USER, unshare

_IFF_UP, _SIOCGIFFLAGS, _SIOCSIFFLAGS = 1, 0x8913, 0x8914

_PROC: Final = Path("/proc")
#: Kernel settings that can forbid user namespaces: the value that forbids, and one that permits.
_FORBIDDING: Final = (
    ("user.max_user_namespaces", "0", "10000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)
#: Files that Docker and Podman put into a container.
_CONTAINER: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))


class Refused(Exception):
    """The sandbox cannot be made; ``str()`` says what was refused and why."""


def enter(*, user: bool) -> bool:
    """Enter new mount, pid (for children) and network namespaces, perhaps in a user namespace.

    Returns whether there is a user namespace. ``user`` asks for one. Raises :class:`Refused`.
    """
    wanted = NEW_NS | NEW_PID | NEW_NET
    if not user:
        try:
            unshare(wanted)
        except OSError:
            pass  # An ordinary user may do it in a user namespace of their own.
        else:
            return False
    uid, gid = os.geteuid(), os.getegid()
    try:
        unshare(wanted | NEW_USER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise Refused(refusal("namespaces", error)) from error
    return True


def refusal(what: str, error: OSError) -> str:
    """A text of what was refused, and of what to do if rights are missing."""
    said = f"{what}: {error.strerror}"
    return f"{said}: {_remedy()}" if error.errno in (EPERM, EACCES, ENOSPC) else said


def _remedy() -> str:
    """What to do, by the reason as far as it can be seen. ENOSPC is a limit (unshare(2))."""
    for name, forbidding, permitting in _FORBIDDING:
        path = _PROC / "sys" / name.replace(".", "/")
        if path.exists() and path.read_text().strip() == forbidding:
            profile = " (or an AppArmor profile with userns)" if "apparmor" in name else ""
            return f"run it as root, or allow user namespaces: sysctl {name}={permitting}{profile}"
    if any(path.exists() for path in _CONTAINER):
        return (
            "the container forbids them: start it with --privileged, or with --cap-add=SYS_ADMIN "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        )
    if _chroot():
        return "an ordinary user has none in a chroot: run it as root, or outside of the chroot"
    return "run it as root, or where user namespaces are allowed"


def _chroot() -> bool:
    """Whether no file system is mounted on the root (proc(5), ``mountinfo``)."""
    try:
        mounts = (_PROC / "self/mountinfo").read_text().splitlines()
    except OSError:
        return False
    return not any(line.split()[4] == "/" for line in mounts)


def bring_up_loopback() -> None:
    """Set ``lo`` up; raises ``OSError``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("16sH14x", b"lo", 0))
        flags = struct.unpack("16sH14x", answer)[1] | _IFF_UP
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags))
