"""A fleet: nodes of one API server that clients on this host reach.

What belongs here: the port of the host that leads to the API server, nodes that join it, and when
they are ready. What never does: pods, which its clients create.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from conformance.subject import Capability, SubjectLostError, SubjectSetupError
from conformance.subjects.kubelet.apiserver import Component
from conformance.subjects.kubelet.apiserver.bridge import Bridge
from conformance.subjects.kubelet.node import KubeletNode
from conformance.subjects.kubelet.subject import KubeletSubject
from reference.steps import RECONCILE_PERIOD, KubeletConfig, Start
from topologies import Machine

#: The label that names a node's machine.
LABEL: Final = "pinproof/machine"
_PREFIX: Final = "node"
_MERGE: Final = "application/merge-patch+json"
#: A node is ready 1 s after its kubelet's start; a busy machine is no reason to give up.
_PATIENCE: Final = 120.0
_LOOK: Final = 0.2
#: Milliseconds. Nodes that are left running are not to use the processor for 10 rounds a second.
_RECONCILE_PERIOD: Final = 1000
_LONGEST_LABEL: Final = 63


@dataclass(frozen=True, slots=True)
class FleetNode:
    """A node by its name in the cluster. ``pid``: see :attr:`Sandbox.pid`; ``place``: the root of
    its file system, for every process of this user."""

    name: str
    machine: Machine
    node: KubeletNode

    @property
    def pid(self) -> int:
        return self.node.sandbox.pid

    @property
    def place(self) -> Path:
        return self.node.sandbox.place


class Fleet:
    """Nodes ``node1``, ``node2``, … of ``subject``'s API server. Raises
    :class:`SubjectSetupError` where it cannot have one.
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
        """Start the API server, which ``port`` (bound on the host's loopback) leads to from now on;
        the kubeconfig of its clients."""
        self._server.start()
        self._bridge = Bridge(port, self._server.connect)
        return self._server.kubeconfig(port.getsockname()[1])

    def run(self, name: str, program: Path) -> None:
        """Start one more program of the control plane. Raises :class:`SubjectSetupError`."""
        self._components.append(Component(name, program, self._server))

    @property
    def pids(self) -> list[int]:
        """See :attr:`Sandbox.pid`: of the API server, of each node, and of each program of the
        control plane."""
        nodes, components = self.nodes, self._components
        return [self._server.pid, *(one.pid for one in nodes), *(one.pid for one in components)]

    def add(self, machine: Machine, config: KubeletConfig) -> FleetNode:
        """Start one more node. Raises :class:`SubjectSetupError` where its kubelet does not come
        up."""
        period = config.reconcile_period
        if period == RECONCILE_PERIOD:
            period = _RECONCILE_PERIOD
        config = replace(config, api_server=True, reconcile_period=period)
        node = self._subject.node(machine, config)
        made = FleetNode(node.name_in_cluster, machine, node)
        self.nodes.append(made)
        try:
            node.do(Start())
            why = _why_down(node) or node.view().hangs
        except SubjectLostError as error:
            raise SubjectSetupError(f"{made.name} ({machine.name}): {error}") from error
        if why:
            raise SubjectSetupError(
                f"{made.name} ({machine.name}): the kubelet does not come up: {why}"
            )
        return made

    def await_ready(self, one: FleetNode) -> None:
        """Wait until the API server shows the node as ready; then it has :data:`LABEL`, and no
        taint: no controller would take away the one that each node is created with. Raises
        :class:`SubjectSetupError`."""
        if not one.node.sandbox.bell.until(
            lambda: self._is_ready(one) or not one.node.sandbox.running, _PATIENCE, slowest=_LOOK
        ):
            raise SubjectSetupError(f"{one.name}: not ready {_PATIENCE:g} s after its start")
        labels = {LABEL: _label(one.machine.name)}
        patch = {"metadata": {"labels": labels}, "spec": {"taints": None}}
        try:
            self._server.ask("PATCH", f"/api/v1/nodes/{one.name}", patch, form=_MERGE)
        except SubjectLostError as error:
            raise SubjectSetupError(f"{one.name}: {error}") from error

    def ended(self) -> Mapping[str, str]:
        """Why, by node, of the kubelets that have ended. Raises :class:`SubjectLostError` where the
        API server, a program of the control plane or a node's sandbox has ended."""
        if not self._server.running:
            raise SubjectLostError("the API server has ended")
        for one in self._components:
            if one.error:
                raise SubjectLostError(f"the {one.name} has ended: {one.error}")
        down = {one.name: _why_down(one.node) for one in self.nodes}
        return {name: why for name, why in down.items() if why}

    def close(self) -> None:
        """Let no client in any more, end every node and the API server, and wait until nothing of
        them is left. Raises :class:`SubjectNotRestored`."""
        if self._bridge is not None:
            self._bridge.close()
        for one in self._components:
            one.close()
        self._subject.close()

    def _is_ready(self, one: FleetNode) -> bool:
        try:
            found = self._server.ask("GET", f"/api/v1/nodes/{one.name}")
        except SubjectLostError:
            return False
        conditions = found.get("status", {}).get("conditions") or []
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _why_down(node: KubeletNode) -> str:
    """``""`` while its kubelet runs."""
    if node.sandbox.running:
        return ""
    view = node.view()
    return view.error or f"it ended with exit status {view.exit_status}"


def _label(name: str) -> str:
    """The name in the characters that the value of a label may have."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name)[-_LONGEST_LABEL:].strip("_.-")
