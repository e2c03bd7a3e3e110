"""Leaving the host's namespaces, with or without being root."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import Final

from conformance.subjects.kubelet.inside.syscalls import NEW_NET, NEW_NS, NEW_PID, NEW_USER, unshare

_IFF_UP, _SIOCGIFFLAGS, _SIOCSIFFLAGS = 1, 0x8913, 0x8914

#: Kernel settings that forbid user namespaces, with the value that does.
_FORBIDDING: Final = (
    ("user/max_user_namespaces", "0"),
    ("kernel/unprivileged_userns_clone", "0"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1"),
)


class Refused(Exception):
    """The sandbox cannot be made; the text says what was refused and by what."""


def enter(*, user: bool) -> bool:
    """New mount, pid (for children) and network namespaces; whether that took a user namespace.

    ``user`` asks for one even where it could be done without. Raises :class:`Refused`.
    """
    wanted = NEW_NS | NEW_PID | NEW_NET
    refusal = "a user namespace was asked for"
    if not user:
        try:
            unshare(wanted)
        except OSError as error:
            refusal = f"without a user namespace: {error.strerror}"
        else:
            return False
    uid, gid = os.geteuid(), os.getegid()
    try:
        unshare(wanted | NEW_USER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise Refused(f"{refusal}; with one: {error.strerror}{hint()}") from error
    return True


def hint() -> str:
    """The kernel setting that forbids user namespaces, in brackets; ``""`` if none is seen."""
    for name, forbidding in _FORBIDDING:
        path = Path("/proc/sys", name)
        if path.exists() and path.read_text().strip() == forbidding:
            return f" (sysctl {name.replace('/', '.')} is {forbidding})"
    return ""


def bring_up_loopback() -> None:
    """Set ``lo`` up; raises ``OSError``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("16sH14x", b"lo", 0))
        flags = struct.unpack("16sH14x", answer)[1] | _IFF_UP
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags))
