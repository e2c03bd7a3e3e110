"""What runs first in a lab node: it sets up the root disk and the network, and no more.

A static busybox, a few modules and this ``/init``: Debian's own initramfs would take the emulator
most of a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hil.lab import housekeeping
from hil.lab.names import ADDRESS, GATEWAY
from hil.lab.payload import MARKER
from topologies.capturing.guest import archive

#: The kernel boots on one CPU, and ``/init`` switches the others on. A booting kernel rewrites its
#: own code, and an emulated CPU that runs such code at that moment may hang for ever
#: (``sched_clock_tick``, in one of fifteen boots of 16 CPUs).
KERNEL: Final = ("maxcpus=1",)

_INIT: Final = rf"""#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
say() {{ echo "pinproof-lab: $*" >/dev/console; }}
die() {{ say "failed: $*"; sleep 1; echo o >/proc/sysrq-trigger; sleep 60; }}
say kernel
for cpu in /sys/devices/system/cpu/cpu[0-9]*/online; do
  echo 1 >$cpu || die "$cpu cannot be switched on"
done
for module in @MODULES@; do insmod "/modules/$module" || die "$module does not load"; done
ip link set eth0 up && ip addr add {ADDRESS}/24 dev eth0 && ip route add default via {GATEWAY} ||
  die "no network device"
mount -t ext4 -o noatime /dev/vda /root || die "no root disk"
if [ ! -e /root/{MARKER} ]; then
  tar -xf /dev/vdb -C /root || die "the payload cannot be unpacked"
fi
for cpu in @OFFLINE@; do
  echo 0 >/sys/devices/system/cpu/cpu$cpu/online || die "CPU $cpu cannot be taken offline"
done
{housekeeping.SCRIPT.strip()}
say disk
umount /sys
mount --move /dev /root/dev
mount --move /proc /root/proc
exec switch_root /root /lib/systemd/systemd
"""


def initramfs(
    busybox: bytes,
    modules: Mapping[str, bytes],
    *,
    offline: Iterable[int] = (),
    table: bytes = b"",
) -> bytes:
    """A cpio archive to boot from. ``modules`` are loaded in that order; CPUs of ``offline`` are
    taken offline before systemd runs; ``table`` replaces the firmware's table of CPUs."""
    init = _INIT.replace("@MODULES@", " ".join(modules))
    init = init.replace("@OFFLINE@", " ".join(map(str, offline)))
    folders = ("bin", "dev", "modules", "proc", "root", "sys")
    files = {f"modules/{name}": data for name, data in modules.items()}
    return archive(busybox, init, folders, files, table)
