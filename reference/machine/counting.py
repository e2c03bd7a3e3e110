"""How many sockets and physical cores cAdvisor counts.

What belongs here: the two numbers beside the topology, ``NumSockets`` and ``NumPhysicalCores``.
What never does: the topology, which they may well contradict.

Distinct lines of ``/proc/cpuinfo`` count; where it has none, ids in sysfs do, each release by its
own rule.
"""

from __future__ import annotations

import re
from typing import Final

from reference.behaviours import Behaviour
from reference.golang.strconv import NotANumber, atoi, trim
from reference.machine.online import SYSTEM_CPUS, listed
from reference.machine.sysfs import SysFS
from reference.releases import Release, has

_SOCKET_LINE: Final = re.compile(r"physical id[\t\n\f\r ]*:[\t\n\f\r ]*[0-9]+$", re.M | re.ASCII)
_CORE_LINE: Final = re.compile(r"core id[\t\n\f\r ]*:[\t\n\f\r ]*[0-9]+$", re.M | re.ASCII)
_CPU_FOLDER: Final = re.compile(r"cpu.*[0-9]", re.ASCII | re.DOTALL)
_CPU_DEVICE: Final = re.compile(r"cpu[0-9]+", re.ASCII)
_CPU_ID: Final = re.compile(r"cpu([0-9]+)", re.ASCII)


def count_sockets(cpuinfo: str, sysfs: SysFS, release: Release) -> int:
    """``GetSockets``."""
    return _distinct_lines(cpuinfo, _SOCKET_LINE) or _in_sysfs(
        sysfs, "physical_package_id", release
    )


def count_physical_cores(cpuinfo: str, sysfs: SysFS, release: Release) -> int:
    """``GetPhysicalCores``: with several sockets too few, as core ids repeat in each."""
    return _distinct_lines(cpuinfo, _CORE_LINE) or _in_sysfs(sysfs, "core_id", release)


def _distinct_lines(cpuinfo: str, line: re.Pattern[str]) -> int:
    # A pattern that began with "start of line" could not skip to its first literal letters.
    return len(
        {
            found[0]
            for found in line.finditer(cpuinfo)
            if found.start() == 0 or cpuinfo[found.start() - 1] == "\n"
        }
    )


def _in_sysfs(sysfs: SysFS, name: str, release: Release) -> int:
    if has(release, Behaviour.ONLINE_BY_SYSTEM_LIST):
        return _pairs(sysfs, name, sysfs.glob(SYSTEM_CPUS, _CPU_FOLDER), f"{SYSTEM_CPUS}/online")
    # The folders of /sys/bus/cpu/devices are links to these, and there is no list beside them.
    devices = sysfs.glob(SYSTEM_CPUS, _CPU_DEVICE)
    if has(release, Behaviour.ONLINE_BY_LIST):
        return _pairs(sysfs, name, devices, "sys/bus/cpu/devices/online")
    return _values(sysfs, name, devices)


def _pairs(sysfs: SysFS, name: str, folders: list[str], online: str) -> int:
    """Pairs of this id and the package id; a missing file is ``0`` (v0.39 and later)."""
    mask = listed(sysfs, online)
    pairs = set()
    for folder in folders:
        found = _CPU_ID.search(folder)
        try:
            cpu = atoi(found[1] if found else "")
        except NotANumber:
            return 0
        if mask is None or mask >> (cpu & 0xFFFF) & 1:
            own, package = (
                trim(sysfs.text(f"{SYSTEM_CPUS}/{folder}/topology/{file}") or "0")
                for file in (name, "physical_package_id")
            )
            pairs.add((own, package))
    return len(pairs)


def _values(sysfs: SysFS, name: str, folders: list[str]) -> int:
    """Different texts among CPUs whose own ``online`` begins with 1; one without the id makes it
    0 (v0.37, v0.38)."""
    values = set()
    for folder in folders:
        if trim(sysfs.text(f"{SYSTEM_CPUS}/{folder}/online") or "").startswith("1"):
            value = sysfs.text(f"{SYSTEM_CPUS}/{folder}/topology/{name}")
            if value is None:
                return 0
            values.add(value)
    return len(values)
