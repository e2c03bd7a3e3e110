"""Drivers: the project's Go program around the CPU manager of a release, built and kept.

What belongs here: what a driver is built from. What never does: building it (``workshop``).

The program's source is the folder ``driver`` beside this module. Files with a release in their
names (``api_1_36.go``, ``cpusets_1_28.go``) have the calls that differ by release: of each kind the
newest that is not later than the release is taken. Only exported names of Kubernetes are used, so
that a checkout of a fork can take the place of the released module.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from conformance.kubelets import recipe as kubelet_recipe
from conformance.kubelets.recipe import Recipe
from conformance.kubelets.releases import Minor, Version
from conformance.kubelets.workshop import Workshop
from conformance.subject import SubjectSetupError

_SOURCE: Final = Path(__file__).with_name("driver")
_BY_RELEASE: Final = re.compile(r"([a-z]+)_(\d+)_(\d+)\.go", re.ASCII)


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
    if minor < OLDEST:
        raise SubjectSetupError(f"there is no driver for {minor}: {OLDEST} is the oldest")
    taken = [each.name for each in _SOURCE.glob("*.go") if not _BY_RELEASE.fullmatch(each.name)]
    for kind, known in _by_release().items():
        newest = max(one for one in known if one <= minor)
        taken.append(f"{kind}_{newest.major}_{newest.minor}.go")
    return {name: (_SOURCE / name).read_text() for name in sorted(taken)}


def _by_release() -> dict[str, list[Minor]]:
    """The releases in the names of files, by the kind of file."""
    found: dict[str, list[Minor]] = {}
    for each in _SOURCE.glob("*.go"):
        match = _BY_RELEASE.fullmatch(each.name)
        if match:
            found.setdefault(match[1], []).append(Minor(int(match[2]), int(match[3])))
    return found


OLDEST: Final = max(map(min, _by_release().values()))
WORKSHOP: Final = Workshop("driver", OLDEST, recipe)
build, cached = WORKSHOP.build, WORKSHOP.cached
