"""Kubelets of released versions, built and kept (:mod:`conformance.kubelets.workshop`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from conformance.kubelets import releases
from conformance.kubelets.binary import program_at
from conformance.kubelets.recipe import recipe
from conformance.kubelets.shelf import Built
from conformance.kubelets.workshop import Workshop

__all__ = ["WORKSHOP", "Built", "build", "cached", "is_release", "program_of"]

WORKSHOP: Final = Workshop("kubelet", releases.OLDEST, recipe)


build, cached = WORKSHOP.build, WORKSHOP.cached


def is_release(target: str) -> bool:
    """Whether ``target`` names a release and not a file."""
    return releases.parse(target) is not None and not Path(target).exists()


def program_of(target: str, progress: Callable[[str], None] | None = None) -> Path:
    """The kubelet that ``target`` names: a program's path, or a release, which is built if it is
    not in the cache. ``progress`` gets lines about the build. Raises
    :class:`conformance.subject.SubjectUsageError` if ``target`` cannot be a kubelet, and
    :class:`conformance.subject.SubjectSetupError` if a release cannot be built."""
    return build(target, progress=progress) if is_release(target) else program_at(target)
