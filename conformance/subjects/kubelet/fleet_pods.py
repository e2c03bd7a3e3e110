"""The pods of a fleet's node: evicted before a change of its kubelet, compared after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from conformance.kubelets.pod_resources import NoCPUs
from conformance.subject import SubjectLostError
from conformance.subjects.kubelet.apiserver import APIServer
from conformance.subjects.kubelet.fleet_node import FleetNode
from conformance.subjects.kubelet.node import POD_RESOURCES_SOCKET
from conformance.subjects.kubelet.pod_resources import PodResourcesClient, Refused
from reference.cpuset import CPUSet

_ENDED: Final = ("Failed", "Succeeded")
#: Seconds in which the kubelet ends evicted pods, or lists the remaining ones.
_PATIENCE: Final = 60.0
_LOOK: Final = 0.2


class FleetPods:
    """The pods of ``node``. All methods raise :class:`SubjectLostError` if the API server refuses
    or does not answer."""

    def __init__(self, server: APIServer, node: FleetNode) -> None:
        self._server = server
        self._node = node
        self._client = PodResourcesClient(node.node.sandbox.path(POD_RESOURCES_SOCKET))

    def alive(self) -> dict[str, str]:
        """The names of the pods that have not ended, as ``NAMESPACE/NAME``, by uid."""
        return {uid: name for uid, name, phase, _ in self._all() if phase not in _ENDED}

    def evict(self) -> list[str]:
        """Evict all pods, as ``kubectl drain`` does, and wait until they are gone; returns their
        names."""
        evicted = self.alive()
        for each in evicted.values():
            namespace, name = each.split("/")
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"namespace": namespace, "name": name},
            }
            self._server.ask("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
        if not self._until(lambda: not evicted.keys() & {uid for uid, *_ in self._all()}):
            raise SubjectLostError(
                f"{self._node.name}: evicted pods are there {_PATIENCE:g} s later"
            )
        return sorted(evicted.values())

    def cpus(self) -> dict[str, CPUSet]:
        """The exclusive CPUs of each container that the kubelet reports, by
        ``NAMESPACE/POD/CONTAINER``; none if it does not answer."""
        try:
            listed = self._client.listed().cpus
        except (Refused, NoCPUs, SubjectLostError):
            return {}
        return {
            f"{'/'.join(pod)}/{container}": held
            for pod, containers in listed.items()
            for container, held in containers.items()
            if held
        }

    def await_known(self, holders: set[str]) -> None:
        """Wait until the kubelet reports these containers, or their pods have ended."""

        def known() -> bool:
            there = set(self.alive().values())
            left = {one for one in holders if one.rpartition("/")[0] in there}
            return left <= self.cpus().keys()

        self._until(known)

    def why_ended(self, uids: dict[str, str]) -> dict[str, str]:
        """The reasons, by name, for those of these pods (names by uid) that have ended or are
        gone."""
        found = {uid: (phase, why) for uid, _, phase, why in self._all()}
        states = {name: found.get(uid, ("Failed", "deleted")) for uid, name in uids.items()}
        return {name: why or phase for name, (phase, why) in states.items() if phase in _ENDED}

    def _all(self) -> Iterator[tuple[str, str, str, str]]:
        path = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self._node.name}"
        for one in self._server.ask("GET", path)["items"]:
            meta: dict[str, Any] = one["metadata"]
            name, status = f"{meta['namespace']}/{meta['name']}", one["status"]
            yield meta["uid"], name, status.get("phase", ""), status.get("reason", "")

    def _until(self, done: Callable[[], bool]) -> bool:
        return self._node.node.sandbox.bell.until(done, _PATIENCE, slowest=_LOOK)
