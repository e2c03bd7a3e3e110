"""The folders of fleets, ``$XDG_CACHE_HOME/pinproof/fleets/NAME/``, one for each that is there:

    lock            held by the process of ``pinproof fleet up``, whose number is in it
    fleet.json      what :class:`Record` has
    kubeconfig      for the clients of its API server
    nodes/NODE      a link to the root of the node's file system

What belongs here: who holds a folder, what is written there, and how a fleet is taken down from
outside. What never does: what a fleet does while it is up.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from conformance.kubelets.shelf import taken
from conformance.subject import SubjectLostError, SubjectNotRestored, SubjectUsageError
from hil.lab.places import is_held, lock_file
from topologies.user_cache import cache_folder

DEFAULT: Final = "default"
_LOCK: Final = "lock"
_RECORD: Final = "fleet.json"
_KUBECONFIG: Final = "kubeconfig"
#: Short enough for the paths of the sockets below the folder.
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?")
#: Seconds in which a fleet has to end after SIGTERM, and after SIGKILL; it takes less than one.
_PATIENCE: Final = 60.0
_LOOK: Final = 0.05
#: Of ``/proc/PID/stat``, behind the name of the program: when the process was started (proc(5)).
_STARTED: Final = 19


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node by its name in the cluster. ``reserved``: the CPUs that its kubelet reserves;
    ``release``: that of the kubelet; ``stopped``: whether the kubelet was stopped."""

    name: str
    machine: str
    reserved: str
    release: str
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """What is written of a fleet. ``ready``: whether all its nodes are. ``processes``: pid and
    start time of each process that takes its whole sandbox with it when it ends."""

    release: str
    nodes: tuple[NodeRecord, ...] = ()
    processes: tuple[tuple[int, str], ...] = ()
    ready: bool = False


