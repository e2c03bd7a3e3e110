"""What a lab node's disk holds, as text: packages, files, units; and the digest of all that.

What belongs here: what decides the image's content, which is the same for every node. What never
does: running anything (:mod:`hil.lab.image`), and what differs from node to node
(:mod:`hil.lab.payload`).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: The workload's image: what pods of the suite run, and what sandboxes are made of.
WORKLOAD_IMAGE: Final = "pinproof.local/lab:1"

#: Where an image keeps what is the lab's own.
OURS: Final = "usr/share/pinproof-lab"

PACKAGES: Final = (
    "busybox-static",
    "containerd",
    "containernetworking-plugins",
    "crun",
    "dbus",
    "iproute2",
    "kmod",
    "linux-image-cloud-amd64",
    "openssh-server",
    "procps",
    "runc",
    "systemd-sysv",
    "util-linux",
)

#: The guest loads these before it has a disk; the order is modprobe's.
MODULES: Final = ("virtio_pci", "virtio_blk", "virtio_net")

#: No user of a lab node needs these, and each costs seconds under emulation. There is no device to
#: wait for: disk and network are there before systemd.
_MASKED: Final = (
    "apt-daily-upgrade.timer", "apt-daily.timer", "console-getty.service",
    "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
    "getty.target", "kmod-static-nodes.service", "modprobe@configfs.service",
    "modprobe@dm_mod.service", "modprobe@drm.service", "modprobe@efi_pstore.service",
    "modprobe@fuse.service", "modprobe@loop.service", "serial-getty@ttyS0.service", "ssh.socket",
    "sys-fs-fuse-connections.mount", "sys-kernel-config.mount", "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount", "systemd-ask-password-wall.path", "systemd-binfmt.service",
    "systemd-hwdb-update.service", "systemd-logind.service", "systemd-machine-id-commit.service",
    "systemd-pcrphase-sysinit.service", "systemd-pcrphase.service", "systemd-random-seed.service",
    "systemd-remount-fs.service", "systemd-rfkill.socket", "systemd-tmpfiles-clean.timer",
    "systemd-udev-settle.service", "systemd-udev-trigger.service", "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket", "systemd-udevd.service", "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service", "systemd-user-sessions.service",
)  # fmt: skip

_NETWORK: Final = {
    "cniVersion": "0.4.0",
    "name": "pinproof",
    "plugins": [
        {
            "type": "ptp",
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.88.0.0/16"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}

_SSHD: Final = """\
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
HostKey /etc/ssh/ssh_host_ed25519_key
MaxStartups 100
MaxSessions 100
"""

#: A unit's stage on the console, where :mod:`hil.lab.boot` reads it.
_SAYS_SSH: Final = """\
[Service]
ExecStartPost=/bin/sh -c 'echo "pinproof-lab: ssh" >/dev/console'
"""

_WORKLOAD_UNIT: Final = f"""\
[Unit]
Description=The lab's container image
After=containerd.service
Requires=containerd.service
Before=kubelet.service
ConditionPathExists=!/var/lib/pinproof-lab/workload

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/ctr -n k8s.io images import /{OURS}/workload.tar
ExecStart=/bin/mkdir -p /var/lib/pinproof-lab
ExecStart=/bin/touch /var/lib/pinproof-lab/workload
ExecStartPost=/bin/sh -c 'echo "pinproof-lab: workload" >/dev/console'

