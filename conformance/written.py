"""Steps, configurations and views as plain JSON values, written and read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import MISSING, Field
from threading import Lock
from typing import Any, Final, TypeVar, get_args

import msgspec

from reference import CPUSet
from reference.steps import Step

_T = TypeVar("_T")
#: Types that were converted, and the lock for converting one for the first time. If two threads
#: convert a dataclass for the first time at once, msgspec 0.22 reads uninitialised memory, and the
#: process ends with a segmentation fault.
_MADE: Final[set[type]] = set()
_FIRST: Final = Lock()
_STEPS: Final[Mapping[str, type[Step]]] = {kind.__name__: kind for kind in get_args(Step)}


def plain(value: object) -> Any:
    """A configuration, a step's fields or a view as JSON has it, CPU sets as texts."""
    return msgspec.to_builtins(value, enc_hook=str)


def made(kind: type[_T], value: object) -> _T:
    """The value that :func:`plain` has written. Raises ``msgspec.ValidationError`` for anything
    else, and ``ValueError`` for an invalid CPU set."""
    with nullcontext() if kind in _MADE else _FIRST:
        found = msgspec.convert(value, kind, dec_hook=_cpuset, str_keys=True)
        _MADE.add(kind)
    return found


def written(step: Step) -> dict[str, Any]:
    """A step as its name with its fields."""
    return {type(step).__name__: plain(step)}


def read(step: Mapping[str, Any]) -> Step:
    """A step that was :func:`written`. Raises ``KeyError``, and what :func:`made` raises, for
    anything else."""
    ((name, fields),) = step.items()
    return made(_STEPS[name], fields)


def default_of(field: Field[Any]) -> object:
    """The default of a field of a dataclass; ``MISSING`` without one."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def _cpuset(_: type, text: str) -> CPUSet:
    return CPUSet.parse(text)
