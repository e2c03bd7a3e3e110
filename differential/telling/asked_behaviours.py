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
    """The set to which the behaviours are added that the model asks for in the block."""
    has, asked = releases.has, set[Behaviour]()

    def noting(release: AnyRelease, behaviour: Behaviour) -> bool:
        asked.add(behaviour)
        return has(release, behaviour)

    for module in _asking_modules():
        vars(module)["has"] = noting
    for function in _cached_functions():
        function.cache_clear()
    try:
        yield asked
    finally:
        for module in _asking_modules():
            vars(module)["has"] = has


@cache
def _asking_modules() -> list[ModuleType]:
    return [
        module
        for name, module in sys.modules.items()
        if name.startswith("reference.") and getattr(module, "has", None) is releases.has
    ]


@cache
def _cached_functions() -> list[Any]:
    """Functions of the model that remember their answers, and so would not ask again. Those of
    ``releases`` are left out: their answers do not depend on a history."""
    return [
        one
        for name, module in sys.modules.items()
        if name.startswith("reference.") and module is not releases
        for one in vars(module).values()
        if hasattr(one, "cache_clear") and one.__module__ == name
    ]
