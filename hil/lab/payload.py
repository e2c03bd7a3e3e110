"""What turns an image into a node: kubelet, configuration, keys. One tar, the guest's second disk.

The guest unpacks it over its own file system before anything else runs, at its first boot only:
the file that says so is the last in it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from hil.lab import housekeeping, names, runtime
from hil.lab import kubelet as kubelets
from hil.lab.recipe import OURS, tar

#: There once the payload is unpacked.
MARKER: Final = "var/lib/pinproof-lab/payload"
_WANTS: Final = "etc/systemd/system/multi-user.target.wants"


@dataclass(frozen=True, slots=True)
class Keys:
    """Private host key and its public half, and the public key that may log in: OpenSSH's texts."""

    host_private: str
    host_public: str
    login_public: str

    def files(self) -> dict[str, tuple[bytes, int]]:
        """Where they are on a node."""
        return {
            "etc/ssh/ssh_host_ed25519_key": (self.host_private.encode(), 0o600),
            "etc/ssh/ssh_host_ed25519_key.pub": (self.host_public.encode(), 0o644),
            "root/.ssh/authorized_keys": (self.login_public.encode(), 0o600),
        }


def payload(
    *,
    kubelet: bytes,
    unit: str,
    configuration: str,
    containerd: str,
    workload: bytes,
    keys: Keys,
    hostname: str,
) -> bytes:
    """The tar. ``unit`` and ``configuration`` are the kubelet's, ``containerd`` is the runtime's
    configuration, ``workload`` the image archive."""
    files = {
        **names.files(hostname),
        **housekeeping.files(),
        "etc/machine-id": (f"{uuid.uuid4().hex}\n".encode(), 0o444),
        f"etc/systemd/system/{kubelets.UNIT}": (unit.encode(), 0o644),
        f"{kubelets.MANIFESTS[1:]}/.keep": (b"", 0o644),
        kubelets.BINARY[1:]: (kubelet, 0o755),
        kubelets.CONFIG[1:]: (configuration.encode(), 0o644),
        runtime.CONFIG: (containerd.encode(), 0o644),
        f"{OURS}/workload.tar": (workload, 0o644),
        **keys.files(),
        MARKER: (b"", 0o644),
    }
    links = {f"{_WANTS}/{kubelets.UNIT}": f"/etc/systemd/system/{kubelets.UNIT}"}
    return tar(files, links, last=(MARKER,))
