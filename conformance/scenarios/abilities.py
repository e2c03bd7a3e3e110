"""What scenarios need of a subject, in sets that several of them share, each named after what such
scenarios do or see. A scenario names beside them what it alone needs."""

from __future__ import annotations

from typing import Final

from conformance.subject import Capability

REJECTIONS: Final = (Capability.REJECTIONS,)
START_ERROR: Final = (Capability.START_ERROR,)
RESTARTED: Final = (Capability.CPUSETS, Capability.RESTART)
CRASHES: Final = (*RESTARTED, Capability.RENAMES)
EDITS: Final = (Capability.RESTART, Capability.EDIT_STATE, Capability.START_ERROR)
CONFIGURES: Final = (Capability.RESTART, Capability.CONFIGURE)
KILLS: Final = (Capability.CPUSETS, Capability.CONTAINERS)
ENDS: Final = (*KILLS, Capability.EXIT_CODES)
QUOTAS: Final = (Capability.CPUSETS, Capability.CFS)
CALLS: Final = (Capability.CPUSETS, Capability.CALLS)
KERNEL: Final = (Capability.CPUSETS, Capability.KERNEL)
API_SERVER: Final = (Capability.CPUSETS, Capability.API_SERVER)
RESIZES: Final = (*API_SERVER, Capability.RESTART)
COUNTS: Final = (Capability.METRICS, Capability.CONFIGURE)
LISTS: Final = (Capability.CPUSETS, Capability.POD_RESOURCES)
ASKS: Final = (*LISTS, Capability.POD_RESOURCES_GET)
DEVICES: Final = (Capability.CPUSETS, Capability.DEVICES)
MEMORY: Final = (Capability.CPUSETS, Capability.MEMORY)