[Install]
WantedBy=multi-user.target
"""

_SYSTEM: Final = """\
[Manager]
DefaultTimeoutStartSec=600s
DefaultTimeoutStopSec=60s
"""

_JOURNAL: Final = """\
[Journal]
SystemMaxUse=64M
RateLimitIntervalSec=0
"""

#: Runs as root of the new tree ($1) when all packages are in; $OUT is outside of it. It makes no
#: folder in $OUT, whose content only the root of a user namespace could remove, and does not change
#: $OUT itself, which another user owns.
HOOK: Final = r"""
set -e
tree=$1
release=$(ls "$tree/lib/modules")
rm -f "$tree"/etc/ssh/ssh_host_* "$tree/boot"/initrd.img-* "$tree"/var/log/*.log
rm -rf "$tree"/var/lib/apt/lists/* "$tree"/var/cache/apt/* "$tree"/usr/share/doc
ln -sf /lib/systemd/system/multi-user.target "$tree/etc/systemd/system/default.target"
cp "$tree/boot/vmlinuz-$release" "$OUT/vmlinuz"
cp "$tree/bin/busybox" "$OUT/busybox"
cp "$tree/boot/config-$release" "$OUT/config"
for module in @MODULES@; do
  chroot "$tree" modprobe --set-version="$release" --show-depends "$module" |
    while read -r verb path rest; do
      [ "$verb" = insmod ] || continue
      cp "$tree$path" "$OUT/"
      basename "$path"
    done
done | awk '!seen[$0]++' >"$OUT/modules.list"
chroot "$tree" dpkg-query -W -f '${Package} ${Version}\n' >"$OUT/packages"
echo "$release" >"$OUT/release"
for place in dev proc sys run tmp; do
  # Lazily: a user namespace may not take away one by one what it got mounted below.
  ! mountpoint -q "$tree/$place" || umount -l "$tree/$place"
done
truncate -s @SIZE@ "$OUT/root.raw"
mke2fs -q -F -t ext4 -L pinproof -J size=16 -E lazy_itable_init=1,root_owner=0:0 \
  -d "$tree" "$OUT/root.raw"
chmod a+r "$OUT"/*
"""
#: The size of the guest's file system; sparse on the host.
SIZE: Final = "6G"

_SYSTEMD: Final = "etc/systemd/system"


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that decides an image. ``sources`` are apt's lines (``deb URI SUITE COMPONENT…``)."""

    sources: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The digest of everything in the recipe, in hex."""
        parts = [*self.sources, *PACKAGES, self.hook, *map(repr, sorted(_files().items()))]
        parts += map(repr, sorted(_links().items()))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @property
    def hook(self) -> str:
        """The script that makes image files out of a tree."""
        return HOOK.replace("@MODULES@", " ".join(MODULES)).replace("@SIZE@", SIZE)

    def overlay(self) -> bytes:
        """A tar of the files that go over the packages' own."""
        files = {path: (text.encode(), 0o644) for path, text in _files().items()}
        return tar(files, _links())


def _files() -> dict[str, str]:
    return {
        "etc/cni/net.d/10-pinproof.conflist": json.dumps(_NETWORK, indent=1) + "\n",
        "etc/fstab": "",
        "etc/ssh/sshd_config.d/pinproof.conf": _SSHD,
        "etc/systemd/journald.conf.d/pinproof.conf": _JOURNAL,
        "etc/systemd/system.conf.d/pinproof.conf": _SYSTEM,
        f"{_SYSTEMD}/pinproof-workload.service": _WORKLOAD_UNIT,
        f"{_SYSTEMD}/ssh.service.d/pinproof.conf": _SAYS_SSH,
    }


def _links() -> dict[str, str]:
    wants = f"{_SYSTEMD}/multi-user.target.wants/pinproof-workload.service"
    return {
        **{f"{_SYSTEMD}/{unit}": "/dev/null" for unit in _MASKED},
        wants: "/etc/systemd/system/pinproof-workload.service",
    }


def tar(
    files: Mapping[str, tuple[bytes, int]], links: Mapping[str, str], *, last: Sequence[str] = ()
) -> bytes:
    """A tar of ``files`` (path to content and mode) and ``links``, folders included, all of root's,
    the same bytes for the same content. ``last`` are paths of files that come at the end."""
    stream = io.BytesIO()
    order = [path for path in sorted(files) if path not in last] + list(last)
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in _folders([*files, *links]):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o700 if path == "root/.ssh" else 0o755
            archive.addfile(entry)
        for path, target in sorted(links.items()):
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
            archive.addfile(entry)
        for path in order:
            data, mode = files[path]
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def _folders(paths: Sequence[str]) -> list[str]:
    found = set()
    for path in paths:
        parts = path.split("/")[:-1]
        found |= {"/".join(parts[: depth + 1]) for depth in range(len(parts))}
    return sorted(found)
