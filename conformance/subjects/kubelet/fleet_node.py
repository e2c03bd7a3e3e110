"""A node of a fleet: its kubelet comes and goes, and its device plugins with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance.subject import SubjectUsageError
from conformance.subjects.kubelet.node import KubeletNode
from conformance.subjects.kubelet.process import Binary
from conformance.subjects.kubelet.sandbox import Sandbox
from reference.steps import Device, Reboot, RegisterDevices, Start, Stop
from topologies import Machine


class FleetNode:
    """A node by its name in the cluster. ``stopped``: whether its kubelet was stopped on purpose;
    ``release``: of its kubelet.

    All methods raise :class:`SubjectLostError` where the sandbox is gone.
    """

    def __init__(
        self,
        name: str,
        machine: Machine,
        node: KubeletNode,
        release: str,
        devices: Mapping[str, tuple[Device, ...]],
    ) -> None:
        self.name = name
        self.machine = machine
        self.node = node
        self.release = release
        self.stopped = False
        self._devices = devices

    @property
    def pid(self) -> int:
        """See :attr:`Sandbox.pid`."""
        return self._sandbox.pid

    @property
    def place(self) -> Path:
        """The root of its file system, for every process of this user."""
        return self._sandbox.place

    @property
    def running(self) -> bool:
        """Whether its kubelet runs."""
        return self._sandbox.running

    @property
    def _sandbox(self) -> Sandbox:
        return self.node.sandbox

    def start(self) -> str:
        """Start its kubelet, and register its devices; ``""``, or why the kubelet does not come up.
        Raises :class:`SubjectUsageError` where it runs."""
        if self.running:
            raise SubjectUsageError(f"{self.name}: its kubelet runs")
        self.node.do(Start())
        self.stopped = False
        why = self.why_down() or self.node.view().hangs
        if not why:
            for resource, devices in self._devices.items():
                self.node.do(RegisterDevices(resource, devices))
        return why

    def stop(self, *, kill: bool = False) -> None:
        """Stop its kubelet by SIGTERM or SIGKILL; containers go on. Raises
        :class:`SubjectUsageError` where it does not run."""
        if not self.running:
            raise SubjectUsageError(f"{self.name}: its kubelet does not run")
        self.node.do(Stop(kill))
        self.stopped = True

    def boot(self) -> None:
        """What a boot of the machine does, while its kubelet is down: no container is left."""
        self.node.do(Reboot())

    def replace(self, binary: Binary) -> None:
        """The next kubelet to start is this one."""
        self.node.replace_kubelet(binary)
        self.release = str(binary.release)

    def why_down(self) -> str:
        """Why its kubelet has ended; ``""`` while it runs."""
        if self.running:
            return ""
        view = self.node.view()
        return view.error or f"it ended with exit status {view.exit_status}"
