"""Keeps a lab node's own work on its first two CPUs.

An emulator keeps translated code and address translations for each CPU, and waking another CPU
wakes another thread of the host. Work that stays on two CPUs takes a fifth less time, and as much
again if the kernel's own threads stay there too. This is a cpuset and not an affinity
(``CPUAffinity=``): kernels before 6.2 lose an affinity when the controller is switched on for a
slice, and later ones pass it on to containers.
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

#: For the shell that runs before systemd: it moves threads of the kernel that much work waits for,
#: and workers that are not bound to a CPU.
SCRIPT: Final = rf"""
echo {_MASK} >/sys/devices/virtual/workqueue/cpumask
for task in /proc/[0-9]*; do
  read -r name <"$task/comm" || continue
  case $name in rcu_* | jbd2/*) taskset -p {_MASK} "${{task#/proc/}}" ;; esac
done >/dev/null 2>&1
"""


def files() -> dict[str, tuple[bytes, int]]:
    """The files that configure systemd so, with their modes. With cgroup v1 it ignores them."""
    return {
        f"{_SYSTEMD}/{unit}.d/pinproof.conf": (f"[{kind}]\n{_SETTING}\n".encode(), 0o644)
        for unit, kind in (("init.scope", "Scope"), ("system.slice", "Slice"))
    }
