"""What a shell may complete: names of machines, scenarios and subjects. The user's Tab waits for
it, so it reads no archive and imports only what it needs."""

from __future__ import annotations

import topologies

_SUBJECTS = ("reference", "miniature:", "kubelet:", "exec:", "node:")


def machine_names(incomplete: str) -> list[str]:
    """The machines of the catalogue and of ``PINPROOF_MACHINES`` that begin with ``incomplete``."""
    try:
        names = topologies.names()
    except topologies.MachineError:
        names = list(topologies.entry_names())
    return [name for name in names if name.startswith(incomplete)]


def scenario_ids(incomplete: str) -> list[str]:
    from conformance.catalogue import catalogue

    return [one.id for one in catalogue() if one.id.startswith(incomplete)]


def subject_names(incomplete: str) -> list[str]:
    return [name for name in _SUBJECTS if name.startswith(incomplete)]
