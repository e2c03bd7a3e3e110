"""A node of a fleet: its kubelet and its device plugins are started and stopped. Drivers of Dynamic
Resource Allocation stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from conformance.subject import SubjectUsageError
from conformance.subjects.kubelet.devices.dra import Ask, DRADriver
from conformance.subjects.kubelet.node import KubeletNode
from conformance.subjects.kubelet.process import Binary
from conformance.subjects.kubelet.sandbox import Sandbox
from reference.steps import Device, Reboot, RegisterDevices, Start, Stop
from topologies import Machine

#: In seconds. A kubelet finds a driver's socket at once.
_REGISTERED: Final = 60.0


@dataclass(eq=False)
class FleetNode:
    """A node of a fleet; ``name`` is its name in the cluster. ``stopped``: whether its kubelet was
    stopped on purpose; ``release``: its kubelet's.

    All methods raise :class:`SubjectLostError` if the sandbox is gone.
    """

    name: str
    machine: Machine
    node: KubeletNode
    release: str
    _devices: Mapping[str, tuple[Device, ...]]
    stopped: bool = field(default=False, init=False)
    _drivers: list[DRADriver] = field(default_factory=list, init=False)

    @property
    def pid(self) -> int:
        return self._sandbox.pid

    @property
    def place(self) -> Path:
        """The root of its file system, as a path for every process of this user."""
        return self._sandbox.place

    @property
    def running(self) -> bool:
        """Whether its kubelet runs."""
        return self._sandbox.running

    @property
    def _sandbox(self) -> Sandbox:
        return self.node.sandbox

    def drive(self, name: str, devices: Sequence[Device], ask: Ask) -> None:
        """Serve these devices with a driver of this name from now on. Raises ``OSError``."""
        self._drivers.append(DRADriver(name, self.name, devices, self._sandbox.path, ask))

    def start(self) -> str:
        """Start its kubelet, and register its devices and drivers. Returns why the kubelet does not
        start, or ``""``. Raises :class:`SubjectUsageError` if it runs."""
        if self.running:
            raise SubjectUsageError(f"{self.name}: its kubelet runs")
        for driver in self._drivers:
            driver.expect_kubelet()
        self.node.do(Start())
        self.stopped = False
        why = self.why_down() or self.node.view().hangs
        if not why:
            for resource, devices in self._devices.items():
                self.node.do(RegisterDevices(resource, devices))
            for driver in self._drivers:
                driver.await_kubelet(self._sandbox.bell.until, _REGISTERED)
                driver.publish()
        return why

    def close(self) -> None:
        """End its drivers. May be called twice."""
        for driver in self._drivers:
            driver.close()

    def stop(self, *, kill: bool = False) -> None:
        """Stop its kubelet with SIGTERM or SIGKILL; containers keep running. Raises
        :class:`SubjectUsageError` if it does not run."""
        if not self.running:
            raise SubjectUsageError(f"{self.name}: its kubelet does not run")
        self.node.do(Stop(kill))
        self.stopped = True

    def boot(self) -> None:
        """Boot the machine again, which ends all containers; the kubelet must be down."""
        self.node.do(Reboot())

    def replace(self, binary: Binary) -> None:
        """Use this kubelet from the next start on."""
        self.node.replace_kubelet(binary)
        self.release = str(binary.release)

    def why_down(self) -> str:
        """Why its kubelet has ended; ``""`` while it runs."""
        if self.running:
            return ""
        view = self.node.view()
        return view.error or f"it ended with exit status {view.exit_status}"
