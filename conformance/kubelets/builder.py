"""Kubelets of released versions, built and kept (:mod:`conformance.kubelets.workshop`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from conformance.kubelets import releases
from conformance.kubelets.recipe import recipe
from conformance.kubelets.workshop import Built, Workshop
from conformance.progress import Progress

__all__ = ["WORKSHOP", "Built", "build", "cached"]

WORKSHOP: Final = Workshop("kubelet", releases.OLDEST, recipe)


def build(target: str, *, progress: Progress | None = None) -> Path:
    """An unmodified kubelet of the release ``target``; raises as :meth:`Workshop.build`."""
    return WORKSHOP.build(target, progress=progress)


def cached() -> list[Built]:
    """The kubelets in the cache, newest release first."""
    return WORKSHOP.cached()
