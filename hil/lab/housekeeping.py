"""Where a lab node's own services run: on its first two CPUs.

What belongs here: the cpusets of systemd's own slices. What never does: a pod's CPUs, which lie
beside these slices and are the kubelet's.

An emulator keeps translated code and address translations for each CPU, and to wake another CPU is
to wake another thread of the host: what stays on two CPUs takes a fifth less time. A cpuset rather
than an affinity (``CPUAffinity=``): kernels before 6.2 forget that one when the controller is
switched on for a slice, and later ones hand it on to containers.
"""

from __future__ import annotations

from typing import Final

_SYSTEMD: Final = "etc/systemd/system"
_CPUS: Final = "AllowedCPUs=0-1"


def files() -> dict[str, tuple[bytes, int]]:
    """The files that say so, with their modes. With cgroup v1 systemd passes them over."""
    return {
        f"{_SYSTEMD}/{unit}.d/pinproof.conf": (f"[{kind}]\n{_CPUS}\n".encode(), 0o644)
        for unit, kind in (("init.scope", "Scope"), ("system.slice", "Slice"))
    }
