"""The answer to the first question, which needs no knowledge of the node."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

from hil.answers import fraction, whole
from hil.inspection.kubelet import environment_of
from hil.inspection.node import CgroupFacts, Firmware, Process, Unit
from hil.inspection.script import DMI, Records
from reference import CPUSet, CPUSetParseError
from topologies.errors import one_line

_CPU: Final = "/sys/devices/system/cpu"
#: Characters that are kept of a name.
_LONGEST: Final = 120
_TICKS: Final = 100  # USER_HZ: the same on every architecture that kubelets run on
#: With one of these a process only prints something: it is not the kubelet that runs.
_ONLY_PRINTS: Final = frozenset({"--version", "--help", "-h"})


class Started(NamedTuple):
    """A process: its number, and the seconds after the boot at which it was started."""

    pid: int
    seconds: float


class HostAnswer:
    def __init__(self, records: Records) -> None:
        self._records = records
        self.capture = records.data("text", "capture")
        self.tools = frozenset(records.lines("tools"))
        self.places = frozenset(records.lines("places"))
        self._values = dict(line.split("=", 1) for line in records.lines("values") if "=" in line)

    def value(self, name: str) -> str:
        """A value by its path; the script may have put the place of ``/`` before that."""
        for path, value in self._values.items():
            if path.endswith(name):
                return value
        return ""

    def cpus(self, name: str) -> CPUSet:
        """A CPU list of the kernel; empty where it says nothing, or ``(null)``."""
        try:
            return CPUSet.parse(self.value(f"{_CPU}/{name}"))
        except CPUSetParseError:
            return CPUSet()

    @property
    def uptime(self) -> float:
        """In seconds; 0 where it is not known."""
        return fraction(self.value("/proc/uptime").partition(" ")[0])

    @property
    def systemd(self) -> int:
        """The version of the running systemd, 0 where there is none."""
        found = re.match(r"systemd (\d+)", self._records.text("systemd"))
        return whole(found[1]) if found and "/run/systemd/system" in self.places else 0

    @property
    def free(self) -> dict[str, int]:
        """Free bytes by mount point."""
        return {place: free << 10 for place, _, free in self.disks}

    @property
    def disks(self) -> list[tuple[str, int, int]]:
        """Mount point, KiB and free KiB."""
        rows = [line.split() for line in self._records.lines("df")[1:]]
        return [(row[5], whole(row[1]), whole(row[3])) for row in rows if len(row) == 6]

    @property
    def started(self) -> dict[str, Started]:
        """What each process's ``stat`` says, by the number that the process is listed under."""
        found = {}
        for pid, text in self._records.all("process").items():
            stat = next((line[5:] for line in text.splitlines() if line.startswith("stat=")), "")
            after = stat.rpartition(")")[2].split()
            if len(after) > 19:
                number = whole(stat.partition(" ")[0])
                found[pid] = Started(number, fraction(after[19]) / _TICKS)
        return found

    @property
    def os_id(self) -> str:
        """The operating system in one word (``ID`` of os-release(5)); ``""`` without that file."""
        return one_line(self._os.get("ID", ""), _LONGEST)

    @property
    def _os(self) -> dict[str, str]:
        text = self._records.all("file").get("/etc/os-release", "")
        return environment_of(text.splitlines())

    @property
    def os_release(self) -> str:
        """The distribution's own name for itself and its version (os-release(5)); ``""`` without
        that file."""
        found = self._os
        name = f"{found.get('NAME', '')} {found.get('VERSION', '')}".strip()
        return one_line(found.get("PRETTY_NAME", "") or name, _LONGEST)

    @property
    def firmware(self) -> Firmware:
        """By DMI; of a machine without it, its model by the device tree."""
        found = {name: self.value(f"/sys/class/dmi/id/{name}") for name in DMI}
        found["product_name"] = found["product_name"] or self.value("/proc/device-tree/model")
        return Firmware(
            **{name: one_line(value.replace("\0", ""), _LONGEST) for name, value in found.items()}
        )

    @property
    def virtual(self) -> str:
        """What systemd detects; ``""`` for hardware, and where systemd does not say."""
        said = one_line(self._records.text("virtual").strip(), _LONGEST)
        return "" if said == "none" else said

    @cached_property
    def units(self) -> dict[str, Unit]:
        """The units that exist, by name."""
        found: dict[str, Unit] = {}
        for block in self._records.text("units").split("\n\n"):
            shown = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            if shown.get("LoadState") == "loaded":
                found[shown.get("Id", "")] = self._unit(shown)
        return found

    def _unit(self, shown: Mapping[str, str]) -> Unit:
        texts = self._records.all("file")
        paths = [shown.get("FragmentPath", ""), *shown.get("DropInPaths", "").split()]
        files = {path: texts.get(path, "") for path in paths if path}
        given = environment_of(_words(shown.get("Environment", "")))
        lists = [word for word in shown.get("EnvironmentFiles", "").split() if word[:1] == "/"]
        # systemctl repeats the property; a dict keeps the last: the unit's own text has them all.
        named = re.findall(r"^EnvironmentFile=-?(\S+)", "\n".join(files.values()), re.MULTILINE)
        later = environment_of(texts.get(path, "") for path in dict.fromkeys([*named, *lists]))
        command = re.search(r"argv\[\]=(.*?) ; ignore_errors", shown.get("ExecStart", ""))
        return Unit(
            name=shown.get("Id", ""),
            active=shown.get("ActiveState", ""),
            sub=shown.get("SubState", ""),
            pid=whole(shown.get("MainPID", "")),
            restarts=whole(shown.get("NRestarts", "")),
            command=command[1].strip() if command else "",
            files=files,
            environment={**given, **later},
        )

    @cached_property
    def processes(self) -> dict[str, Process]:
        """By the name of the process: those that may hold a kubelet, or are the runtime. Of several
        with one name, the one in a unit that is known, else in any unit, else the oldest: others
        live in containers."""
        found: dict[str, tuple[tuple[bool, bool, float], Process]] = {}
        started = self.started
        for pid, text in self._records.all("process").items():
            shown = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
            words = self._records.text(pid, "cmdline").rstrip("\0").split("\0")
            if words == [""] or _ONLY_PRINTS.intersection(words[1:2]):
                continue  # it is just being started, or ends
            began = started[pid].seconds if pid in started else self.uptime
            process = Process(
                pid=whole(pid),
                program=shown.get("exe", "") or words[0],
                arguments=tuple(words[1:]),
                cgroup=shown.get("cgroup", ""),
                age=max(0, int(self.uptime - began)),
            )
            known = not self.units.keys().isdisjoint(process.cgroup.split("/"))
            rank = (known, ".service" in process.cgroup, -began)
            name = shown.get("comm", "")
            if name not in found or rank > found[name][0]:
                found[name] = rank, process
        return {name: process for name, (_, process) in found.items()}

    def cgroup(self, settings: Mapping[str, Any]) -> CgroupFacts:
        """The cgroups as mounted; their driver as seen, else as configured."""
        if "/sys/fs/cgroup/cgroup.controllers" in self.places:
            controllers = self.value("/sys/fs/cgroup/cgroup.controllers").split()
            version, cpuset, mount = 2, "cpuset" in controllers, "/sys/fs/cgroup"
        elif "/sys/fs/cgroup/cpuset/cpuset.cpus" in self.places:
            version, cpuset, mount = 1, True, "/sys/fs/cgroup/cpuset"
        else:
            return CgroupFacts()
        seen = ""
        if f"{mount}/kubepods.slice" in self.places:
            seen = "systemd"
        elif f"{mount}/kubepods" in self.places:
            seen = "cgroupfs"
        return CgroupFacts(version, seen or str(settings.get("cgroupDriver") or ""), cpuset, mount)


def _words(text: str) -> list[str]:
    """The settings of a unit's environment, which systemctl quotes or escapes where they hold
    spaces."""
    try:
        return shlex.split(text.replace("\\x20", "\\ "))
    except ValueError:
        return text.replace('"', "").split()
