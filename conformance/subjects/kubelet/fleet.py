"""A fleet: nodes of one API server that clients on this host reach."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from conformance.subject import (
    Capability,
    SubjectLostError,
    SubjectSetupError,
    SubjectUsageError,
)
from conformance.subjects.kubelet.apiserver import Component
from conformance.subjects.kubelet.apiserver.bridge import Bridge
from conformance.subjects.kubelet.fleet_node import FleetNode
from conformance.subjects.kubelet.fleet_pods import FleetPods
from conformance.subjects.kubelet.subject import KubeletSubject
from reference.steps import RECONCILE_PERIOD, Device, KubeletConfig
from topologies import Machine

#: The label that names a node's machine.
LABEL: Final = "pinproof/machine"
_PREFIX: Final = "node"
_MERGE: Final = "application/merge-patch+json"
#: In seconds. A node is ready 1 s after its kubelet's start; on a busy host much later.
_PATIENCE: Final = 120.0
_LOOK: Final = 0.2
#: In milliseconds: 10 reconcile rounds a second would use too much processor time on idle nodes.
_RECONCILE_PERIOD: Final = 1000
_LONGEST_LABEL: Final = 63


class Fleet:
    """Nodes ``node1``, ``node2``, … of ``subject``'s API server. Raises :class:`SubjectSetupError`
    if the subject cannot have one.
    """

    def __init__(self, subject: KubeletSubject) -> None:
        if subject.api_server is None:
            raise SubjectSetupError(subject.lacking[Capability.API_SERVER])
        self._subject = subject
        self._server = subject.api_server
        self._server.prefix = _PREFIX
        self._bridge: Bridge | None = None
        self._components: list[Component] = []
        self.nodes: list[FleetNode] = []

    def start(self, port: socket.socket) -> str:
        """Start the API server, and lead connections to ``port`` (bound on the host's loopback) to
        it. Returns the kubeconfig of its clients."""
        self._server.start()
        self._bridge = Bridge(port, self._server.connect)
        return self._server.kubeconfig(port.getsockname()[1])

    def run(self, name: str, program: Path, words: Sequence[str] = ()) -> None:
        """Start one more program of the control plane, with these options. Raises
        :class:`SubjectSetupError`."""
        self._components.append(Component(name, program, self._server, words))

    @property
    def pids(self) -> list[int]:
        """The :attr:`Sandbox.pid` of the API server, of each node, and of each program of the
        control plane."""
        nodes, components = self.nodes, self._components
        return [self._server.pid, *(one.pid for one in nodes), *(one.pid for one in components)]

    def add(
        self,
        machine: Machine,
        config: KubeletConfig,
        devices: Mapping[str, tuple[Device, ...]] | None = None,
        claimed: Mapping[str, tuple[Device, ...]] | None = None,
    ) -> FleetNode:
        """Start one more node. Its device plugins serve ``devices``, by resource, and its DRA
        drivers those in ``claimed``, by driver. Raises :class:`SubjectSetupError` if its kubelet
        does not start."""
        period = config.reconcile_period
        if period == RECONCILE_PERIOD:
            period = _RECONCILE_PERIOD
        config = replace(config, api_server=True, reconcile_period=period)
        node = self._subject.node(machine, config)
        fleet_node = FleetNode(
            node.name_in_cluster, machine, node, self._subject.info.release, devices or {}
        )
        self.nodes.append(fleet_node)
        try:
            for name, ones in (claimed or {}).items():
                fleet_node.drive(name, ones, self._server.ask)
            why = fleet_node.start()
        except (SubjectLostError, OSError) as error:
            raise SubjectSetupError(f"{fleet_node.name} ({machine.name}): {error}") from error
        if why:
            raise SubjectSetupError(
                f"{fleet_node.name} ({machine.name}): the kubelet does not come up: {why}"
            )
        return fleet_node

    def node(self, name: str) -> FleetNode:
        """The node of this name. Raises :class:`SubjectUsageError`."""
        for one in self.nodes:
            if one.name == name:
                return one
        raise SubjectUsageError(
            f"{name}: the fleet has {', '.join(one.name for one in self.nodes)}"
        )

    def pods(self, one: FleetNode) -> FleetPods:
        return FleetPods(self._server, one)

    def await_ready(self, one: FleetNode) -> None:
        """Wait until the API server shows the node as ready. Then set :data:`LABEL`, and remove the
        taint that each node is created with: there may be no controller to do it. Raises
        :class:`SubjectSetupError`."""
        self.await_up(one)
        allowed = re.sub(r"[^A-Za-z0-9_.-]", "-", one.machine.name)  # in the value of a label
        labels = {LABEL: allowed[-_LONGEST_LABEL:].strip("_.-")}
        patch = {"metadata": {"labels": labels}, "spec": {"taints": None}}
        try:
            self._change(one, patch)
        except SubjectLostError as error:
            raise SubjectSetupError(f"{one.name}: {error}") from error

    def await_up(self, one: FleetNode) -> None:
        """Wait until the API server shows the node as ready, with the version of the running
        kubelet. Raises :class:`SubjectSetupError`."""
        bell = one.node.sandbox.bell
        if not bell.until(lambda: self._is_ready(one) or not one.running, _PATIENCE, slowest=_LOOK):
            raise SubjectSetupError(f"{one.name}: not ready {_PATIENCE:g} s after its start")

    def cordon(self, one: FleetNode) -> bool:
        """Keep further pods from the node. Returns whether it was not cordoned before."""
        found = self._server.ask("GET", f"/api/v1/nodes/{one.name}")
        if found["spec"].get("unschedulable"):
            return False
        self._change(one, {"spec": {"unschedulable": True}})
        return True

    def uncordon(self, one: FleetNode) -> None:
        """Allow pods on the node again."""
        self._change(one, {"spec": {"unschedulable": None}})

    def ended(self) -> Mapping[str, str]:
        """By node, why kubelets have ended that were not stopped. Raises :class:`SubjectLostError`
        if the API server, a program of the control plane or a node's sandbox has ended."""
        if not self._server.running:
            raise SubjectLostError("the API server has ended")
        for one in self._components:
            if one.error:
                raise SubjectLostError(f"the {one.name} has ended: {one.error}")
        down = {one.name: one.why_down() for one in self.nodes if not one.stopped}
        return {name: why for name, why in down.items() if why}

    def close(self) -> None:
        """Close the clients' port, end every node and the API server, and wait until their
        sandboxes are gone. Raises :class:`SubjectNotRestored`."""
        if self._bridge is not None:
            self._bridge.close()
        for component in self._components:
            component.close()
        for node in self.nodes:
            node.close()
        self._subject.close()

    def _change(self, one: FleetNode, patch: Mapping[str, Any]) -> None:
        self._server.ask("PATCH", f"/api/v1/nodes/{one.name}", patch, form=_MERGE)

    def _is_ready(self, one: FleetNode) -> bool:
        try:
            status = self._server.ask("GET", f"/api/v1/nodes/{one.name}").get("status", {})
        except SubjectLostError:
            return False
        version = str(status.get("nodeInfo", {}).get("kubeletVersion")).removeprefix("v")
        conditions = status.get("conditions") or []
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        return ready and version.startswith(f"{one.release}.")
