"""The pods of one node that come through the API server.

What belongs here: the API requests of each step on a pod. What never does: what the kubelet then
does, and how a request is sent (:mod:`conformance.subjects.kubelet.apiserver.server`).
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
from reference.view import Offered

_PATCH: Final = "application/strategic-merge-patch+json"
#: In seconds. With zero the server would delete the pod before the kubelet has ended it.
_GRACE: Final = 1


class APIPods:
    """Pods of the node ``name``, whose kubelet is in ``sandbox``. ``uids``: the server's uid of a
    pod, by the uid in the scenario. ``asked``: the resources by container that the last resize
    asked for, by the server's uid.

    Every method raises :class:`SubjectLostError` if the server refuses or does not answer.
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
        """Close this node's port to the server. Its pods and namespace stay until the server
        ends."""
        self._bridge.close()

    @property
    def namespace(self) -> str:
        """The namespace of the pods; no other node has it."""
        return self.name

    def kubeconfig(self) -> str:
        """The kubeconfig of the kubelet."""
        return self._server.kubeconfig()

    def create(self, pod: Pod, *, later: bool = False) -> str:
        """Create the pod on the node, without a scheduler; returns the server's uid. ``later``: in
        another second than the pod before it, because a pod's age is in whole seconds."""
        while later and int(time.time()) <= int(self._created):
            time.sleep(0.02)
        if not self._has_namespace:
            self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
            self._has_namespace = True
        manifest = manifests.manifest(pod)
        del manifest["metadata"]["uid"]
        manifest["metadata"]["namespace"] = self.namespace
        manifest["spec"] |= {
            "nodeName": self.name,
            "terminationGracePeriodSeconds": _GRACE,
            "tolerations": [{"operator": "Exists"}],
        }
        answer = self._ask("POST", self._path(), manifest)
        self._created = time.time()
        self.uids[pod.uid] = uid = str(answer["metadata"]["uid"])
        return uid

    def delete(self, name: str, *, force: bool) -> None:
        """Delete the pod; with ``force`` at once, whatever its kubelet does."""
        grace = {"gracePeriodSeconds": 0} if force else None
        self._ask("DELETE", self._path(name), grace)

    def ended(self) -> set[str]:
        """The uids of the pods that have failed or succeeded by their status at the server."""
        pods = self._ask("GET", self._path())["items"]
        phases = {one["metadata"]["uid"]: one["status"].get("phase") for one in pods}
        return {uid for uid, phase in phases.items() if phase in ("Failed", "Succeeded")}

    def restarting_all(self) -> set[str]:
        """The uids of the pods that restart all their containers by their status at the server."""
        pods = self._ask("GET", self._path())["items"]
        return {one["metadata"]["uid"] for one in pods if _restarts_all(one)}

    def offers(self, resource: str) -> Offered | None:
        """How many devices of this resource the node has by its status at the server; ``None`` if
        the kubelet has not reported any, or not the node."""
        selected = f"fieldSelector=metadata.name%3D{self.name}"  # an absent node is not an error
        nodes = self._ask("GET", f"/api/v1/nodes?{selected}")["items"]
        for status in (node["status"] for node in nodes):
            both = [status.get(what, {}).get(resource) for what in ("capacity", "allocatable")]
            if None not in both:
                return Offered(*map(int, both))
        return None

    def resize(self, pod: Pod) -> None:
        """Give the pod of this name the resources of ``pod``."""
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
        answer = self._ask("PATCH", path, {"spec": patch}, form=_PATCH)
        uid = answer["metadata"]["uid"]
        self.asked[uid] = resources_of(answer)
        self._restarting[uid] = _restarting(answer)
        self._awaited.add(uid)

    def shows_resizes(self) -> bool:
        """Whether the server shows the end of each resize that was not given up: the containers
        have the resources, and were restarted if they have to be, or the status says why not."""
        if not self._awaited:
            return True
        pods = self._ask("GET", self._path())["items"]
        by_uid = {one["metadata"]["uid"]: one for one in pods}
        return all(
            _shows(by_uid[uid], self.asked[uid], self._restarting[uid])
            for uid in self._awaited & by_uid.keys()
        )

    def give_up_resizes(self) -> None:
        """Wait for no earlier resize any more: 1.32.2 was seen to leave one in progress."""
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
        """A state file with the uids of the scenario in place of the server's."""
        stated = {given: own for own, given in self.uids.items()}
        return text and renamed(text, stated, release=release, feature_gates=gates)

    def error_as_stated(self, text: str) -> str:
        """An error with the uids of the scenario in place of the server's."""
        for own, given in self.uids.items():
            text = text.replace(given, own)
        return text

    def as_given(self, text: str, release: str, gates: Mapping[str, bool]) -> str:
        """A state file for the node, with the server's uids in place of the scenario's."""
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
    """The ids of the containers that a resize restarts, by name: their policy says so for a
    resource whose amount differs from the one asked for."""
    ids = {}
    statuses = {one["name"]: one for one in _statuses(pod)}
    for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        policies = container.get("resizePolicy", ())
        restarted_by = {each["resourceName"] for each in policies
                 if each["restartPolicy"] == "RestartContainer"}  # fmt: skip
        status = statuses.get(container["name"], {})
        have, want = status.get("resources", {}), container.get("resources", {})
        differs = any(
            have.get(kind, {}).get(what) != want.get(kind, {}).get(what)
            for kind in ("requests", "limits")
            for what in restarted_by
        )
        if have and differs:
            ids[container["name"]] = status.get("containerID", "")
    return ids


def _restarts_all(pod: Mapping[str, Any]) -> bool:
    """Whether a kubelet that starts now would restart all containers of the pod
    (``ShouldAllContainersRestart``, ``pkg/kubelet/container/helpers.go``, 1.36)."""
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
    if conditions.get("AllContainersRestarting") == "True":
        return True
    codes = {
        container["name"]: rule["exitCodes"]["values"]
        for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
        for rule in container.get("restartPolicyRules", ())
        if rule["action"] == "RestartAllContainers"
    }
    return any(
        one["state"].get("terminated", {}).get("exitCode") in codes.get(one["name"], ())
        for one in _statuses(pod)
    )


def _statuses(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    status = pod["status"]
    return [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]


def _shows(pod: Mapping[str, Any], asked: Mapping[str, Any], before: Mapping[str, str]) -> bool:
    """Whether the status shows the end of a resize: running containers have the CPUs ``asked`` for,
    by name, and those with an id in ``before`` have a new one. A release may show no resources."""
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
