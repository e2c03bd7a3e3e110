"""Archives of nodes, as ``pinproof capture --node`` writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import topologies
from conformance.kubelets.configuration import KIND
from conformance.kubelets.manifests import manifest
from pinproof.manifests import MIRROR
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
    static: Collection[str] = (),
    release: str = "1.36",
) -> None:
    """The archive of a node that was never there. ``static``: the names of pods that are static
    pods, without a uid in their manifest."""
    members = texts(
        config={**KIND, **settings},
        state=state,
        files=files or {},
        pods=_manifests(pods, static),
        release=release,
    )
    topologies.pack(Tree({**topologies.machine(machine).tree, **members}), place, replace=True)


def _manifests(pods: Iterable[Pod], static: Collection[str]) -> Iterator[dict[str, Any]]:
    for pod in pods:
        made = manifest(pod)
        if pod.name in static:
            made["metadata"]["annotations"] = {MIRROR: pod.uid}
        yield from bare(made)
