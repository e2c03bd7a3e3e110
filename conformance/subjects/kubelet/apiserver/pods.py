"""The pods of one node that come through the API server.

What belongs here: what each step on a pod asks of the API. What never does: what the kubelet makes
of it, and how a request is sent (:mod:`conformance.subjects.kubelet.apiserver.server`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from conformance.kubelets import manifests
from conformance.kubelets.uids import renamed
from conformance.subjects.kubelet.apiserver.bridge import Bridge
from conformance.subjects.kubelet.apiserver.server import PORT, APIServer
from conformance.subjects.kubelet.endpoint import resources_of
from conformance.subjects.kubelet.sandbox import Sandbox
from reference.steps import Pod

_PATCH: Final = "application/strategic-merge-patch+json"
#: A grace of zero would have the server forget the pod before its kubelet has ended it.
_GRACE: Final = 1


class APIPods:
    """Pods of the node ``name``, whose kubelet is in ``sandbox``. ``uids``: by the uid that a pod
    was stated with, the one that the server gave it. ``asked``: by the uid that the server gave,
    the resources that were asked for last with a resize, by container.

    Every method raises :class:`SubjectLostError` where the server refuses or does not answer.
    """

    def __init__(self, server: APIServer, sandbox: Sandbox) -> None:
        server.start()
        self._server = server
        self.name = server.fresh_name()
        self.uids: dict[str, str] = {}
        self.asked: dict[str, dict[str, Any]] = {}
        self._awaited: set[str] = set()
        self._restarting: dict[str, dict[str, str]] = {}
        listener = sandbox.socket()
        listener.bind(("127.0.0.1", PORT))
        self._bridge = Bridge(listener, server.connect)
        self._has_namespace = False
        self._created = 0.0

    def close(self) -> None:
        """Let no kubelet reach the server through this node's port. What is left there ends with
        the server."""
        self._bridge.close()

    @property
    def namespace(self) -> str:
        """The namespace of the pods; no other node has it."""
        return self.name

    def kubeconfig(self) -> str:
        """For the kubelet."""
        return self._server.kubeconfig()

    def create(self, pod: Pod, *, later: bool = False) -> str:
        """Create the pod on the node, past any scheduler; its uid. ``later``: in another second
        than the pod before it, as a pod's age is of whole seconds."""
        while later and int(time.time()) <= int(self._created):
            time.sleep(0.02)
        if not self._has_namespace:
            self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
            self._has_namespace = True
        made = manifests.manifest(pod)
        del made["metadata"]["uid"]
        made["metadata"]["namespace"] = self.namespace
        made["spec"] |= {
            "nodeName": self.name,
            "terminationGracePeriodSeconds": _GRACE,
            "tolerations": [{"operator": "Exists"}],
        }
        answer = self._ask("POST", self._path(), made)
        self._created = time.time()
        self.uids[pod.uid] = uid = str(answer["metadata"]["uid"])
        return uid

    def delete(self, name: str, *, force: bool) -> None:
        """Delete the pod; by force: at once, whatever its kubelet does."""
        grace = {"gracePeriodSeconds": 0} if force else None
        self._ask("DELETE", self._path(name), grace)

    def ended(self) -> set[str]:
        """The uids of the pods that have failed or succeeded, as far as the server was told."""
        pods = self._ask("GET", self._path())["items"]
        phases = {one["metadata"]["uid"]: one["status"].get("phase") for one in pods}
        return {uid for uid, phase in phases.items() if phase in ("Failed", "Succeeded")}

    def offers(self, resource: str) -> int | None:
        """How many devices of this resource the node offers, as far as the server was told;
        ``None``: its kubelet has not told of any yet, or not of the node."""
        selected = f"fieldSelector=metadata.name%3D{self.name}"  # not an error where it is absent
        nodes = self._ask("GET", f"/api/v1/nodes?{selected}")["items"]
        offered = [node["status"].get("allocatable", {}).get(resource) for node in nodes]
        return next((int(number) for number in offered if number is not None), None)

    def resize(self, pod: Pod) -> None:
        """Give a pod that is there the resources of ``pod``."""
        stated = manifests.manifest(pod)["spec"]
        patch: dict[str, object] = {
            kind: [
                {"name": one["name"], "resources": one.get("resources", {})} for one in stated[kind]
            ]
            for kind in ("containers", "initContainers")
            if kind in stated
        }
        if "resources" in stated:
            patch["resources"] = stated["resources"]
        path = f"{self._path(pod.name)}/resize"
        made = self._ask("PATCH", path, {"spec": patch}, form=_PATCH)
        uid = made["metadata"]["uid"]
        self.asked[uid] = resources_of(made)
        self._restarting[uid] = _restarting(made)
        self._awaited.add(uid)

    def shows_resizes(self) -> bool:
        """Whether the server was told, of each pod that was resized and is not given up, that its
        containers have what was asked for, and were started again where they have to be, or why
        not."""
        if not self._awaited:
            return True
        pods = self._ask("GET", self._path())["items"]
        by_uid = {one["metadata"]["uid"]: one for one in pods}
        return all(
            _shows(by_uid[uid], self.asked[uid], self._restarting[uid])
            for uid in self._awaited & by_uid.keys()
        )

    def give_up_resizes(self) -> None:
        """Those so far may never come about: 1.32.2 was seen to leave one in progress."""
        self._awaited.clear()

    def add_ephemeral(self, pod: str, container: str) -> None:
        made = {
            "name": container,
            "image": manifests.PAUSE_IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePolicy": "File",
        }
        patch = {"spec": {"ephemeralContainers": [made]}}
        self._ask("PATCH", f"{self._path(pod)}/ephemeralcontainers", patch, form=_PATCH)

    def as_stated(self, text: str | None, release: str, gates: Mapping[str, bool]) -> str | None:
        """A state file as it would be had the pods the uids that they were stated with."""
        stated = {given: own for own, given in self.uids.items()}
        return text and renamed(text, stated, release=release, feature_gates=gates)

    def error_as_stated(self, text: str) -> str:
        """An error that names pods by uid, with the uids that they were stated with."""
        for own, given in self.uids.items():
            text = text.replace(given, own)
        return text

    def as_given(self, text: str, release: str, gates: Mapping[str, bool]) -> str:
        """A state file that speaks of pods by the uids that they were stated with, for the node."""
        return renamed(text, self.uids, release=release, feature_gates=gates)

    def _path(self, pod: str = "") -> str:
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        return f"{pods}/{pod}" if pod else pods

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        form: str = "application/json",
    ) -> dict[str, Any]:
        return self._server.ask(method, path, body, form=form)


