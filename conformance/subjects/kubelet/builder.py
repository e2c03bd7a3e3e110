"""Kubelets of released versions, built and kept (:mod:`conformance.subjects.kubelet.workshop`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from conformance.progress import Progress
from conformance.subjects.kubelet import releases
from conformance.subjects.kubelet.recipe import recipe
from conformance.subjects.kubelet.workshop import Built, Workshop

__all__ = ["WORKSHOP", "Built", "build", "cached"]

WORKSHOP: Final = Workshop("kubelet", releases.OLDEST, recipe)


def build(target: str, *, progress: Progress | None = None) -> Path:
    """An unmodified kubelet of the release ``target``; raises as :meth:`Workshop.build`."""
    return WORKSHOP.build(target, progress=progress)


def cached() -> list[Built]:
    """The kubelets in the cache, newest release first."""
    return WORKSHOP.cached()
