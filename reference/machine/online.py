"""Which CPUs count as online.

What belongs here: the three rules that cAdvisor has had, each asked for one CPU folder. What never
does: what becomes of a CPU that is offline.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from reference.behaviours import Behaviour
from reference.golang.strconv import NotANumber, parse_uint, trim
from reference.machine.sysfs import SysFS, Unreadable
from reference.releases import Release, has

#: The folder of all CPUs.
SYSTEM_CPUS: Final = "sys/devices/system/cpu"
_FIRST_CPU_IN_PATH: Final = re.compile(r"cpu([0-9]*)", re.ASCII)


class OnlineRule(Protocol):
    """How one version of cAdvisor tells (``IsCPUOnline``)."""

    def has(self, folder: str, name: str, cpu: int) -> bool:
        """Whether the CPU counts as online whose folder is ``folder/name``."""


def online_rule(sysfs: SysFS, release: Release) -> OnlineRule:
    """The rule of ``release``, which read sysfs."""
    if has(release, Behaviour.ONLINE_BY_SYSTEM_LIST):
        return _InList(sysfs, SYSTEM_CPUS)
    if has(release, Behaviour.ONLINE_BY_LIST):
        return _InList(sysfs, None)
    return _OwnFile(sysfs)


class _OwnFile:
    """``cpuN/online`` is ``1``; without the file only CPU 0 is online (cAdvisor v0.37, v0.38).

    CPU 0 is known by the first ``cpu`` in the path, which below ``/sys/devices/system/cpu`` is the
    folder's own: there, CPU 0 needs the file too.
    """

    __slots__ = ("_sysfs",)

    def __init__(self, sysfs: SysFS) -> None:
        self._sysfs = sysfs

    def has(self, folder: str, name: str, cpu: int) -> bool:
        path = f"{folder}/{name}"
        try:
            text = self._sysfs.read(f"{path}/online")
        except Unreadable:
            return False
        if text is not None:
            return trim(text) == "1"
        found = _FIRST_CPU_IN_PATH.search(path)
        return found is not None and found[1] == "0"


class _InList:
    """The CPU is in the list ``online`` of one folder, or of the folder it lies in (v0.39 to v0.47,
    where NUMA nodes have no such list). Without that file every CPU is online."""

    __slots__ = ("_folder", "_masks", "_sysfs")

    def __init__(self, sysfs: SysFS, folder: str | None) -> None:
        self._sysfs, self._folder = sysfs, folder
        self._masks: dict[str, int | None] = {}

    def has(self, folder: str, name: str, cpu: int) -> bool:
        where = folder if self._folder is None else self._folder
        if where not in self._masks:
            self._masks[where] = listed(self._sysfs, f"{where}/online")
        mask = self._masks[where]
        return mask is None or bool(mask >> (cpu & 0xFFFF) & 1)


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