class FleetFolder:
    """The folder of the fleet ``name``. Raises :class:`SubjectUsageError` for what cannot be a
    name."""

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise SubjectUsageError(
                f"--name {name!r}: it is at most 20 of a-z, 0-9 and -, as in my-fleet"
            )
        self.name = name
        self.path = cache_folder("fleets", name)
        self.kubeconfig = self.path / _KUBECONFIG

    @property
    def state(self) -> str:
        """``up``, ``starting``, or ``killed``: its process has ended, its folder is there."""
        if not is_held(self.path / _LOCK):
            return "killed"
        return "up" if self.record().ready else "starting"

    def record(self) -> Record:
        """The record that was written last; an empty one where it cannot be read."""
        try:
            found = json.loads((self.path / _RECORD).read_text())
            nodes = tuple(NodeRecord(**one) for one in found["nodes"])
            processes = tuple((int(pid), str(started)) for pid, started in found["processes"])
            return Record(str(found["release"]), nodes, processes, bool(found["ready"]))
        except (OSError, ValueError, KeyError, TypeError):
            return Record("")

    def require_up(self) -> Record:
        """Its record. Raises :class:`SubjectUsageError` where there is no such fleet, and
        :class:`SubjectLostError` where it is not up."""
        self._require_there()
        if (state := self.state) != "up":
            raise SubjectLostError(f"fleet {self.name}: it is {state}, not up")
        return self.record()

    def node(self, name: str) -> Path:
        """Where the root of a node's file system is."""
        return self.path / "nodes" / name

    # --- by the process of the fleet ---------------------------------------------------------

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The block has the folder: it is empty at first, and removed at the end. Raises
        :class:`SubjectUsageError` where another process has it, or it cannot be written."""
        with contextlib.ExitStack() as stack:
            try:
                lock = self._take(stack)
                os.ftruncate(lock, 0)
                os.write(lock, str(os.getpid()).encode())
                self._remove(keep=_LOCK)
                (self.path / "nodes").mkdir()
            except OSError as error:
                raise SubjectUsageError(f"{self.path}: {error.strerror}") from error
            try:
                yield
            finally:
                self._remove()

    def write(self, record: Record) -> None:
        """Replace the record atomically."""
        draft = self.path / f".{_RECORD}"
        draft.write_text(json.dumps(asdict(record), indent=1) + "\n")
        draft.replace(self.path / _RECORD)

    def write_kubeconfig(self, text: str) -> None:
        """For this user alone: it has the token of a user with every right."""
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(text)

    def link(self, node: str, place: Path) -> Path:
        """Make :meth:`node` lead to ``place``."""
        self.node(node).symlink_to(place)
        return self.node(node)

    def _take(self, stack: contextlib.ExitStack) -> int:
        """The descriptor of the lock in the folder, which is made where it is missing."""
        while True:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = stack.enter_context(lock_file(self.path / _LOCK))
            if not taken(lock):
                raise SubjectUsageError(
                    f"--name {self.name}: there is such a fleet; "
                    f"pinproof fleet down --name {self.name} ends it"
                )
            if self._is_there(lock):
                return lock

    # --- from outside ------------------------------------------------------------------------

    def take_down(self) -> None:
        """End the process of the fleet, wait until nothing of its sandboxes is left, and remove
        the folder. Raises :class:`SubjectUsageError` where there is no such fleet, and
        :class:`SubjectNotRestored` where a process does not end."""
        self._require_there()
        with lock_file(self.path / _LOCK) as lock:
            processes = self.record().processes
            self._end_process(lock)
            if not _until(lambda: not _left(processes), _PATIENCE):
                raise SubjectNotRestored(
                    f"fleet {self.name}: process {_left(processes)[0]} does not end"
                )
            if self._is_there(lock):
                self._remove()

    def _end_process(self, lock: int) -> None:
        """End the process that holds the lock. While it holds that, no other process has its
        pid."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if taken(lock):
                return
            number = os.pread(lock, 20, 0)
            if number.isdigit():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(number), sign)
            if _until(lambda: taken(lock), _PATIENCE):
                return
        raise SubjectNotRestored(f"fleet {self.name}: process {number.decode()} does not end")

    def _require_there(self) -> None:
        if not self.path.is_dir():
            raise SubjectUsageError(
                f"--name {self.name}: there is no such fleet; pinproof fleet list names all"
            )

    def _is_there(self, lock: int) -> bool:
        """Whether this descriptor's file is the one in the folder. The holder before may have
        removed its lock, and another process may have made a new one."""
        try:
            return os.path.samestat(os.fstat(lock), (self.path / _LOCK).stat())
        except FileNotFoundError:
            return False

    def _remove(self, *, keep: str = "") -> None:
        """Remove the folder, or all but the file ``keep``. Links to other file systems are not
        followed."""
        for each in self.path.iterdir():
            if each.is_dir():
                shutil.rmtree(each)
            elif each.name != keep:
                each.unlink()
        if not keep:
            self.path.rmdir()


def all_folders() -> list[FleetFolder]:
    """The folders of all fleets, also of those that were killed."""
    root = cache_folder("fleets")
    names = sorted(each.name for each in root.iterdir()) if root.is_dir() else []
    return [FleetFolder(name) for name in names if _NAME.fullmatch(name)]


def processes(numbers: Iterable[int]) -> tuple[tuple[int, str], ...]:
    """The processes of these numbers, as :class:`Record` has them."""
    return tuple((pid, _started(pid)) for pid in numbers)


def facts(folder: FleetFolder) -> dict[str, Any]:
    """What ``fleet list`` says."""
    record = folder.record()
    return {
        "name": folder.name,
        "state": folder.state,
        "release": record.release,
        "kubeconfig": str(folder.kubeconfig),
        "nodes": [
            {
                "name": one.name,
                "machine": one.machine,
                "release": one.release,
                "stopped": one.stopped,
                "folder": str(folder.node(one.name)),
            }
            for one in record.nodes
        ],
    }


def _left(known: Iterable[tuple[int, str]]) -> list[int]:
    return [pid for pid, started in known if started and _started(pid) == started]


def _started(pid: int) -> str:
    """When the process was started; ``""`` where it does not exist or is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return ""
    state, *fields = text.rpartition(")")[2].split()
    return "" if state == "Z" else fields[_STARTED - 1]


def _until(done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK)
    return True
