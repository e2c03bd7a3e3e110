"""Pods through an API server that is not asked: each request is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from hil.dry_run.shell import DryRunShell
from hil.pods.manifests import Image, manifest
from reference.steps import KubeletConfig, Pod

#: What tells a request to the API server from a command to the node.
_BESIDE: Final = "# beside the runner, to the API server:"


class DryRunPods:
    """:class:`hil.pods.PodSource` that only tells. Pods keep the uids that they were stated with;
    the server's own would be others."""

    static = False

    def __init__(self, told: DryRunShell, node: str, namespace: str, image: Image) -> None:
        self._told = told
        self._node = node
        self._namespace = namespace
        self._image = image
        self._closed = False
        self._tell(f"read node {node}; remove namespaces labelled pinproof/node={node}")
        self._tell(f"create namespace {namespace} and service account {namespace}/pinproof")

    def _tell(self, what: str) -> None:
        self._told.run(f"{_BESIDE} {what}")

    def create(self, pod: Pod) -> tuple[Pod, tuple[()]]:
        """See :class:`hil.pods.PodSource`."""
        body = manifest(
            pod,
            self._image,
            node_name=self._node,
            namespace=self._namespace,
            service_account="pinproof",
        )
        self._tell(f"create pod {json.dumps(body, separators=(',', ':'))}")
        return pod, ()

    def delete(self, pod: Pod, *, force: bool) -> tuple[()]:
        """See :class:`hil.pods.PodSource`."""
        grace = " with grace 0" if force else ""
        self._tell(f"delete pod {self._namespace}/pinproof-{pod.name}{grace}")
        return ()

    def await_settled(self, pods: Sequence[Pod]) -> None:
        """See :class:`hil.pods.PodSource`."""

    def listed(self, own: str | None) -> str | None:
        """See :class:`hil.pods.PodSource`."""
        return own

    def all_pods(self, own: str | None) -> str | None:
        """See :class:`hil.pods.PodSource`."""
        return own

    def as_stated(self, state_file: str | None, config: KubeletConfig) -> str | None:
        """See :class:`hil.pods.PodSource`."""
        return state_file

    def as_given(self, state_file: str, config: KubeletConfig) -> str:
        """See :class:`hil.pods.PodSource`."""
        return state_file

    def close(self) -> None:
        """See :class:`hil.pods.PodSource`."""
        if not self._closed:
            self._closed = True
            self._tell(f"remove namespace {self._namespace} with everything in it")
