"""A history: where it happens and its steps, and how it is written down."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from conformance.subject import SubjectUsageError
from conformance.written import made, plain, read, written
from hunting.scope import Task
from reference.steps import KubeletConfig, Step

#: The format of the file. A file of another format is refused.
FORMAT: Final = 1
_PLAIN: Final[Mapping[str, str]] = {}


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one node. ``config`` and ``steps`` are as they are written; ``row`` are the
    values of the factors that it was drawn with, where they are not plain."""

    machine: str
    config: dict[str, Any]
    steps: list[dict[str, Any]]
    row: dict[str, str] = {}
    format: int = FORMAT

    @classmethod
    def of(cls, task: Task, steps: tuple[Step, ...], row: Mapping[str, str] = _PLAIN) -> History:
        """The history of these steps. It has no release: a walk has one."""
        return cls(
            machine=task.machine,
            config=plain(task.config),
            steps=[written(one) for one in steps],
            row=dict(row),
        )

    def task(self, release: str) -> Task:
        """The task of the history with a kubelet of this release."""
        return Task(release, self.machine, made(KubeletConfig, self.config))

    @property
    def taken(self) -> tuple[Step, ...]:
        return tuple(read(one) for one in self.steps)


def history_at(path: Path) -> History:
    """The history in a file. Raises :class:`SubjectUsageError`, in one line."""
    return read_file(path, History, lambda found: (found.task("1.36"), found.taken))


_Found = TypeVar("_Found")
#: A plan that covers all pairs has some 100 KB, and as text some 10 MB.
_LONGEST: Final = 64 << 20


def read_file(path: Path, kind: type[_Found], check: Callable[[_Found], object]) -> _Found:
    """What a file of this kind holds, once ``check`` has looked at it. Raises
    :class:`SubjectUsageError`, in one line."""
    try:
        with path.open("rb") as file:
            data = file.read(_LONGEST + 1)
        if len(data) > _LONGEST:
            raise SubjectUsageError(f"{path}: longer than {_LONGEST} bytes")
        raw = msgspec.json.decode(lzma.decompress(data) if path.suffix == ".xz" else data)
    except OSError as error:
        raise SubjectUsageError(f"{path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, lzma.LZMAError, RecursionError) as error:
        raise SubjectUsageError(f"{path}: not JSON: {error}") from error
    version = raw.get("format") if isinstance(raw, dict) else None
    if version != FORMAT:
        raise SubjectUsageError(f"{path}: format {version}; this pinproof reads format {FORMAT}")
    try:
        value = msgspec.convert(raw, kind)
        check(value)
    except (msgspec.ValidationError, KeyError, ValueError) as error:
        raise SubjectUsageError(f"{path}: {error}") from error
    return value
