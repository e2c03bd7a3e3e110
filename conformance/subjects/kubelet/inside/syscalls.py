"""The system calls that Python's library does not have."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from pathlib import Path
from typing import Final

NEW_NS, NEW_USER, NEW_PID, NEW_NET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
REMOUNT, NOATIME, NODIRATIME, BIND, REC = 32, 1024, 2048, 4096, 16384
PRIVATE, SHARED, RELATIME = 1 << 18, 1 << 20, 1 << 21

_DETACH: Final = 2
_PR_SET_PDEATHSIG: Final = 1
_SYS_MOUNT_SETATTR: Final = 442  # the same number on every architecture
_SYS_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41, "s390x": 217, "ppc64le": 203, "riscv64": 41}
_MOUNT_FLAGS: Final = {
    "ro": RDONLY, "nosuid": NOSUID, "nodev": NODEV, "noexec": NOEXEC,
    "noatime": NOATIME, "nodiratime": NODIRATIME, "relatime": RELATIME,
}  # fmt: skip

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> int:
    """``result``; raises ``OSError`` if it says that the call failed."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """``mount(2)``; raises ``OSError``."""
    words = [os.fsencode(word) if word else None for word in (source, target, kind)]
    given = os.fsencode(data) if data else None
    check(libc.mount(*words, ctypes.c_ulong(flags), given), f"mount {target}")


def unmount(target: str) -> None:
    """``umount2(2)`` with ``MNT_DETACH``; raises ``OSError``."""
    check(libc.umount2(os.fsencode(target), _DETACH), f"umount {target}")


def unshare(flags: int) -> None:
    """``unshare(2)``; raises ``OSError``."""
    check(libc.unshare(flags), "unshare")


def pivot_root(new: str, old: str) -> None:
    """``pivot_root(2)``; raises ``OSError``."""
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"pivot_root is not known for {os.uname().machine}")
    check(libc.syscall(number, os.fsencode(new), os.fsencode(old)), "pivot_root")


def die_with_parent(signal: int) -> None:
    """Let the kernel send ``signal`` to this process when its parent dies."""
    check(libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl")


def read_only(target: str) -> None:
    """Make the mount at ``target`` and all beneath it read-only; raises ``OSError``."""
    attributes = struct.pack("=QQQQ", 1, 0, 0, 0)  # set MOUNT_ATTR_RDONLY, clear nothing
    result = libc.syscall(
        _SYS_MOUNT_SETATTR, -100, os.fsencode(target), 0x8000, attributes, len(attributes)
    )
    if result < 0 and ctypes.get_errno() == errno.ENOSYS:  # before Linux 5.12
        read_only_one_by_one(target)
    else:
        check(result, f"make {target} read-only")


def read_only_one_by_one(target: str) -> None:
    """:func:`read_only` for kernels that can only do it mount by mount."""
    for place, options in _mounts_beneath(target):
        flags = sum(_MOUNT_FLAGS.get(option, 0) for option in options)
        try:
            mount("", place, "", REMOUNT | BIND | flags | RDONLY)
        except OSError as error:
            # A mount hidden beneath another one cannot be reached, not even by the kubelet.
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                raise


def _mounts_beneath(target: str) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields = line.split(b" ")
        place = os.fsdecode(fields[4].decode("unicode_escape").encode("latin-1"))
        if place == target or place.startswith(target.rstrip("/") + "/"):
            found[place] = fields[5].decode().split(",")
    return list(found.items())
