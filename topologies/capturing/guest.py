"""The guest: an initramfs of a static busybox, the capture script, and an ``/init`` that runs it.

The guest has no disk and no network. One serial line carries the data; where the machine has a
second one, it carries the kernel's messages. The guest writes to the first, in this order: ``up``;
``cpu N`` for every CPU that the host plugs in; ``in``; when the CPUs that the host unplugs are
gone, ``data`` and the script's stream, packed with gzip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from topologies.capturing import acpi
from topologies.capturing.boards import X86, Board
from topologies.capturing.script import script

UP: Final = b"up"
PLUGGED: Final = b"cpu"
IN: Final = b"in"
DATA: Final = b"data"

_INIT: Final = r"""#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
stty -F /dev/@LINE@ raw -echo
exec >/dev/@LINE@
@FRESH@echo up
cpus=/sys/devices/system/cpu
for cpu in @PLUG@; do
  until [ -e $cpus/cpu$cpu/online ]; do usleep 5000; done
  case " @UNPLUG@ " in *" $cpu "*) ;; *) echo 1 >$cpus/cpu$cpu/online ;; esac
  echo "cpu $cpu"
done
echo in
for cpu in @UNPLUG@; do
  while [ -e $cpus/cpu$cpu ]; do usleep 5000; done
done
for cpu in @OFFLINE@; do echo 0 >$cpus/cpu$cpu/online; done
echo data
sh /capture.sh / | gzip -1
echo o >/proc/sysrq-trigger
while :; do sleep 60; done
"""


def initramfs(
    busybox: bytes,
    *,
    board: Board = X86,
    plug: Iterable[int] = (),
    unplug: Iterable[int] = (),
    offline: Iterable[int] = (),
    table: bytes = b"",
) -> bytes:
    """A cpio archive to boot from. The guest waits for the CPUs of ``plug`` and brings them online
    in that order, but for those of ``unplug``. Then it waits until the CPUs of ``unplug`` are gone,
    and takes those of ``offline`` offline. ``table`` replaces the firmware's table of CPUs."""
    init = _INIT.replace("@LINE@", board.data)
    init = init.replace("@FRESH@", "echo\n" if board.shares_line else "")
    init = init.replace("@PLUG@", " ".join(map(str, plug)))
    init = init.replace("@UNPLUG@", " ".join(map(str, unplug)))
    init = init.replace("@OFFLINE@", " ".join(map(str, offline)))
    files = {"capture.sh": script().encode()}
    return archive(busybox, init, ("bin", "dev", "proc", "sys"), files, table)


def archive(
    busybox: bytes, init: str, folders: Iterable[str], files: Mapping[str, bytes], table: bytes
) -> bytes:
    """A cpio archive to boot from. Busybox runs ``init``; an empty ``table`` replaces nothing."""
    return cpio(
        {
            **({acpi.PATH: (0o100644, table)} if table else {}),
            **dict.fromkeys(folders, (0o040755, b"")),
            "bin/busybox": (0o100755, busybox),
            "init": (0o100755, init.encode()),
            **{name: (0o100644, data) for name, data in files.items()},
        }
    )


def cpio(members: Mapping[str, tuple[int, bytes]]) -> bytes:
    """An archive in the "newc" form (kernel: ``Documentation/driver-api/early-userspace/
    buffer-format.rst``): name to mode and content."""
    packed = bytearray()
    for number, (name, (mode, data)) in enumerate([*members.items(), ("TRAILER!!!", (0, b""))], 1):
        path = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        packed += b"070701" + b"".join(b"%08X" % field for field in fields) + path
        packed += bytes(-len(packed) % 4)
        packed += data
        packed += bytes(-len(packed) % 4)
    return bytes(packed)
