"""Kubelets of released versions, built and kept (:mod:`conformance.kubelets.workshop`)."""

from __future__ import annotations

from typing import Final

from conformance.kubelets import releases
from conformance.kubelets.recipe import recipe
from conformance.kubelets.workshop import Built, Workshop

__all__ = ["WORKSHOP", "Built", "build", "cached"]

WORKSHOP: Final = Workshop("kubelet", releases.OLDEST, recipe)


build, cached = WORKSHOP.build, WORKSHOP.cached
