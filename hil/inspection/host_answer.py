"""The first answer: what needs no knowledge of the node, and where it leads to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Final

from hil.inspection.kubelet import document, environment_of, expanded, flags_of
from hil.inspection.node import CgroupFacts, Process, Unit
from hil.inspection.paths import KubeletPaths
from hil.inspection.script import Records
from reference import CPUSet, CPUSetParseError

_CPU: Final = "/sys/devices/system/cpu"
_TICKS: Final = 100  # USER_HZ: the same on every architecture that kubelets run on
#: Programs that a kubelet lives in, by the beginning of the process's name.
_HOLDERS: Final = ("kubelet", "kubelite", "k3s", "microshift", "hyperkube")
#: Units that a kubelet lives in, most telling first, and the program that holds it there.
_HOLDER_OF_UNIT: Final = {
    "k3s.service": "k3s",
    "k3s-agent.service": "k3s",
    "rke2-server.service": "kubelet",
    "rke2-agent.service": "kubelet",
    "k0scontroller.service": "kubelet",
    "k0sworker.service": "kubelet",
    "snap.microk8s.daemon-kubelite.service": "kubelite",
    "microshift.service": "microshift",
    "kubelet.service": "kubelet",
}
_MICROK8S_ARGUMENTS: Final = "/var/snap/microk8s/current/args/kubelet"
_ROOT_DIRS: Final = {"kubelite": "/var/snap/microk8s/common/var/lib/kubelet"}
_CONFIG_DIRS: Final = {"k3s": "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"}
_RANCHER: Final = {"k3s": "/etc/rancher/k3s/config.yaml"}


class HostAnswer:
    """The first answer, and what the user said beforehand."""

    def __init__(self, records: Records, paths: KubeletPaths) -> None:
        self.records = records
        self.paths = paths
        self.capture = records.data("text", "capture")
        self.tools = frozenset(records.lines("tools"))
        self.places = frozenset(records.lines("places"))
        self._values = dict(line.split("=", 1) for line in records.lines("values") if "=" in line)

    def value(self, name: str) -> str:
        """A value by its path; the script may have put the place of its ``/`` before that."""
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
        return _number(self.value("/proc/uptime").partition(" ")[0])

    @property
    def systemd(self) -> int:
        """The version of the running systemd, 0 where there is none."""
        found = re.match(r"systemd (\d+)", self.records.text("systemd"))
        return int(found[1]) if found and "/run/systemd/system" in self.places else 0

    @property
    def free(self) -> dict[str, int]:
        """Free bytes by mount point."""
        rows = [line.split() for line in self.records.lines("df")[1:]]
        return {row[5]: int(row[3]) << 10 for row in rows if len(row) == 6 and row[3].isdigit()}

    @cached_property
    def units(self) -> dict[str, Unit]:
        """Those that exist, by name."""
        found: dict[str, Unit] = {}
        for block in self.records.text("units").split("\n\n"):
            shown = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            if shown.get("LoadState") == "loaded":
                found[shown.get("Id", "")] = self._unit(shown)
        return found

    def _unit(self, shown: Mapping[str, str]) -> Unit:
        texts = self.records.all("file")
        paths = [shown.get("FragmentPath", ""), *shown.get("DropInPaths", "").split()]
        files = {path: texts.get(path, "") for path in paths if path}
        given = environment_of(shown.get("Environment", "").replace('"', "").split())
        lists = [word for word in shown.get("EnvironmentFiles", "").split() if word[:1] == "/"]
        # systemctl repeats the property; a dict keeps the last: the unit's own text has them all.
        named = re.findall(r"^EnvironmentFile=-?(\S+)", "\n".join(files.values()), re.MULTILINE)
        later = environment_of(texts.get(path, "") for path in dict.fromkeys([*named, *lists]))
        command = re.search(r"argv\[\]=(.*?) ; ignore_errors", shown.get("ExecStart", ""))
        return Unit(
            name=shown.get("Id", ""),
            active=shown.get("ActiveState", ""),
            sub=shown.get("SubState", ""),
            pid=int(_number(shown.get("MainPID", ""))),
            restarts=int(_number(shown.get("NRestarts", ""))),
            command=command[1].strip() if command else "",
            files=files,
            environment={**given, **later},
        )

    @cached_property
    def processes(self) -> dict[str, Process]:
        """By the name of the process: those that may hold a kubelet, or are the runtime."""
        found: dict[str, Process] = {}
        for pid, text in self.records.all("process").items():
            shown = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
            words = self.records.text(pid, "cmdline").rstrip("\0").split("\0")
            after = shown.get("stat", "").rpartition(")")[2].split()
            started = _number(after[19]) / _TICKS if len(after) > 19 else self.uptime
            process = Process(
                pid=int(_number(pid)),
                program=shown.get("exe", "") or words[0],
                arguments=tuple(words[1:]),
                cgroup=shown.get("cgroup", ""),
                age=max(0, int(self.uptime - started)),
            )
            # Others of that name live in containers.
            if shown.get("comm", "") not in found or ".service" in process.cgroup:
                found[shown.get("comm", "")] = process
        return found

    @cached_property
    def process(self) -> Process | None:
        """The one that is the kubelet, or holds it."""
        for holder in _HOLDERS:
            for name, process in self.processes.items():
                if name.startswith(holder):
                    return process
        return None

    @property
    def holder(self) -> str:
        """``"kubelet"``, or the program that it lives in."""
        for holder in _HOLDERS:
            if any(name.startswith(holder) for name in self.processes):
                return holder
        return _HOLDER_OF_UNIT.get(self.unit, "kubelet")

    @cached_property
    def unit(self) -> str:
        """The systemd unit of the kubelet, ``""`` without one."""
        if self.paths.unit:
            return self.paths.unit
        if self.process is not None:
            parts = PurePosixPath(self.process.cgroup).parts
            named = [part for part in parts if part.endswith(".service")]
            if named:
                return named[-1]
        return next((unit for unit in _HOLDER_OF_UNIT if unit in self.units), "")

    @cached_property
    def flags(self) -> dict[str, str]:
        """The kubelet's, from the running process, else from the unit that would start it."""
        if self.process is not None and self.holder in ("kubelet", "hyperkube"):
            return flags_of(self.process.arguments)
        unit = self.units.get(self.unit)
        words = expanded(unit.command, unit.environment)[1:] if unit else []
        if self.holder == "kubelet":
            return flags_of(words)
        # k3s and its kin hand these through.
        through = [word for word in words if word.startswith("--kubelet-arg=")]
        return flags_of([f"--{word.partition('=')[2]}" for word in through])

    @property
    def exists(self) -> bool:
        """Whether there is a kubelet at all, running or not."""
        return self.process is not None or self.unit in self.units or bool(self.paths.binary)

    @property
    def binary(self) -> str:
        """Its program, ``""`` where that is not known."""
        if self.paths.binary:
            return self.paths.binary
        if self.process is not None:
            return self.process.program.removesuffix(" (deleted)")
        unit = self.units.get(self.unit)
        return unit.command.split()[0] if unit and unit.command else ""

    @property
    def root_dir(self) -> str:
        """Absolute."""
        default = _ROOT_DIRS.get(self.holder, "/var/lib/kubelet")
        return (self.paths.root_dir or self.flags.get("root-dir", "") or default).rstrip("/")

    @property
    def config_path(self) -> str:
        """``""`` without one."""
        return self.paths.config or self.flags.get("config", "")

    @property
    def config_dir(self) -> str:
        """``""`` without one."""
        return self.flags.get("config-dir", "") or _CONFIG_DIRS.get(self.holder, "")

    @property
    def state_path(self) -> str:
        return f"{self.root_dir}/cpu_manager_state"

    @property
    def rancher(self) -> str:
        """The file that k3s takes the kubelet's arguments from."""
        return _RANCHER.get(self.holder, "")

    def files(self) -> list[str]:
        """What to read next."""
        arguments = _MICROK8S_ARGUMENTS if self.holder == "kubelite" else ""
        return [self.config_path, self.state_path, self.rancher, arguments]

    def folders(self) -> list[str]:
        """Of which to read what is in them."""
        return [self.config_dir, f"{self.rancher}.d" if self.rancher else ""]

    def programs(self) -> list[str]:
        """Whose version to ask. The running one may not be the one on disk any more."""
        return [self.program, self.runtime_program]

    @property
    def program(self) -> str:
        """The kubelet's file."""
        if self.process is not None and self.process.program.endswith(" (deleted)"):
            return f"/proc/{self.process.pid}/exe"
        return self.binary

    @property
    def runtime_program(self) -> str:
        """What would say the runtime's version without crictl."""
        if "crictl" in self.tools:
            return ""
        return "crio" if "crio" in self.endpoint() else "containerd"

    def listed(self) -> list[str]:
        """Folders whose names to list."""
        return [f"{self.root_dir}/pods", "/var/log/pods"]

    def endpoint(self) -> str:
        """The runtime's, as far as it is known before the configuration file is."""
        named = self.paths.endpoint or self.flags.get("container-runtime-endpoint", "")
        if named:
            return named if "://" in named else f"unix://{named}"
        if self.holder == "k3s":
            return "unix:///run/k3s/containerd/containerd.sock"
        if self.holder == "kubelite":
            return "unix:///var/snap/microk8s/common/run/containerd.sock"
        if "crio" in self.processes:
            return "unix:///var/run/crio/crio.sock"
        return "unix:///run/containerd/containerd.sock"

    def cgroup(self, settings: Mapping[str, Any]) -> CgroupFacts:
        """As mounted; the driver as seen, else as configured."""
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


def rancher_flags(texts: Mapping[str, str]) -> dict[str, str]:
    """``kubelet-arg`` of k3s's and RKE2's files, in the order of their paths."""
    words: list[str] = []
    for path in sorted(texts):
        try:
            content = document(texts[path])
        except ValueError:
            continue
        for key, value in content.items():
            if key.rstrip("+") == "kubelet-arg":
                given = value if isinstance(value, list) else [value]
                words = [*(words if key.endswith("+") else []), *map(str, given)]
    return flags_of([f"--{word.lstrip('-')}" for word in words])


def microk8s_flags(text: str) -> dict[str, str]:
    """The file of a daemon's arguments: one a line."""
    return flags_of(text.replace("${SNAP_DATA}", "/var/snap/microk8s/current").split())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
