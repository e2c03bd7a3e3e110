"""Archives of nodes, as ``pinproof capture --node`` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import topologies
from conformance.kubelets.configuration import KIND
from conformance.kubelets.manifests import manifest
from pinproof.node_archive import bare, texts
from reference.steps import Pod
from topologies import Tree


def write_archive(
    place: Path,
    *,
    machine: str,
    settings: Mapping[str, Any],
    state: str | None,
    pods: Iterable[Pod],
    files: Mapping[str, str] | None = None,
    release: str = "1.36",
) -> None:
    """The archive of a node that was never there."""
    members = texts(
        config={**KIND, **settings},
        state=state,
        files=files or {},
        pods=[one for pod in pods for one in bare(manifest(pod))],
        release=release,
    )
    topologies.pack(Tree({**topologies.machine(machine).tree, **members}), place, replace=True)
