"""A namespace of pinproof's own: made, labelled, and removed with everything in it.

What belongs here: which namespaces are pinproof's, and how they are removed. What never does: pods
one by one (:mod:`hil.pods.apiserver.pods`).

A label names the node that a namespace is for. Only the run with a node's lease works on it, so
every other namespace for that node was left by a killed run.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable
from typing import Any, Final

from hil.apiserver.errors import Refused
from hil.apiserver.server import Server, items, metadata
from hil.shell import NodeError, NodeUnfit, NodeUsageError
from topologies.errors import one_line

#: Seconds that pods and a namespace may take to go.
PATIENCE: Final = 60.0
SERVICE_ACCOUNT: Final = "pinproof"
#: The label that names the node of a namespace.
NODE: Final = "pinproof/node"
#: The label of every object that pinproof creates.
LABEL: Final = "app.kubernetes.io/managed-by"
LABELS: Final = {LABEL: "pinproof"}
#: Seconds after which a kubelet ends a pod that its run did not delete.
LONGEST: Final = 6 * 3600
OURS: Final = f"{LABEL}={LABELS[LABEL]}"
_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PAUSE: Final = 0.3
#: The pods need the host's network; a user who may make a namespace may permit it.
_UNBOUND: Final = {"pod-security.kubernetes.io/enforce": "privileged"}


def bound(node: str, grace: int) -> dict[str, Any]:
    """The common part of the specs of pinproof's pods: bound to this node without the scheduler, in
    spite of taints, without credentials of the API, and ending by themselves. ``grace`` in
    seconds."""
    return {
        "nodeName": node,
        "terminationGracePeriodSeconds": grace,
        "activeDeadlineSeconds": LONGEST,
        "serviceAccountName": SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [{"operator": "Exists"}],
    }


def make(
    server: Server, node: str, name: str = "", *, seconds: float = PATIENCE, label: str = NODE
) -> str:
    """Make a namespace for this node, with an account of its own, and return its name. The
    cluster's default account comes later; until then pods are refused. A namespace ``name`` of
    pinproof for this node that is being deleted is waited for. ``label`` names the node.

    Raises :class:`hil.shell.NodeUsageError` for a name that another user or node has.
    """
    chosen = name or f"pinproof-{secrets.token_hex(4)}"
    _create(server, chosen, node, seconds, label)
    account = {
        "metadata": {"name": SERVICE_ACCOUNT, "labels": LABELS},
        "automountServiceAccountToken": False,
    }
    what = f"create service account {chosen}/{SERVICE_ACCOUNT}"
    try:
        server.ask("create_namespaced_service_account", what, namespace=chosen, body=account)
    except Refused:
        remove(server, chosen, seconds=0)
        raise
    return chosen


def _create(server: Server, name: str, node: str, seconds: float, label: str) -> None:
    labels = {**LABELS, **_UNBOUND, label: label_of(node)}
    body = {"metadata": {"name": name, "labels": labels}}
    until = time.monotonic() + seconds
    while True:
        try:
            server.ask("create_namespace", f"create namespace {name}", body=body)
        except Refused as error:
            if error.reason != "AlreadyExists":
                raise
            _require_ours(server, name, node)
            if time.monotonic() >= until:
                raise NodeUnfit(
                    f"{server.url}: the cluster has not removed namespace {name} in {seconds:g} s"
                ) from error
            time.sleep(_PAUSE)
        else:
            return


def _require_ours(server: Server, name: str, node: str) -> None:
    found = _read(server, name)
    if found is None:
        return
    labels = metadata(found).get("labels") or {}
    if labels.get(LABEL) != LABELS[LABEL]:
        raise NodeUsageError(f"{server.url}: namespace {name} is there already, and not pinproof's")
    if labels.get(NODE) != label_of(node):
        other = one_line(str(labels.get(NODE)), limit=80)
        raise NodeUsageError(f"{server.url}: namespace {name} belongs to a run on {other}")


def label_of(node: str) -> str:
    """A node's name as the value of a label; names may be longer than those."""
    return node if _VALUE.fullmatch(node) else hashlib.sha256(node.encode()).hexdigest()[:40]


def left_over(server: Server, node: str, *, label: str = NODE) -> list[str]:
    """The namespaces of pinproof for this node, but for those that are being deleted and have none
    of its pods."""
    found = server.ask(
        "list_namespace",
        "list namespaces",
        label_selector=f"{OURS},{label}={label_of(node)}",
    )
    return [
        str(one["name"])
        for one in map(metadata, items(found))
        if one.get("name") and (not one.get("deletionTimestamp") or _pods(server, one["name"]))
    ]


def remove(server: Server, name: str, *, seconds: float) -> None:
    """Delete pinproof's pods in it, wait until they are gone, and delete it. Pods that outlive half
    of ``seconds`` are deleted by force."""
    _delete_pods(server, name)
    if not wait(lambda: not _pods(server, name), seconds / 2):
        _delete_pods(server, name, grace_period_seconds=0)
        wait(lambda: not _pods(server, name), seconds / 2)
    try:
        server.ask_if_there("delete_namespace", f"delete namespace {name}", name=name)
    except Refused as error:
        if error.reason != "Conflict":  # it is being removed already
            raise


def await_removed(server: Server, name: str, *, seconds: float) -> bool:
    """Whether the cluster's controllers have removed a deleted namespace within ``seconds``."""
    return wait(lambda: _read(server, name) is None, seconds)


def _delete_pods(server: Server, name: str, **grace: Any) -> None:
    what = f"delete the pods in {name}"
    server.ask(
        "delete_collection_namespaced_pod", what, namespace=name, label_selector=OURS, **grace
    )


def _pods(server: Server, name: str) -> list[Any]:
    what = f"list the pods in {name}"
    found = server.ask("list_namespaced_pod", what, namespace=name, label_selector=OURS)
    return items(found)


def _read(server: Server, name: str) -> dict[str, Any] | None:
    return server.ask_if_there("read_namespace", f"read namespace {name}", name=name)


def wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether ``condition`` is true within ``seconds``; it is asked at least once."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= until:
            return False
        time.sleep(_PAUSE)
    return True


def sweep(server: Server, node: str, *, seconds: float = PATIENCE) -> list[str]:
    """Remove every namespace of pinproof for this node, whose lease no other run may hold; their
    names. Where one cannot be removed, the others still are; its error is raised at the end."""
    failed: NodeError | None = None
    names = left_over(server, node)
    for name in names:
        try:
            remove(server, name, seconds=seconds)
        except NodeError as error:
            failed = error
    if failed is not None:
        raise failed
    return names
