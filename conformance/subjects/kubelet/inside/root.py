"""The sandbox's root: a tmpfs with read-only mounts of the host's files, and with writable holes.

A kubelet that runs as root can write only to the tmpfs. Kernel settings that it writes at every
start (``cm/container_manager_linux.go``, ``setupKernelTunables``) are private files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from conformance.subjects.kubelet.inside import AREA, CGROUPS, OWN_CGROUPS, STATE_DIR
from conformance.subjects.kubelet.inside.syscalls import (
    BIND,
    NODEV,
    NOEXEC,
    NOSUID,
    PRIVATE,
    REC,
    SHARED,
    mount,
    pivot_root,
    read_only,
    unmount,
)

#: Empty folders of the sandbox. ``/run`` is one so that a kubelet cannot reach the host's services
#: by their sockets (cAdvisor asks containerd, CRI-O and Docker by itself).
_HOLES: Final = frozenset({
    AREA, STATE_DIR, "/proc", "/run", "/var/log/pods", "/var/log/containers",
    "/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/hugepages",
})  # fmt: skip
#: Kernel settings that every kubelet writes, and the boot id, which a reboot renews.
PRIVATE_SETTINGS: Final = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "kernel/random/boot_id",
)  # fmt: skip
#: Paths of a machine's tree that a kubelet reads.
_MACHINE_PLACES: Final = (
    "sys/devices/system/cpu", "sys/devices/system/node", "sys/kernel/mm/hugepages", "proc/cpuinfo",
)  # fmt: skip
_HOST: Final = "/.host"
#: Folders of which every host has one; the new root is mounted on it for a moment.
_BASES: Final = ("/tmp", "/mnt", "/run", "/var")  # noqa: S108
#: Errors of another user's FUSE mount or a dead network share, which the sandbox then lacks.
_UNREACHABLE: Final = (errno.EACCES, errno.ENOENT, errno.ESTALE, errno.ENOTCONN)


def build(files: Collection[str] = ()) -> None:
    """Make the new root and enter it. The folders of ``files`` are writable and lack these files.
    Raises ``OSError``."""
    holes = _HOLES if Path(CGROUPS).is_dir() else _HOLES | {CGROUPS}
    mount("", "/", "", REC | PRIVATE)
    base = next(path for path in _BASES if Path(path).is_dir())
    mount("pinproof", base, "tmpfs", NOSUID | NODEV, "mode=755,size=1g")
    Path(f"{base}{_HOST}").mkdir()
    pivot_root(base, f"{base}{_HOST}")
    os.chdir("/")
    _mirror(_HOST, "", holes | {*files})
    for made in [*map(Path, holes), *(Path(one).parent for one in files)]:
        made.mkdir(parents=True, exist_ok=True)
    _mount_proc()
    for folder in ("tmp", "manifests", "machines", "versions"):
        Path(AREA, folder).mkdir()
    Path(OWN_CGROUPS).mkdir()
    unmount(_HOST)
    Path(_HOST).rmdir()
    _share_state_dir()


def _share_state_dir() -> None:
    """Make the kubelet's folder a shared mount, as systemd does. Otherwise a kubelet mounts it on
    itself (``hostutil_linux.go``) while it makes its pod-resources socket there, and that race may
    end it (seen once in about 1,200 starts of 1.36.4)."""
    mount(STATE_DIR, STATE_DIR, "", BIND)
    mount("", STATE_DIR, "", SHARED)


def _mirror(old: str, place: str, holes: frozenset[str]) -> None:
    """Mirror the folder ``old`` at ``place`` of the new root, without the holes."""
    for entry in os.scandir(old):
        path = f"{place}/{entry.name}"
        if path in holes or path == _HOST:
            continue
        if any(hole.startswith(path + "/") for hole in holes) and entry.is_dir():
            Path(path).mkdir()
            _mirror(entry.path, path, holes)
        elif entry.is_symlink():
            Path(path).symlink_to(Path(entry.path).readlink())
        else:
            _bind_read_only(entry.path, path, folder=entry.is_dir())


def _bind_read_only(source: str, target: str, *, folder: bool) -> None:
    if folder:
        Path(target).mkdir()
    else:
        Path(target).touch()
    try:
        mount(source, target, "", BIND | REC)
    except OSError as error:
        if error.errno not in _UNREACHABLE:
            raise
    else:
        read_only(target)


def _mount_proc() -> None:
    try:
        mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
    except PermissionError:  # parts of the host's /proc are masked, as in most containers
        mount(f"{_HOST}/proc", "/proc", "", BIND | REC)
    mount("/proc/sys", "/proc/sys", "", BIND | REC)
    read_only("/proc/sys")
    for name in PRIVATE_SETTINGS:
        _make_private(name)


def _make_private(setting: str) -> None:
    real, own = Path("/proc/sys", setting), Path(AREA, "settings", setting)
    if not real.exists():
        return
    own.parent.mkdir(parents=True, exist_ok=True)
    try:
        own.write_text(real.read_text())
    except PermissionError:  # in a user namespace some cannot be read
        own.write_text("0\n")
    mount(str(own), str(real), "", BIND)


def show_cgroups(*, own: bool) -> None:
    """Mount the sandbox's own cgroups over the host's, or unmount them. Raises ``OSError``."""
    if own:
        mount(OWN_CGROUPS, CGROUPS, "", BIND)
    else:
        unmount(CGROUPS)


def bind_machine(folder: str) -> None:
    """Mount the tree in ``folder`` over the host's hardware, in place of the last machine. Raises
    ``OSError``."""
    for place in _MACHINE_PLACES:
        source, target = f"{folder}/{place}", f"/{place}"
        try:
            unmount(target)
        except OSError as error:
            if error.errno != errno.EINVAL:  # nothing is mounted there yet
                raise
        if Path(source).exists():
            mount(source, target, "", BIND)
