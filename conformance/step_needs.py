"""What a subject must be able to do for a step that not every subject takes.

What belongs here: what the step itself needs. What never does: whether a subject can, and what a
container or a configuration needs beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from conformance.subject import Capability
from reference.steps import (
    SIGKILLED,
    AddEphemeral,
    ApplyTogether,
    AskAllocatable,
    AskMetrics,
    AskPodResources,
    Configure,
    FailUpdates,
    FloodPodResources,
    KillAtRename,
    KillContainer,
    Reboot,
    RegisterDevices,
    RemoveState,
    ReplaceStopping,
    Resize,
    RestartRuntime,
    Step,
    Stop,
    Tamper,
    TamperQuota,
    WriteState,
)

_BY_KIND: Final[Mapping[type[Step], Capability]] = {
    Stop: Capability.RESTART,
    KillAtRename: Capability.RENAMES,
    Reboot: Capability.REBOOT,
    Configure: Capability.CONFIGURE,
    Resize: Capability.API_SERVER,
    AddEphemeral: Capability.API_SERVER,
    RemoveState: Capability.EDIT_STATE,
    WriteState: Capability.EDIT_STATE,
    Tamper: Capability.TAMPER,
    TamperQuota: Capability.CFS,
    KillContainer: Capability.CONTAINERS,
    AskPodResources: Capability.POD_RESOURCES,
    AskAllocatable: Capability.POD_RESOURCES_GET,
    FloodPodResources: Capability.POD_RESOURCES,
    AskMetrics: Capability.METRICS,
    RestartRuntime: Capability.RUNTIME,
    FailUpdates: Capability.CALLS,
    ApplyTogether: Capability.CALLS,
    ReplaceStopping: Capability.CALLS,
    RegisterDevices: Capability.DEVICES,
}


def needed(step: Step) -> Iterator[Capability]:
    """What a subject must be able to do for this step; nothing for what every subject takes."""
    if type(step) in _BY_KIND:
        yield _BY_KIND[type(step)]
    if isinstance(step, AskPodResources) and step.pod:
        yield Capability.POD_RESOURCES_GET
    if isinstance(step, KillContainer) and step.exit_code != SIGKILLED:
        yield Capability.EXIT_CODES
