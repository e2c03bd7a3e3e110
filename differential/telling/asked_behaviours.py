"""Which behaviours the model asks for while it does something."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from reference import releases
from reference.behaviours import Behaviour
from reference.releases import AnyRelease


@contextmanager
def asking() -> Iterator[set[Behaviour]]:
    """While it is open, the behaviours that the model asks for are put into the set."""
    right, asked = releases.has, set[Behaviour]()

    def hearing(release: AnyRelease, behaviour: Behaviour) -> bool:
        asked.add(behaviour)
        return right(release, behaviour)

    for module in _rooms():
        vars(module)["has"] = hearing
    for function in _remembering():
        function.cache_clear()
    try:
        yield asked
    finally:
        for module in _rooms():
            vars(module)["has"] = right


@cache
def _rooms() -> list[ModuleType]:
    """The modules of the model that ask."""
    return [
        module
        for name, module in sys.modules.items()
        if name.startswith("reference.") and getattr(module, "has", None) is releases.has
    ]


@cache
def _remembering() -> list[Any]:
    """Functions of the model that remember their answers, and so would not ask again. What a
    release has is no question to a history."""
    return [
        one
        for name, module in sys.modules.items()
        if name.startswith("reference.") and module is not releases
        for one in vars(module).values()
        if hasattr(one, "cache_clear") and one.__module__ == name
    ]
