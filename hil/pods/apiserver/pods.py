"""Pods of a run on one node of a cluster.

What belongs here: creating, deleting and reading pods, and which node they are for. What never
does: namespaces (:mod:`hil.apiserver.space`), and the form of a pod
(:mod:`hil.pods.manifests`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from hil.apiserver import space
from hil.apiserver.errors import Refused
from hil.apiserver.server import Server, metadata
from hil.inspection import NodeFacts
from hil.pods.apiserver.sameness import changes
from hil.pods.manifests import Image, manifest
from hil.pods.statuses import NoList, PodStatus, read_pods
from hil.shell import NodeUnfit, NodeUsageError
from reference.steps import Pod
from topologies.errors import one_line

_PAUSE: Final = 0.3
#: Phases in which a pod has come as far as it gets.
_SETTLED: Final = ("Running", "Succeeded", "Failed")


class ClusterPods:
    """Pods in a namespace of pinproof, bound to one node. Leaving removes them and the namespace.
    ``namespace`` is its name, ``node`` the node's. ``uids`` has the uid that the server gave a pod,
    by the one that the pod was stated with.
    """

    def __init__(
        self,
        server: Server,
        node: str,
        namespace: str,
        *,
        image: Image,
        patience: float = space.PATIENCE,
    ) -> None:
        """Use :meth:`on`."""
        self.node = node
        self.namespace = namespace
        self.uids: dict[str, str] = {}
        self._server = server
        self._image = image
        self._patience = patience
        self._closed = False

    @classmethod
    def on(
        cls,
        server: Server,
        node: str,
        *,
        boot_id: str = "",
        namespace: str = "",
        image: Image | None = None,
        patience: float = space.PATIENCE,
        say: Callable[[str], None] = lambda line: None,
    ) -> ClusterPods:
        """A new namespace for pods on ``node``, whose lease is held: those that an earlier run left
        for it are removed first. ``boot_id`` is that of the machine that was reached another way;
        the cluster's node must be that machine. ``namespace`` is the name it gets.

        Raises :class:`hil.shell.NodeUsageError` where there is no such node, where it is
        another machine, and where the namespace is another user's; else what
        :mod:`hil.pods.apiserver` lists.
        """
        require_node(server, node, boot_id)
        for name in space.sweep(server, node, seconds=patience):
            say(f"{node}: removed namespace {name}, which a run had left")
        own_namespace = space.make(server, node, namespace, seconds=patience)
        return cls(server, node, own_namespace, image=image or Image(), patience=patience)

    def __enter__(self) -> ClusterPods:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---- pods -----------------------------------------------------------------------------

    def create(self, pod: Pod) -> Pod:
        """Create the pod, and return it with the server's uid, which its cgroups are named by. A
        pod of that name that is being deleted is waited for. Raises :class:`Refused`, and
        :class:`hil.shell.NodeUnfit` where admission changed the pod (it is deleted then)."""
        body = manifest(pod, self._image, node_name=self.node, namespace=self.namespace)
        name = body["metadata"]["name"]
        answer = self._create(body, f"create pod {name}")
        uid = str(metadata(answer).get("uid") or "")
        if not uid:
            raise NodeUnfit(f"{self._server.url}: it gave pod {name} no uid")
        created = replace(pod, uid=uid)
        if found := changes(body, answer):
            self.delete(created, force=True)
            changed = one_line("; ".join(found))
            raise NodeUnfit(f"{self._server.url}: admission changed pod {name}: {changed}")
        self.uids[pod.uid] = uid
        return created

    def _create(self, body: dict[str, Any], what: str) -> dict[str, Any]:
        until = time.monotonic() + self._patience
        while True:
            try:
                return self._server.ask(
                    "create_namespaced_pod", what, namespace=self.namespace, body=body
                )
            except Refused as error:
                name = body["metadata"]["name"]
                taken = error.reason == "AlreadyExists"
                if not taken or not self._is_leaving(name) or time.monotonic() >= until:
                    raise
            time.sleep(_PAUSE)

    def _is_leaving(self, name: str) -> bool:
        """Whether the pod of this name is being deleted, or is already gone."""
        found = [one for one in self.statuses().values() if one.name == name]
        return all(one.leaving for one in found)

    def delete(self, pod: Pod, *, force: bool = False) -> None:
        """Delete the pod that :meth:`create` gave: with its grace, or by ``force`` at once and
        without asking the node. A pod that is gone already is no error."""
        name = f"pinproof-{pod.name}"
        body: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
        if force:
            body["gracePeriodSeconds"] = 0
        try:
            self._server.ask_if_there(
                "delete_namespaced_pod",
                f"delete pod {name}",
                name=name,
                namespace=self.namespace,
                body=body,
            )
        except Refused as error:
            # A conflict: another pod has the name now.
            if error.reason != "Conflict":
                raise

    # ---- what the server says of them -----------------------------------------------------

    def listed(self) -> str:
        """All pods of the run, in one request: the API's list as JSON, as the kubelet's own
        ``/pods`` has it (:func:`hil.pods.read_pods`)."""
        return json.dumps(
            self._server.ask(
                "list_namespaced_pod",
                f"list the pods in {self.namespace}",
                namespace=self.namespace,
                label_selector=space.OURS,
            )
        )

    def statuses(self) -> dict[str, PodStatus]:
        """All pods of the run, by the uid that the server gave them."""
        try:
            return {one.uid: one for one in read_pods(self.listed())}
        except NoList as error:
            raise NodeUnfit(f"{self._server.url}: {error}") from error

    def on_node(self) -> str:
        """All pods on the node, as :meth:`listed`; this needs the right to list all pods."""
        return json.dumps(
            self._server.ask(
                "list_pod_for_all_namespaces",
                f"list the pods on {self.node}",
                field_selector=f"spec.nodeName={self.node}",
            )
        )

    def await_settled(self, *pods: Pod, seconds: float) -> bool:
        """Wait until each of these pods runs or has ended (a rejected one has)."""

        def settled() -> bool:
            seen = self.statuses()
            return all(pod.uid in seen and seen[pod.uid].phase in _SETTLED for pod in pods)

        return space.wait(settled, seconds)

    # ---- the end --------------------------------------------------------------------------

    def close(self) -> bool:
        """Remove the namespace and all in it; whether it is gone already (the cluster's controllers
        remove it, and may be slow). May be called twice."""
        if self._closed:
            return True
        space.remove(self._server, self.namespace, seconds=self._patience)
        self._closed = True
        return space.await_removed(self._server, self.namespace, seconds=self._patience)


def node_name(named: str, facts: NodeFacts) -> str:
    """What the cluster calls a node: as it is ``named`` in the inventory, else as its kubelet's
    flag says, else its host name; kubelets make it lower case."""
    flags = facts.kubelet.flags if facts.kubelet is not None else {}
    return named or (flags.get("hostname-override") or facts.hostname).strip().lower()


def require_node(server: Server, node: str, boot_id: str = "") -> None:
    """Raise :class:`hil.shell.NodeUsageError` where the cluster has no such node, or it
    is another machine than the one that booted as ``boot_id``."""
    found = server.ask_if_there("read_node", f"read node {node}", name=node)
    if found is None:
        raise NodeUsageError(f"{server.url}: there is no node {node!r} in the cluster")
    info = (found.get("status") or {}).get("nodeInfo") or {}
    there = str(info.get("bootID") or "")
    if boot_id and there and there.strip() != boot_id.strip():
        raise NodeUsageError(
            f"{server.url}: its node {node} is another machine: it booted as "
            f"{one_line(there, limit=60)}, the machine that was reached as {boot_id.strip()}"
        )
