"""kube-schedulers and kube-controller-managers of released versions, built from the Go module.

A fleet runs one of each if it was built. They are kept in ``$XDG_CACHE_HOME/pinproof/schedulers``
and ``controller-managers``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from conformance.kubelets import apiservers
from conformance.kubelets.releases import Minor
from conformance.kubelets.workshop import Workshop


def _workshop(program: str, command: str) -> Workshop:
    recipe = partial(apiservers.recipe, program=program, command=command)
    return Workshop(program, Minor(1, 26), recipe)


SCHEDULERS: Final = _workshop("scheduler", "NewSchedulerCommand")
CONTROLLER_MANAGERS: Final = _workshop("controller-manager", "NewControllerManagerCommand")


def find(programs: Workshop) -> Path | None:
    """The program of the API server's release; ``None`` if it was not built."""
    return programs.ready(apiservers.VERSION)
