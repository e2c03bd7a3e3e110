"""Where the lab keeps its files: one folder of the user's cache.

    images/DIGEST/      what guests boot: root.raw, vmlinuz, busybox, modules/, image.json
    snapshots/DIGEST/   a guest whose kubelet is ready: disk.qcow2, memory, keys, snapshot.json
    nodes/NAME/         a node: overlay.qcow2, payload.tar, initrd, console.log, keys, node.json …
    locks/              one file for whatever is made once

What belongs here: paths, and who holds a lock. What never does: what is in the files.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conformance.kubelets.shelf import taken
from hil.lab.errors import LabError
from topologies.user_cache import cache_folder


def root() -> Path:
    """The lab's folder, which may not exist yet. It holds keys."""
    return cache_folder("lab")


def folder(*names: str) -> Path:
    """A folder below :func:`root`, which is there afterwards."""
    place = root().joinpath(*names)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"the lab folder cannot be made: {place}: {error.strerror}") from error
    return place


def images() -> Path:
    return folder("images")


def snapshots() -> Path:
    return folder("snapshots")


def nodes() -> Path:
    return folder("nodes")


@contextmanager
def made_once(name: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock called ``name``, so that only one of several runs makes a thing."""
    with lock_file(folder("locks") / name) as lock:
        if not taken(lock):
            say("waiting for another run that makes the same")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def lock_file(path: Path, *, create: bool = True) -> Iterator[int]:
    """The descriptor of a lock file, which this does not lock."""
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    try:
        with lock_file(path, create=False) as lock:
            return not taken(lock)
    except FileNotFoundError:
        return False
