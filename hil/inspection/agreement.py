"""Whether the numbers of a node's first answer agree with each other.

What belongs here: pairs of numbers that a kernel takes from one source. Where they differ, the
answer is garbled or made up, or the node changed while it was read. What never does: what is merely
odd on real machines (:mod:`topologies.linting` has that).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hil.answers import fraction, whole
from hil.inspection.host_answer import HostAnswer
from reference import CPUSet, CPUSetParseError
from topologies.capturing.captured import Capture
from topologies.errors import one_line

_CPU: Final = "/sys/devices/system/cpu"
_LISTS: Final = ("online", "possible", "isolated", "nohz_full")
#: Seconds that pass while an answer is made, at most.
_SLACK: Final = 300


def contradiction(host: HostAnswer, capture: Capture) -> str:
    """The first contradiction in one line, ``""`` where all agrees."""
    return next(_lists(host, capture), "") or capture.impossible or next(_times(host), "")


def _lists(host: HostAnswer, capture: Capture) -> Iterator[str]:
    found: dict[str, CPUSet] = {}
    for name in _LISTS:
        text = host.value(f"{_CPU}/{name}")
        try:
            found[name] = CPUSet() if text.strip() == "(null)" else CPUSet.parse(text)
        except CPUSetParseError:
            yield f"{_CPU}/{name} is {one_line(text, 80)}, which is not a list of CPUs"
            return
    seen = capture.tree.get(f"{_CPU}/online".lstrip("/"))
    if isinstance(seen, str) and CPUSet.parse(seen.strip()) != found["online"]:
        yield f"{_CPU}/online is {found['online']}, and {seen.strip()} when it is read again"
    if possible := found["possible"]:
        for name, cpus in found.items():
            if beyond := cpus - possible:
                yield f"CPUs {beyond} are {name}, and not possible"


def _times(host: HostAnswer) -> Iterator[str]:
    text = host.value("/proc/uptime")
    uptime, idle = (fraction(one) for one in (*text.split(), "", "")[:2])
    if text and (uptime <= 0 or idle < 0):
        yield f"/proc/uptime is {one_line(text, 80)}, which is not the time since a boot"
        return
    for pid, process in host.started.items():
        if process.pid != whole(pid):
            yield f"/proc/{pid}/stat is of process {process.pid}"
        if uptime and process.seconds > uptime + _SLACK:
            yield (
                f"process {pid} was started {process.seconds:.0f} s after the boot, "
                f"which was {uptime:.0f} s ago"
            )
    for place, size, free in host.disks:
        if free > size:
            yield f"{place} has {free} KiB free of {size}"
