"""Changes to a node, as values: each can be undone from the node's journal alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class WriteFile:
    """The file at this absolute path has this content; the file keeps mode, owner and label, and a
    new one is ``mode``. Below ``/sys`` and ``/proc`` it is written in place."""

    path: str
    content: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """There is no file at this path."""

    path: str


@dataclass(frozen=True, slots=True)
class InstallFile:
    """The file at this path has the content of ``source``, another file on the node; it keeps mode,
    owner and label. When all is restored, it has to be the very file that was there."""

    path: str
    source: str


@dataclass(frozen=True, slots=True)
class PutBack:
    """The file at this path is as it was before the run first changed it, while the run goes on."""

    path: str


@dataclass(frozen=True, slots=True)
class KeepFile:
    """Nothing changes now. When all is restored, this file is as it is now, whatever changed it."""

    path: str


@dataclass(frozen=True, slots=True)
class SetOnline:
    """A CPU, online or offline."""

    cpu: int
    online: bool


@dataclass(frozen=True, slots=True)
class Note:
    """Nothing changes now; ``undo`` is a POSIX shell script that is run when all is restored,
    perhaps more than once. Each runs before the changes made earlier are undone."""

    undo: str


@dataclass(frozen=True, slots=True)
class OwnPods:
    """Nothing changes now. Pods of this namespace of the cluster count as the run's own: what they
    leave in the state file and among cgroups is undone, and does not hinder the restoring."""

    namespace: str


Change: TypeAlias = (
    WriteFile | RemoveFile | InstallFile | PutBack | KeepFile | SetOnline | Note | OwnPods
)
