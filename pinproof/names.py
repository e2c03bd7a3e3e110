"""Whether the packages that would be imported are this project's: some of their names are common.

Python imports another one where the current folder has a folder or a module of that name (``python
-m`` looks there first), or where another distribution wrote into the same folder. This module
imports nothing of the project, so that it can report this before anything fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

#: Top packages of the wheel.
PACKAGES: Final = (
    "conformance",
    "hil",
    "hunting",
    "pinproof",
    "reference",
    "reports",
    "topologies",
)
_HERE: Final = Path(__file__).parents[1]


def clash(here: Path = _HERE) -> str:
    """One line with both paths, where a package is not the one beside this module; ``""`` where
    each is. ``here``: the folder that pinproof is installed in."""
    for name in PACKAGES:
        own = here / name / "__init__.py"
        spec = PathFinder.find_spec(name)
        found = spec.origin if spec is not None else None
        if found is not None and Path(found) != own and Path(found).resolve() != own.resolve():
            return (
                f"{found} is in the way of {own}: both are called {name}; start pinproof in "
                "another folder or environment, or without that one on Python's path"
            )
    return _overwritten(here)


def _overwritten(here: Path) -> str:
    """One line that names a package whose first file another distribution has replaced, or
    ``""``."""
    for record in here.glob("pinproof-*.dist-info/RECORD"):
        for name, size in _sizes(record):
            path = here / name
            if not path.exists() or path.stat().st_size != size:
                for other in here.glob("*.dist-info/RECORD"):
                    if other != record and f"\n{name}," in f"\n{other.read_text(encoding='utf-8')}":
                        return (
                            f"{path} is of {other.parent.name}, and not of {record.parent.name}: "
                            "install pinproof in an environment of its own"
                        )
    return ""


def _sizes(record: Path) -> Iterator[tuple[str, int]]:
    """The first file of each package, and its size when it was installed."""
    text = record.read_text(encoding="utf-8")
    for found in re.finditer(r"^(\w+/__init__\.py),[^,\n]*,(\d+)$", text, re.MULTILINE):
        yield found[1], int(found[2])
