"""Which behaviours the model asks for while it does something."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Final

from reference import feature_gates, releases
from reference.behaviours import Behaviour
from reference.pods import qos
from reference.releases import AnyRelease

#: What remembers its answers would not ask again.
_REMEMBERING: Final = [
    one
    for module in (feature_gates, qos)
    for one in vars(module).values()
    if hasattr(one, "cache_clear") and one.__module__ == module.__name__
]


@contextmanager
def asking() -> Iterator[set[Behaviour]]:
    """While it is open, the behaviours that the model asks for are put into the set."""
    right, asked = releases.has, set[Behaviour]()

    def hearing(release: AnyRelease, behaviour: Behaviour) -> bool:
        asked.add(behaviour)
        return right(release, behaviour)

    for module in _rooms():
        vars(module)["has"] = hearing
    for function in _REMEMBERING:
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
