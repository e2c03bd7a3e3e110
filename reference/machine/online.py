"""Which CPUs count as online."""

from __future__ import annotations

import re
from typing import Final

from reference.behaviours import Behaviour
from reference.golang.strconv import NotANumber, parse_uint, trim
from reference.machine.sysfs import SysFS, Unreadable
from reference.releases import Release, has

#: The folder of all CPUs.
SYSTEM_CPUS: Final = "sys/devices/system/cpu"
_FIRST_CPU_IN_PATH: Final = re.compile(r"cpu([0-9]*)", re.ASCII)


class OnlineCPUs:
    """How the cAdvisor of ``release``, which reads sysfs, tells online CPUs (``IsCPUOnline``)."""

    __slots__ = ("_masks", "_own_file", "_sysfs", "_system_list")

    def __init__(self, sysfs: SysFS, release: Release) -> None:
        self._sysfs = sysfs
        self._own_file = not has(release, Behaviour.ONLINE_BY_LIST)
        self._system_list = has(release, Behaviour.ONLINE_BY_SYSTEM_LIST)
        self._masks: dict[str, int | None] = {}

    def has(self, folder: str, name: str, cpu: int) -> bool:
        """Whether the CPU counts as online whose folder is ``folder/name``: if it is in the list
        ``online`` of all CPUs, or up to v0.47 of the folder it lies in, which NUMA nodes do not
        have. Without that file every CPU is online."""
        if self._own_file:
            return self._says_online(f"{folder}/{name}")
        where = SYSTEM_CPUS if self._system_list else folder
        if where not in self._masks:
            self._masks[where] = listed(self._sysfs, f"{where}/online")
        mask = self._masks[where]
        return mask is None or bool(mask >> (cpu & 0xFFFF) & 1)

    def _says_online(self, path: str) -> bool:
        """``cpuN/online`` is ``1``; without the file only CPU 0 is online (cAdvisor v0.37, v0.38).

        CPU 0 is known by the first ``cpu`` in the path, which below ``/sys/devices/system/cpu`` is
        the folder's own: there, CPU 0 needs the file too.
        """
        try:
            text = self._sysfs.read(f"{path}/online")
        except Unreadable:
            return False
        if text is not None:
            return trim(text) == "1"
        found = _FIRST_CPU_IN_PATH.search(path)
        return found is not None and found[1] == "0"


def listed(sysfs: SysFS, path: str) -> int | None:
    """The CPUs of a list, as a mask, up to its first bad piece; ``None`` without the file. Ids are
    16 bits wide (``isCPUOnline``)."""
    try:
        text = sysfs.read(path)
    except Unreadable:
        return 0
    if text is None:
        return None
    mask = 0
    for piece in trim(text).split(","):
        ends = piece.split("-")
        try:
            numbers = [parse_uint(end, bits=16) for end in ends]
        except NotANumber:
            return mask
        low, high = numbers[0], numbers[-1]
        if len(ends) > 2 or low > high:
            return mask
        mask |= (1 << high + 1) - (1 << low)
    return mask
