"""Which lines of the model drafts run, and which no history has reached yet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import reference.cpumanager as cpumanager
import reference.topologymanager as topologymanager

_FOLDERS: Final = tuple(
    str(Path(package.__file__ or "").parent) for package in (cpumanager, topologymanager)
)


class Lines:
    """The lines of the model's functions, and which of them were run."""

    def __init__(self) -> None:
        self._met: set[tuple[str, int]] = set()
        self._all = frozenset(_every_line())
        #: The code that was entered, by its id, with its lines that were not run. A code without
        #: such lines need not be watched.
        self._entered_code: dict[int, tuple[CodeType, set[int]]] = {}

    @property
    def met(self) -> int:
        return len(self._met & self._all)

    @property
    def total(self) -> int:
        return len(self._all)

    def left(self) -> dict[str, list[int]]:
        """The lines that were not run, by file."""
        found: dict[str, list[int]] = {}
        for file, line in sorted(self._all - self._met):
            found.setdefault(str(Path(file).relative_to(Path(_FOLDERS[0]).parents[1])), []).append(
                line
            )
        return found

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count the lines that this thread runs in the block."""
        before = sys.gettrace()
        sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(before)

    def _entered(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        known = self._entered_code.get(id(code))
        if known is None:
            lines = _lines(code) if code.co_filename.startswith(_FOLDERS) else ()
            known = self._entered_code[id(code)] = (code, set(lines))
        return self._line if known[1] else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        code = frame.f_code
        self._entered_code[id(code)][1].discard(frame.f_lineno)
        self._met.add((code.co_filename, frame.f_lineno))
        return self._line


def _every_line() -> Iterator[tuple[str, int]]:
    for folder in _FOLDERS:
        for path in sorted(Path(folder).rglob("*.py")):
            module = compile(path.read_text(), str(path), "exec")
            for code in _inner(module):
                yield from ((str(path), line) for line in _lines(code))


def _lines(code: CodeType) -> Iterator[int]:
    """The lines of a function below its first."""
    for _, _, line in code.co_lines():
        if line is not None and line > code.co_firstlineno:
            yield line


def _inner(code: CodeType) -> Iterator[CodeType]:
    """The functions of a module, at any depth; bodies of classes and modules run at import."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if one.co_flags & 0x02:  # CO_NEWLOCALS: a function, not the body of a class
                yield one
            yield from _inner(one)
