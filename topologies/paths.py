"""Which paths a tree may hold, whatever its source.

A tree comes out of untrusted archives and folders, and goes back to disk under a
kubelet. So every path is relative and without ``.`` and ``..``, nothing lies below a link, and a
link's target climbs first and descends afterwards (``../../cpu/cpu0``), never above the root:
then following links cannot leave the tree, however they are chained.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from topologies.tree import Link

CPU: Final = "sys/devices/system/cpu"
NODE: Final = "sys/devices/system/node"
CPUINFO: Final = "proc/cpuinfo"

#: The folders of which a machine's tree keeps everything.
FOLDERS: Final = (CPU, NODE)
_RELEVANT: Final = re.compile(rf"(?:(.*?)/)?((?:{CPU}|{NODE})/.+|{CPUINFO})", re.DOTALL)

#: Bounds on any tree: a machine of 8192 CPUs stays below them. Linux writes at most a page to a
#: file of sysfs, and no page is larger than 64 KiB; ``/proc/cpuinfo`` grows with the CPUs.
MAX_FILES: Final = 1_000_000
MAX_FILE_BYTES: Final = 64 << 10
MAX_CPUINFO_BYTES: Final = 32 << 20
MAX_TREE_BYTES: Final = 128 << 20
MAX_PATH: Final = 1024


def clean(path: str) -> str:
    """``path`` without ``.`` and doubled slashes; raises ``ValueError`` where it is absolute,
    climbs with ``..``, holds a NUL or is too long."""
    if path.startswith("/"):
        raise ValueError("an absolute path")
    if "\0" in path:
        raise ValueError("a path with a NUL byte")
    if len(path) > MAX_PATH:
        raise ValueError("an overlong path")
    if "//" not in path and "." not in path:
        return path.rstrip("/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError("a path with `..`")
    return "/".join(parts)


def relevant(path: str) -> tuple[str, str] | None:
    """``(prefix, path in the tree)`` of a clean path, or ``None`` for what a tree does not keep.
    The prefix is the folder an archive was packed under, ``""`` for none."""
    found = _RELEVANT.fullmatch(path)
    return (found[1] or "", found[2]) if found else None


def check_size(path: str, size: int) -> None:
    """Raise ``ValueError`` where the file at ``path`` of the tree is larger than any kernel's."""
    most = MAX_CPUINFO_BYTES if path == CPUINFO else MAX_FILE_BYTES
    if size > most:
        said = f"{most >> 20} MiB" if most >> 20 else f"{most >> 10} KiB"
        raise ValueError(f"a file of more than {said}: {path}")


def check_link(path: str, target: str) -> None:
    """Raise ``ValueError``, its text naming both, where the link at ``path`` may lead out of the
    tree."""
    if climb_of(target) > path.count("/"):
        raise ValueError(f"a link out of the tree: {path} -> {target}")


def climb_of(target: str) -> int:
    """How many folders a link's target climbs: :data:`MAX_PATH` for one that no tree may hold."""
    if target.startswith("/") or "\0" in target or not 0 < len(target) <= MAX_PATH:
        return MAX_PATH
    parts = [part for part in target.split("/") if part not in ("", ".")]
    climb = 0
    while climb < len(parts) and parts[climb] == "..":
        climb += 1
    return MAX_PATH if ".." in parts[climb:] else climb


def check_nesting(entries: Mapping[str, str]) -> None:
    """Raise ``ValueError``, its text naming the path, where an entry lies below a file or link."""
    parents: set[str] = set()
    for parent in {path.rpartition("/")[0] for path in entries}:
        while parent and parent not in parents:
            parents.add(parent)
            parent = parent.rpartition("/")[0]
    for parent in parents:
        if parent in entries:
            kind = "a link" if isinstance(entries[parent], Link) else "a file"
            raise ValueError(f"{parent} is {kind} and a folder")
