"""An imitated cgroup v2 file system, so that pods have cgroups on any host.

From 1.33 on (in-place resize) a kubelet without a cgroup for each pod (``cgroupsPerQOS: false``)
dereferences a nil pointer in ``kuberuntime_manager.go``, ``doPodResizeAction``, when a pod with
init containers starts its next container (seen on 1.36.4). Real cgroups would be the host's, and an
ordinary user seldom may make them. While a kubelet runs that needs them, ``/sys/fs/cgroup`` is a
folder of the sandbox's tmpfs. Four system calls of that kubelet are answered here if they name it
(:mod:`conformance.subjects.kubelet.inside.calls`):

    statfs    says that the folder is a cgroup v2 file system
    mkdirat   makes a folder with the files that a new cgroup has
    unlinkat  of a folder (``AT_REMOVEDIR``) removes it with those files
    openat2   for writing empties the file: each write to a cgroup's file replaces what it had, and
              runc's library does not ask for that. In a plain file "79" over "118" would be "798"

What a kubelet writes there has no effect: there are no real containers.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from conformance.subjects.kubelet.inside import AREA, CGROUPS, OWN_CGROUPS, calls

#: The calls that are answered here.
CALLS: Final = ("statfs", "mkdirat", "unlinkat", "openat2")
_AT_REMOVEDIR: Final = 0x200
_MAGIC: Final = 0x63677270  # CGROUP2_SUPER_MAGIC
_CONTROLLERS: Final = "cpuset cpu io memory pids\n"

_EVERY_CGROUP: Final = {
    "cgroup.controllers": _CONTROLLERS,
    "cgroup.subtree_control": "",
    "cgroup.procs": "",
    "cgroup.stat": "nr_descendants 0\nnr_dying_descendants 0\n",
    "cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\n",
    "cpuset.cpus.effective": "",
    "cpuset.mems.effective": "",
    "io.stat": "",
    "memory.stat": "anon 0\nfile 0\ninactive_file 0\nactive_file 0\npgfault 0\npgmajfault 0\n",
}
_EVERY_CHILD: Final = _EVERY_CGROUP | {
    "cgroup.events": "populated 0\nfrozen 0\n",
    "cgroup.freeze": "0",
    "cgroup.type": "domain",
    "cpu.idle": "0",
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "cpu.weight": "1",
    "cpuset.cpus": "",
    "cpuset.mems": "",
    "memory.current": "0",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
    "memory.high": "max",
    "memory.low": "0",
    "memory.max": "max",
    "memory.min": "0",
    "memory.swap.current": "0",
    "memory.swap.max": "max",
    "pids.current": "0",
    "pids.max": "max",
}


#: Numbers of hidden folders: cgroups that are not complete yet, or are being removed.
_NUMBERS: Final = itertools.count(1)


def make_root() -> None:
    """Make a new root cgroup, without children."""
    for entry in Path(OWN_CGROUPS).iterdir():
        _remove_tree(entry)
    _fill(Path(OWN_CGROUPS), _EVERY_CGROUP)


def _fill(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).write_text(content)


def make(paths: Iterable[str]) -> None:
    """Make these cgroups (``kubepods/burstable/pod1``) and those above, if they do not exist."""
    for path in paths:
        parts = path.split("/")
        for number in range(1, len(parts) + 1):
            folder = "/".join([OWN_CGROUPS, *parts[:number]])
            if not Path(folder).exists():
                _make(folder)


def carry_out(call: int, pid: int, arguments: list[int]) -> int | None:
    """As :data:`calls.Answer`, for one of :data:`CALLS`. Raises ``OSError``."""
    numbers = calls.numbers()
    if call == numbers["openat2"]:
        _empty_before_writing(pid, *arguments[:3])
        return None
    path = os.path.normpath(calls.text_at(pid, arguments[0 if call == numbers["statfs"] else 1]))
    if path != CGROUPS and not path.startswith(CGROUPS + "/"):
        return None
    path = OWN_CGROUPS + path.removeprefix(CGROUPS)  # renames into another mount would fail
    if call == numbers["statfs"]:
        if not Path(path).exists():
            return None
        calls.write_at(
            pid, arguments[1], struct.pack("=15Q", _MAGIC, 4096, *[0] * 6, 255, *[0] * 6)
        )
        return 0
    if call == numbers["unlinkat"] and not arguments[2] & _AT_REMOVEDIR:
        return None
    return _make(path) if call == numbers["mkdirat"] else _remove(path)


def _empty_before_writing(pid: int, folder: int, name: int, how: int) -> None:
    """Empty a file before the kernel opens it for writing. ``name`` and ``how`` (``struct
    open_how``) are addresses. The kernel reports a missing file."""
    if calls.number_at(pid, how) & os.O_ACCMODE == os.O_RDONLY:
        return
    path = calls.text_at(pid, name)
    with contextlib.suppress(FileNotFoundError):
        if not path.startswith("/"):
            path = f"{Path(f'/proc/{pid}/fd/{folder}').readlink()}/{path}"
        path = os.path.normpath(path)
        if path.startswith(CGROUPS + "/"):
            os.truncate(OWN_CGROUPS + path.removeprefix(CGROUPS), 0)


def _make(path: str) -> int:
    """Make a cgroup with all its files in one rename, since cAdvisor watches the folder."""
    if Path(path).exists():
        return errno.EEXIST
    draft = _hidden()
    draft.mkdir(mode=0o755)
    _fill(draft, _EVERY_CHILD)
    try:
        draft.rename(path)
    except OSError:
        _remove_tree(draft)
        raise
    return 0


def _remove(path: str) -> int:
    if any(entry.is_dir() for entry in os.scandir(path)):
        return errno.EBUSY
    removed = _hidden()
    Path(path).rename(removed)
    _remove_tree(removed)
    return 0


def _hidden() -> Path:
    return Path(AREA, f"cgroup-{next(_NUMBERS)}")


def _remove_tree(place: Path) -> None:
    """Remove a file or a folder. To import ``shutil`` and ``tempfile`` would take a fifth of the
    time in which a sandbox starts."""
    if not place.is_dir() or place.is_symlink():
        place.unlink()
        return
    for entry in place.iterdir():
        _remove_tree(entry)
    place.rmdir()
