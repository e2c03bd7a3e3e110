"""Where the lab keeps its things: one folder of the user's cache.

    images/DIGEST/      what guests boot: root.raw, vmlinuz, busybox, modules/, image.json
    snapshots/DIGEST/   a guest whose kubelet is ready: disk.qcow2, memory, keys, snapshot.json
    nodes/NAME/         a node: overlay.qcow2, payload.tar, initrd, console.log, keys, node.json …
    locks/              one file for whatever is made once

What belongs here: paths. What never does: what is in the files.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hil.lab.errors import LabError
from topologies.user_cache import cache_folder


def root() -> Path:
    """The lab's folder; private to the user, since it holds keys. Made where it is not there."""
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
    """Hold the lock called ``name``: of several that want to make one thing, one makes it."""
    with (folder("locks") / name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another run that makes the same")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
