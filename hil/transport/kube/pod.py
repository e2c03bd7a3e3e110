"""The pod through which a node is reached: its manifest, its start and its end.

It is what ``kubectl debug node/`` makes: privileged, in the node's process, network and IPC
namespaces. It requests nothing, so its QoS class is BestEffort: it takes no CPU from those that a
scenario can allocate, the CPU manager has no entry for it, and a kubelet evicts no pod for it. It
tolerates every taint and names its node, so no scheduler is asked. It sleeps, and ends when no
command has come for a quarter of an hour; the kubelet ends it after
:data:`hil.apiserver.space.LONGEST` seconds in any case.
"""

from __future__ import annotations

import getpass
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

from hil.apiserver import space
from hil.apiserver.server import Server
from hil.shell import NodeError, NodeTimeout, NodeUnfit, NodeUnreachable, NodeUsageError
from topologies.errors import one_line

#: The label that names the node which a namespace's pod reaches.
LABEL: Final = "pinproof/transport"
OWNER: Final = "pinproof/owner"
#: The namespace's name, before a random end. The node's agent and the guards know it by that.
SPACE: Final = "pinproof-transport-"
#: Not ``pinproof-…``: an observation reads the containers of such pods.
NAME: Final = "transport"
#: It has a shell, nsenter, and perl for the relay.
IMAGE: Final = "docker.io/library/debian:stable-slim"
#: Each command makes this file in the pod: the pod is in use.
USED: Final = "/pinproof-used"
_IDLE: Final = 900
_SLEEPS: Final = f">{USED}; while [ -e {USED} ]; do rm {USED}; sleep {_IDLE}; done"
_PAUSE: Final = 0.3
#: Reasons for which a container waits, and will not start by waiting.
_HOPELESS: Final = (
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
    "CreateContainerError", "CreateContainerConfigError", "RunContainerError", "CrashLoopBackOff",
)  # fmt: skip


