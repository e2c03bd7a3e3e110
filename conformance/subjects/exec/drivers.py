"""Drivers: our Go program around the CPU manager of a release, built and kept.

What belongs here: what a driver is built from. What never does: how (``workshop``).

The program's source is the folder ``driver`` beside this module: all of it but the ``api_*.go``,
which say what releases call differently. Of those the newest that is no later than the release is
taken. Only exported names of Kubernetes are used, so a checkout of a fork can take the place of
the released module.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from conformance.subject import SubjectSetupError
from conformance.subjects.kubelet import recipe as kubelet_recipe
from conformance.subjects.kubelet.recipe import Recipe
from conformance.subjects.kubelet.releases import Minor, Version
from conformance.subjects.kubelet.workshop import Built, Progress, Workshop

__all__ = ["OLDEST", "WORKSHOP", "build", "cached", "recipe"]

_SOURCE: Final = Path(__file__).with_name("driver")
_API: Final = re.compile(r"api_(\d+)_(\d+)\.go", re.ASCII)


def build(target: str, *, replaced: Path | None = None, progress: Progress | None = None) -> Path:
    """The driver of the release ``target``; with ``replaced``, a checkout of Kubernetes, around
    that one's packages. Raises as :meth:`Workshop.build`."""
    return WORKSHOP.build(target, replaced=replaced, progress=progress)


def cached() -> list[Built]:
    """The drivers in the cache, newest release first."""
    return WORKSHOP.cached()


def recipe(version: Version, theirs: str, replaced: Path | None = None) -> Recipe:
    """The recipe for the driver of a release (:class:`workshop.RecipeMaker`)."""
    variables = {} if replaced is None else {"main.replaced": str(replaced)}
    return Recipe(
        version,
        kubelet_recipe.go_mod("driver", version, theirs, replaced),
        _sources(version.release),
        kubelet_recipe.flags(version, variables),
    )


@cache
def _sources(minor: Minor) -> dict[str, str]:
    fitting = [one for one in _apis() if one <= minor]
    if not fitting:
        raise SubjectSetupError(f"there is no driver for {minor}: {OLDEST} is the oldest")
    api = "api_{}_{}.go".format(*max(fitting))
    names = [each.name for each in _SOURCE.glob("*.go")]
    taken = [name for name in names if name == api or not _API.fullmatch(name)]
    return {name: (_SOURCE / name).read_text() for name in sorted(taken)}


def _apis() -> list[Minor]:
    matches = (_API.fullmatch(each.name) for each in _SOURCE.glob("*.go"))
    return [Minor(int(match[1]), int(match[2])) for match in matches if match]


OLDEST: Final = min(_apis())
WORKSHOP: Final = Workshop("driver", OLDEST, recipe)
