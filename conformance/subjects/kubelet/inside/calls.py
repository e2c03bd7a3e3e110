"""System calls of a kubelet that pid 1 of its sandbox handles before the kernel does.

A seccomp filter on the kubelet notifies pid 1, which answers each call at once: either it has done
the call itself, or the kernel does it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from conformance.subjects.kubelet.inside.syscalls import check, libc

#: Answers a call: 0 if it was done, an error's number, or ``None`` if the kernel is to do it.
Answer: TypeAlias = Callable[[int, int, list[int]], int | None]

#: By architecture: its number in filters, and the numbers of the calls.
_MACHINES: Final[Mapping[str, tuple[int, Mapping[str, int]]]] = {
    "x86_64": (0xC000003E, {
        "seccomp": 317, "statfs": 137, "mkdirat": 258, "unlinkat": 263,
        "rename": 82, "renameat": 264, "renameat2": 316, "openat2": 437,
    }),
    "aarch64": (0xC00000B7, {
        "seccomp": 277, "statfs": 43, "mkdirat": 34, "unlinkat": 35,
        "renameat": 38, "renameat2": 276, "openat2": 437,
    }),
}  # fmt: skip

_GET_NOTIF_SIZES, _SET_MODE_FILTER = 3, 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_PR_SET_NO_NEW_PRIVS: Final = 38
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE: Final = 1
#: ``struct seccomp_notif`` (id, pid, flags, nr, arch, ip, six arguments), and its answer.
_REQUEST: Final = struct.Struct("=QIIiIQ6Q")
_ANSWER: Final = struct.Struct("=QqiI")


def can_be_heard() -> bool:
    """Whether this kernel and this architecture have seccomp notifications."""
    if os.uname().machine not in _MACHINES:
        return False
    sizes = ctypes.create_string_buffer(6)
    return bool(libc.syscall(numbers()["seccomp"], _GET_NOTIF_SIZES, 0, sizes) == 0)


def numbers() -> Mapping[str, int]:
    """The calls' numbers by their names."""
    return _MACHINES[os.uname().machine][1]


def filter_calls(names: Collection[str]) -> int:
    """In the process that becomes a kubelet: filter these calls of it and of all programs that it
    executes. Returns the descriptor from which they are read. Raises ``OSError``."""
    audit, known = _MACHINES[os.uname().machine]
    program = _program(audit, [known[name] for name in names if name in known])
    code = ctypes.create_string_buffer(program, len(program))
    filtering = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(code))
    check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        listener = libc.syscall(known["seccomp"], _SET_MODE_FILTER, flags, filtering)
        if listener >= 0 or ctypes.get_errno() != errno.EINVAL:  # before Linux 5.19
            break
    return check(listener, "seccomp")


def _program(audit: int, heard: list[int]) -> bytes:
    load, equal, give = 0x20, 0x15, 0x06
    count = len(heard)
    steps = [
        (load, 0, 0, 4),  # the architecture
        (equal, 0, count + 1, audit),
        (load, 0, 0, 0),  # the call's number
        *((equal, count - number, 0, call) for number, call in enumerate(heard)),
        (give, 0, 0, _ALLOW),
        (give, 0, 0, _NOTIFY),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def serve(listener: int, answer: Answer) -> bool:
    """In pid 1: answer one call. Returns whether more calls can come."""
    request = bytearray(_REQUEST.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, request)
    except OSError as error:
        return error.errno in (errno.ENOENT, errno.EINTR)  # the caller has ended
    number, pid, _, call, _, _, *arguments = _REQUEST.unpack(request)
    failure: int | None
    try:
        failure = answer(call, pid, arguments)
    except OSError as error:
        failure = error.errno or errno.EIO
    proceed = _CONTINUE if failure is None else 0
    with contextlib.suppress(OSError):  # the caller has ended
        fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, -(failure or 0), proceed))
    return True


def text_at(pid: int, address: int) -> str:
    """The text at an address of another process, up to its NUL. It is read page by page, because
    the page after the text may not be mapped. Raises ``OSError``, also if the process has ended:
    its memory is then empty."""
    text = b""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        while b"\0" not in text and len(text) < 8192:
            memory.seek(address + len(text))
            page = memory.read(4096 - (address + len(text)) % 4096)
            if not page:
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
            text += page
    return os.fsdecode(text.partition(b"\0")[0])


def number_at(pid: int, address: int) -> int:
    """The number of 64 bits at an address of another process. Raises ``OSError``."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        memory.seek(address)
        return int.from_bytes(memory.read(8), sys.byteorder)


def write_at(pid: int, address: int, data: bytes) -> None:
    """Write to an address of another process."""
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:  # noqa: PTH123
        memory.seek(address)
        memory.write(data)
