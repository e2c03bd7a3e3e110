"""The capabilities that steps need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from conformance.subject import Capability
from reference import steps
from reference.steps import SIGKILLED, Step

_BY_KIND: Final[Mapping[type[Step], Capability]] = {
    steps.Stop: Capability.RESTART,
    steps.KillAtRename: Capability.RENAMES,
    steps.FailWrites: Capability.RENAMES,
    steps.Reboot: Capability.REBOOT,
    steps.Configure: Capability.CONFIGURE,
    steps.Resize: Capability.API_SERVER,
    steps.AddEphemeral: Capability.API_SERVER,
    steps.RemoveState: Capability.EDIT_STATE,
    steps.WriteState: Capability.EDIT_STATE,
    steps.Tamper: Capability.TAMPER,
    steps.TamperQuota: Capability.CFS,
    steps.KillContainer: Capability.CONTAINERS,
    steps.AskPodResources: Capability.POD_RESOURCES,
    steps.AskAllocatable: Capability.POD_RESOURCES_GET,
    steps.FloodPodResources: Capability.POD_RESOURCES,
    steps.AskMetrics: Capability.METRICS,
    steps.RestartRuntime: Capability.RUNTIME,
    steps.FailUpdates: Capability.CALLS,
    steps.ApplyTogether: Capability.CALLS,
    steps.ReplaceStopping: Capability.CALLS,
    steps.RegisterDevices: Capability.DEVICES,
    steps.ReportDevices: Capability.DEVICES,
    steps.EndDevicePlugin: Capability.DEVICES,
}


def needed(step: Step) -> Iterator[Capability]:
    """The capabilities that this step needs; none for one that every subject takes."""
    if type(step) in _BY_KIND:
        yield _BY_KIND[type(step)]
    if isinstance(step, steps.AskPodResources) and step.pod:
        yield Capability.POD_RESOURCES_GET
    if isinstance(step, steps.EndDevicePlugin):
        yield Capability.API_SERVER
    if any(pod.critical for pod in steps.applied(step)):
        yield Capability.API_SERVER
    if isinstance(step, steps.KillContainer) and step.exit_code != SIGKILLED:
        yield Capability.EXIT_CODES