def owner() -> str:
    """Who runs this, for a person who finds the pod: user@host, process, command."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
    return one_line(f"{getpass.getuser()}@{socket.gethostname()}, pid {os.getpid()}: {command}")


def manifest(node: str, namespace: str, image: str) -> dict[str, Any]:
    """The pod, as the API has it."""
    container = {
        "name": NAME,
        "image": image,
        "command": ["sh", "-c", _SLEEPS],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": dict(space.LABELS),
            "annotations": {OWNER: owner()},
        },
        "spec": {
            **space.bound(node, grace=1),
            "hostPID": True,
            "hostNetwork": True,
            "hostIPC": True,
            "restartPolicy": "Never",
            "containers": [container],
        },
    }


class TransportPod:
    """A pod, from :meth:`started` to :meth:`remove`."""

    def __init__(self, server: Server, node: str, image: str, namespace: str) -> None:
        self.namespace = namespace
        self._server, self._node, self._image = server, node, image

    @classmethod
    def started(cls, server: Server, node: str, image: str, *, patience: float) -> TransportPod:
        """A pod that runs; where it cannot, nothing is left. What killed runs left on this node,
        and has ended, is removed first. Raises what :mod:`hil.apiserver` lists."""
        _require_ready(server, node)
        _sweep(server, node)
        name = f"{SPACE}{os.urandom(4).hex()}"
        pod = cls(server, node, image, space.make(server, node, name, label=LABEL))
        try:
            pod.await_running(patience)
        except BaseException:
            pod.remove()
            raise
        return pod

    def await_running(self, patience: float) -> None:
        """Wait until it runs; make it where it is missing, and again where it has ended. Raises
        what :mod:`hil.apiserver` lists."""
        until, said = time.monotonic() + patience, ""
        while True:
            found = self._read()
            phase = str((found or {}).get("status", {}).get("phase") or "")
            if found is None:
                self._create()
            elif phase in ("Failed", "Succeeded"):
                _require_admitted(self._node, found)
                said = _waits_for(self._node, found)
                self._delete()
            elif _runs(found):
                return
            else:
                said = _waits_for(self._node, found)
            if time.monotonic() >= until:
                raise NodeTimeout(
                    f"{self._node}: the transport pod does not run after {patience:g} s"
                    + (f": {said}" if said else "")
                )
            time.sleep(_PAUSE)

    def remove(self) -> None:
        """Remove it, with its namespace. Where the server does not answer, the pod ends by
        itself."""
        try:
            space.remove(self._server, self.namespace, seconds=20)
        except (NodeUnreachable, NodeTimeout):
            return

    def _read(self) -> dict[str, Any] | None:
        what = f"read pod {self.namespace}/{NAME}"
        return self._server.ask_if_there(
            "read_namespaced_pod", what, name=NAME, namespace=self.namespace
        )

    def _create(self) -> None:
        body = manifest(self._node, self.namespace, self._image)
        what = f"create the privileged pod {self.namespace}/{NAME}"
        self._server.ask("create_namespaced_pod", what, namespace=self.namespace, body=body)

    def _delete(self) -> None:
        self._server.ask_if_there(
            "delete_namespaced_pod",
            f"delete pod {self.namespace}/{NAME}",
            name=NAME,
            namespace=self.namespace,
            body={"gracePeriodSeconds": 0},
        )


def _require_ready(server: Server, node: str) -> None:
    found = server.ask_if_there("read_node", f"read node {node}", name=node)
    if found is None:
        raise NodeUsageError(f"{server.url}: the cluster has no node {node!r}")
    for one in (found.get("status") or {}).get("conditions") or []:
        if one.get("type") == "Ready" and one.get("status") != "True":
            why = one_line(str(one.get("message") or one.get("reason") or ""), limit=200)
            raise NodeUnreachable(
                f"{node}: the node is not Ready, and kube:// reaches it through its kubelet: {why}"
            )


def _sweep(server: Server, node: str) -> None:
    """Remove namespaces whose pods have all ended: their runs are dead. Without the right to list
    namespaces they stay."""
    try:
        for name in space.left_over(server, node, label=LABEL):
            pods = server.ask("list_namespaced_pod", f"list the pods in {name}", namespace=name)
            phases = {(one.get("status") or {}).get("phase") for one in pods.get("items") or []}
            if phases and phases <= {"Failed", "Succeeded"}:
                space.remove(server, name, seconds=5)
    except NodeError:
        return


def _runs(pod: dict[str, Any]) -> bool:
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return False
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return bool(statuses) and all("running" in (one.get("state") or {}) for one in statuses)


def _waits_for(node: str, pod: dict[str, Any]) -> str:
    """What the pod waits for. Raises :class:`NodeUnfit` where that never comes."""
    said = ""
    for one in (pod.get("status") or {}).get("containerStatuses") or []:
        state = one.get("state") or {}
        waits = state.get("waiting") or state.get("terminated") or {}
        reason, message = str(waits.get("reason") or ""), str(waits.get("message") or "")
        last = ((one.get("lastState") or {}).get("terminated") or {}).get("message") or ""
        said = one_line(" ".join(f"{reason}: {message or last}".split()), limit=300)
        if reason in (*_HOPELESS, "StartError", "ContainerCannotRun"):
            image = one_line(str(one.get("image") or ""), limit=100)
            raise NodeUnfit(
                f"{node}: the transport pod cannot run the image {image}, which needs a shell and "
                f"has to be on the node or to be pulled (--transport-image): {said}"
            )
    return said


def _require_admitted(node: str, pod: dict[str, Any]) -> None:
    """A kubelet that rejects a pod would reject the next one."""
    status = pod.get("status") or {}
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if reason and reason not in ("DeadlineExceeded", "NodeLost", "Terminated", "NodeShutdown"):
        raise NodeUnfit(
            f"{node}: its kubelet rejects the transport pod: {one_line(f'{reason}: {message}')}"
        )
