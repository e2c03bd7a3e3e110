"""The container runtime of a lab node: containerd, and below it runc or crun.

What belongs here: containerd's configuration. What never does: the packages (``recipe``), and the
kubelet's side of it (``kubelet``).
"""

from __future__ import annotations

from typing import Final

from hil.lab.errors import LabUsageError
from hil.lab.recipe import WORKLOAD_IMAGE

CONFIG: Final = "etc/containerd/config.toml"

#: The OCI runtimes that an image holds, and where.
OCI: Final = {"runc": "/usr/sbin/runc", "crun": "/usr/bin/crun"}
#: crun is a C program. Each operation on a container starts the runtime again: under emulation a
#: pod takes half a second longer to start with runc, a Go program, and a second longer to end.
DEFAULT: Final = "crun"

_FORM: Final = """\
version = 2
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "{oci}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{oci}]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{oci}.options]
      BinaryName = "{program}"
      SystemdCgroup = {systemd}
"""


def known(oci: str) -> str:
    """The name of an OCI runtime; raises :class:`LabUsageError` for one that no image holds."""
    if oci not in OCI:
        raise LabUsageError(f"the OCI runtime is {' or '.join(OCI)}, not {oci!r}")
    return oci


def configuration(oci: str = DEFAULT, driver: str = "systemd") -> str:
    """Containerd's configuration file. ``driver``: the kubelet's cgroup driver, which has to be
    the runtime's as well (a kubelet's default is ``cgroupfs``)."""
    systemd = str(driver == "systemd").lower()
    return _FORM.format(image=WORKLOAD_IMAGE, oci=known(oci), program=OCI[oci], systemd=systemd)