def _restarting(pod: Mapping[str, Any]) -> dict[str, str]:
    """The containers that a resize is to start again, by the resources that they have and that are
    asked for; and their ids, by name."""
    found = {}
    statuses = {one["name"]: one for one in _statuses(pod)}
    for one in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        policies = one.get("resizePolicy", ())
        again = {each["resourceName"] for each in policies
                 if each["restartPolicy"] == "RestartContainer"}  # fmt: skip
        status = statuses.get(one["name"], {})
        have, want = status.get("resources", {}), one.get("resources", {})
        differs = any(
            have.get(kind, {}).get(what) != want.get(kind, {}).get(what)
            for kind in ("requests", "limits")
            for what in again
        )
        if have and differs:
            found[one["name"]] = status.get("containerID", "")
    return found


def _statuses(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    status = pod["status"]
    return [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]


def _shows(pod: Mapping[str, Any], asked: Mapping[str, Any], before: Mapping[str, str]) -> bool:
    """Whether a pod's running containers are shown with the CPUs that were ``asked`` for, by their
    names, and those with an id ``before`` with another one. A release may show none."""
    status = pod["status"]
    if any(one["type"] == "PodResizePending" for one in status.get("conditions", ())):
        return True
    shown = _statuses(pod)
    if any(before.get(one["name"]) == one.get("containerID", "") for one in shown):
        return False
    return all(
        _cpu_of(one["resources"]) == _cpu_of(asked[one["name"]])
        for one in shown
        if one["name"] in asked and "resources" in one and "running" in one.get("state", ())
    )


def _cpu_of(resources: Mapping[str, Any]) -> str:
    return str(resources.get("requests", {}).get("cpu", ""))
