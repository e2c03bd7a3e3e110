"""A kube-controller-manager of the API server's release, built from the same Go module and kept in
the same cache. Only tests need one.

``python -m tests.support.controller_manager`` builds it, which takes minutes, and prints its path.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Final

from conformance.kubelets import apiservers
from conformance.kubelets.releases import Minor
from conformance.kubelets.workshop import Workshop
from conformance.progress import now_and_then

_WORKSHOP: Final = Workshop(
    "controller-manager",
    Minor(1, 36),
    partial(apiservers.recipe, program="controller-manager", command="NewControllerManagerCommand"),
)


def find() -> Path | None:
    """The one in the cache."""
    return _WORKSHOP.ready(apiservers.VERSION)


if __name__ == "__main__":
    say = now_and_then(lambda stage: print(stage, file=sys.stderr))
    print(_WORKSHOP.build(apiservers.VERSION, progress=say))
