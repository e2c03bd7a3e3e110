"""Pods through an API server that is not asked: each request is entered in a ledger."""

from __future__ import annotations

import json
from typing import Final

from hil.dry_run.shell import DryRunShell
from hil.pods import Image, PodSource
from hil.pods.manifests import manifest
from reference.steps import Pod

#: What tells a request to the API server from a command to the node.
_BESIDE: Final = "# beside the runner, to the API server:"


class DryRunPods(PodSource):
    """Pods through an API server, whose requests are entered in a ledger. Pods keep the uids that
    they were stated with; the server's own would be others."""

    static = False

    def __init__(self, shell: DryRunShell, node: str, namespace: str, image: Image) -> None:
        self._shell = shell
        self._node = node
        self._namespace = namespace
        self._image = image
        self._closed = False
        self._tell(f"read node {node}; remove namespaces labelled pinproof/node={node}")
        self._tell(f"create namespace {namespace} and service account {namespace}/pinproof")

    def _tell(self, what: str) -> None:
        self._shell.run(f"{_BESIDE} {what}")

    def create(self, pod: Pod) -> tuple[Pod, tuple[()]]:
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
        grace = " with grace 0" if force else ""
        self._tell(f"delete pod {self._namespace}/pinproof-{pod.name}{grace}")
        return ()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._tell(f"remove namespace {self._namespace} with everything in it")
