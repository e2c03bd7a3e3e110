"""The lab's nodes as they are on disk: one folder each, with a record of what it is.

What belongs here: the record, the states a folder can be in, and inventories. What never does:
starting or changing a node (:mod:`hil.lab.lab`).

A run that makes or changes a node holds its lock (``busy``). A folder without a lock and without a
ready node was left by a killed run: it is listed, and ``down`` removes it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

import msgspec

from conformance.kubelets.shelf import taken
from hil.lab import keys as keyring
from hil.lab import places, process, runtime
from hil.lab.errors import LabUsageError
from hil.lab.guest import Door
from hil.lab.names import NODE_NAME
from topologies.capturing.saving import write_whole
from topologies.errors import one_line

_NOTE: Final = "node.json"
_BUSY: Final = "busy"
#: Also a host name.
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?", re.ASCII)


class State(Enum):
    """The state of a node, as the host sees it."""

    UP = "up"
    BUSY = "busy"  # a run boots, reboots or removes it at this moment
    DOWN = "down"  # its QEMU has ended
    LEFT = "left over"  # a run was killed while it made it


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a node is. ``ready`` once its first boot succeeded; ``inventory`` is the file that
    names it; ``snapshot`` the key of the snapshot below its disk, ``""`` without. ``spec`` is the
    machine that it was booted as; ``original`` the one before a scenario booted it as another,
    ``""`` where none did. ``made`` is the machine that it was first made as, with ``settings`` and
    ``oci``."""

    spec: str
    memory: int
    cgroup: int
    kubelet: str
    version: str
    image: str
    port: int
    accel: str
    inventory: str
    snapshot: str = ""
    ready: bool = False
    original: str = ""
    made: str = ""
    settings: dict[str, Any] = {}
    oci: str = runtime.DEFAULT


@dataclass(frozen=True, slots=True)
class Node:
    """A node's folder, with its record if it has one yet."""

    folder: Path
    record: Record | None

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def state(self) -> State:
        if places.is_held(self.folder / _BUSY):
            return State.BUSY
        if self.record is None or not self.record.ready:
            return State.LEFT
        return State.UP if process.alive(self.folder) else State.DOWN

    @property
    def door(self) -> Door:
        """Raises :class:`LabUsageError` where it is not made yet."""
        return Door(self.name, self.recorded().port, self.folder)

    def recorded(self, *, ready: bool = False) -> Record:
        """Its record. Raises :class:`LabUsageError` where it has none, or was never ``ready``."""
        if self.record is None or (ready and not self.record.ready):
            raise LabUsageError(f"{self.name} is incomplete: pinproof lab down {self.name}")
        return self.record

    def written(self, record: Record) -> Node:
        """Write this record to disk; the node with it."""
        write_whole(self.folder / _NOTE, msgspec.json.encode(record))
        return Node(self.folder, record)

    def facts(self) -> dict[str, Any]:
        """For people and programs: flat, of plain values."""
        record = self.record
        found: dict[str, Any] = {"name": self.name, "state": self.state.value}
        if record is not None:
            found |= {
                "spec": record.spec,
                "kubelet": record.version,
                "cgroup": record.cgroup,
                "url": self.door.url,
                "inventory": record.inventory,
            }
        return found | {"pid": process.pid(self.folder), "folder": str(self.folder)}


def all_nodes() -> list[Node]:
    """Every node of the lab, whatever its state, by name."""
    folders = (path for path in places.nodes().iterdir() if path.is_dir())
    return [_read(path) for path in sorted(folders, key=lambda path: _natural(path.name))]


def named(name: str) -> Node:
    """The node of that name; raises :class:`LabUsageError` where there is none."""
    folder = places.nodes() / name
    if not _NAME.fullmatch(name) or not folder.is_dir():
        there = ", ".join(node.name for node in all_nodes()) or "none"
        raise LabUsageError(f"no lab node is called {one_line(name)!r}; there are: {there}")
    return _read(folder)


def reserve(name: str = "") -> Node:
    """Make the folder of a new node; without a name, the first of ``node1``, ``node2`` … that is
    free. Raises :class:`LabUsageError` for a name that is taken or not valid."""
    if name and not _NAME.fullmatch(name):
        raise LabUsageError(
            f"{one_line(name)!r} is not a node name: small letters, digits and dashes, up to 50"
        )
    number = 0
    while True:
        number += 1
        folder = places.nodes() / (name or f"node{number}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            if name:
                raise LabUsageError(f"there is a lab node called {name} already") from None
        else:
            return Node(folder, None)


@contextlib.contextmanager
def held(node: Node) -> Iterator[None]:
    """Hold the node's lock; raises :class:`LabUsageError` where another run holds it."""
    with places.lock_file(node.folder / _BUSY) as lock:
        if not taken(lock):
            raise LabUsageError(f"{node.name} is busy: another run works on it")
        yield


def write_inventory(path: Path, nodes: Iterable[Node]) -> None:
    """The inventory of ``nodes`` at ``path``, in the form of :mod:`hil.transport.inventory`; where
    there are none, no inventory."""
    tables = [inventory(node) for node in nodes]
    if tables:
        write_whole(path, "\n".join(tables).encode())
    else:
        path.unlink(missing_ok=True)


def inventory(node: Node) -> str:
    """The node's lines of an inventory."""
    assert node.record is not None
    door = node.door
    facts = {
        "name": node.name,
        "url": door.url,
        "identity": str(node.folder / keyring.LOGIN),
        "known_hosts": str(node.folder / keyring.KNOWN_HOSTS),
        "node": NODE_NAME,
        "lab": node.record.original or node.record.spec,
        "allow": ["reboot", "static-pods"],
    }
    # TOML reads JSON's texts and lists; DEL is the one character that JSON leaves alone.
    rows = (f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in facts.items())
    return "[[node]]\n" + "".join(rows).replace("\x7f", "\\u007f")


def _read(folder: Path) -> Node:
    try:
        record = msgspec.json.decode((folder / _NOTE).read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError):
        record = None
    return Node(folder, record)


def _natural(name: str) -> tuple[object, ...]:
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name))
