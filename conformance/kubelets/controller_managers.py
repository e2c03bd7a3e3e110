"""kube-controller-managers of released versions, built from the Go module and kept.

A fleet has one where there is one. They are kept in
``$XDG_CACHE_HOME/pinproof/controller-managers``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from conformance.kubelets import apiservers
from conformance.kubelets.releases import Minor
from conformance.kubelets.workshop import Workshop

WORKSHOP: Final = Workshop(
    "controller-manager",
    Minor(1, 26),
    partial(apiservers.recipe, program="controller-manager", command="NewControllerManagerCommand"),
)


build, cached = WORKSHOP.build, WORKSHOP.cached


def find() -> Path | None:
    """The one of the API server's release, where it was built."""
    return WORKSHOP.ready(apiservers.VERSION)
