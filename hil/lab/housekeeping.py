"""Where a lab node's own work is done: on its first two CPUs.

An emulator keeps translated code and address translations for each CPU, and to wake another CPU is
to wake another thread of the host: what stays on two CPUs takes a fifth less time, and as much
again where the kernel's own threads stay there too. A cpuset rather than an affinity
(``CPUAffinity=``): kernels before 6.2 forget that one when the controller is switched on for a
slice, and later ones hand it on to containers.
"""

from __future__ import annotations

from typing import Final

_SYSTEMD: Final = "etc/systemd/system"
_CPUS: Final = "0-1"
_MASK: Final = "3"
_SETTING: Final = f"AllowedCPUs={_CPUS}"

#: For the kernel's command line: which CPUs interrupts go to. It leaves out those that are not
#: there, and always takes the one that it boots on.
KERNEL: Final = (f"irqaffinity={_CPUS}",)

#: For the shell that comes before systemd: threads of the kernel that much waits for, and workers
#: that are not bound to a CPU.
SCRIPT: Final = rf"""
echo {_MASK} >/sys/devices/virtual/workqueue/cpumask
for task in /proc/[0-9]*; do
  read -r name <"$task/comm" || continue
  case $name in rcu_* | jbd2/*) taskset -p {_MASK} "${{task#/proc/}}" ;; esac
done >/dev/null 2>&1
"""


def files() -> dict[str, tuple[bytes, int]]:
    """The files that say so, with their modes. With cgroup v1 systemd passes them over."""
    return {
        f"{_SYSTEMD}/{unit}.d/pinproof.conf": (f"[{kind}]\n{_SETTING}\n".encode(), 0o644)
        for unit, kind in (("init.scope", "Scope"), ("system.slice", "Slice"))
    }
