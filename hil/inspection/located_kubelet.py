"""Where a node's kubelet is: its process, unit and files, as far as the first answer shows them."""

from __future__ import annotations

from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

from hil.inspection.host_answer import HostAnswer
from hil.inspection.kubelet import expanded, flags_of, k0s_flags
from hil.inspection.node import Process
from hil.inspection.paths import KubeletPaths
from hil.inspection.script import HOLDER_OF_UNIT, Question, second_question

#: Programs that a kubelet lives in, by the beginning of the process's name.
_HOLDERS: Final = ("kubelet", "kubelite", "k3s", "microshift", "hyperkube")
MICROK8S_ARGUMENTS: Final = "/var/snap/microk8s/current/args/kubelet"
_ROOT_DIRS: Final = {"kubelite": "/var/snap/microk8s/common/var/lib/kubelet"}
_K0S_CONFIGS: Final = ("/run/k0s/kubelet/config.yaml", "/var/lib/k0s/kubelet-config.yaml")
#: MicroShift writes it at each start (its ``pkg/node/kubelet.go``).
_MICROSHIFT_CONFIG: Final = "/var/lib/microshift/resources/kubelet/config/config.yaml"
_CONFIG_DIRS: Final = {"k3s": "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"}
#: The file with which a program configures its kubelet, and the folder beside it.
_PRODUCT: Final = {
    "k3s": ("/etc/rancher/k3s/config.yaml", "/etc/rancher/k3s/config.yaml.d"),
    "microshift": ("/etc/microshift/config.yaml", "/etc/microshift/config.d"),
}


class LocatedKubelet:
    """The kubelet of a host. ``paths``, which the user states, override what is found."""

    def __init__(self, host: HostAnswer, paths: KubeletPaths) -> None:
        self._host = host
        self.paths = paths

    @cached_property
    def process(self) -> Process | None:
        """The process that is the kubelet, or that contains it."""
        for holder in _HOLDERS:
            for name, process in self._host.processes.items():
                if name.startswith(holder):
                    return process
        return None

    @property
    def holder(self) -> str:
        """``"kubelet"``, or the program that it lives in."""
        for holder in _HOLDERS:
            if any(name.startswith(holder) for name in self._host.processes):
                return holder
        return HOLDER_OF_UNIT.get(self.unit, "kubelet")

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
        return next((unit for unit in HOLDER_OF_UNIT if unit in self._host.units), "")

    @cached_property
    def flags(self) -> dict[str, str]:
        """The kubelet's, from the running process, else from the unit that would start it."""
        if self.process is not None and self.holder in ("kubelet", "hyperkube"):
            return flags_of(self.process.arguments)
        unit = self._host.units.get(self.unit)
        if unit and self.unit.startswith("k0s"):
            return self._of_k0s | k0s_flags(unit.files.values())
        words = expanded(unit.command, unit.environment)[1:] if unit else []
        if self.holder == "kubelet":
            return flags_of(words)
        # k3s and products like it pass these on.
        through = [word for word in words if word.startswith("--kubelet-arg=")]
        return flags_of([f"--{word.partition('=')[2]}" for word in through])

    @property
    def _of_k0s(self) -> dict[str, str]:
        """The flags that k0s itself gives to its kubelet, as far as files show them."""
        there = [path for path in _K0S_CONFIGS if path in self._host.places]
        return {"root-dir": "/var/lib/k0s/kubelet"} | ({"config": there[0]} if there else {})

    @property
    def exists(self) -> bool:
        """Whether there is a kubelet at all, running or not."""
        return self.process is not None or self.unit in self._host.units or bool(self.paths.binary)

    @property
    def binary(self) -> str:
        """Its program, ``""`` where that is not known."""
        if self.paths.binary:
            return self.paths.binary
        if self.process is not None:
            return self.process.program.removesuffix(" (deleted)")
        unit = self._host.units.get(self.unit)
        return unit.command.split()[0] if unit and unit.command else ""

    @property
    def root_dir(self) -> str:
        """Absolute."""
        default = _ROOT_DIRS.get(self.holder, "/var/lib/kubelet")
        return (self.paths.root_dir or self.flags.get("root-dir", "") or default).rstrip("/")

    @property
    def config_path(self) -> str:
        """``""`` without one."""
        given = _MICROSHIFT_CONFIG if self.holder == "microshift" else self.flags.get("config", "")
        return self.paths.config or given

    @property
    def config_dir(self) -> str:
        """``""`` without one."""
        return self.flags.get("config-dir", "") or _CONFIG_DIRS.get(self.holder, "")

    @property
    def state_path(self) -> str:
        return f"{self.root_dir}/cpu_manager_state"

    @property
    def product_files(self) -> tuple[str, str]:
        """The file and the folder that the program around it takes the kubelet's arguments or
        configuration from; ``""`` each where there is none."""
        return _PRODUCT.get(self.holder, ("", ""))

    @property
    def arguments_file(self) -> str:
        """The file that MicroK8s takes the kubelet's arguments from."""
        return MICROK8S_ARGUMENTS if self.holder == "kubelite" else ""

    @property
    def program(self) -> str:
        """The kubelet's file."""
        # Outside of a service it may run in a container (Talos): its path is another file's then.
        gone = self.process is not None and self.process.program.endswith(" (deleted)")
        if self.process is not None and (gone or not self.unit):
            return f"/proc/{self.process.pid}/exe"
        return self.binary

    @property
    def endpoint(self) -> str:
        """The runtime's, as far as it is known before the configuration file is."""
        named = self.paths.endpoint or self.flags.get("container-runtime-endpoint", "")
        if named:
            return named if "://" in named else f"unix://{named}"
        if self.holder == "k3s":
            return "unix:///run/k3s/containerd/containerd.sock"
        if self.holder == "microshift":
            return "unix:///var/run/crio/crio.sock"
        if self.holder == "kubelite":
            return "unix:///var/snap/microk8s/common/run/containerd.sock"
        if "crio" in self._host.processes:
            return "unix:///var/run/crio/crio.sock"
        return "unix:///run/containerd/containerd.sock"

    def question(self, root: str) -> Question:
        """What to ask next of the node whose ``/`` lies at ``root``."""
        # crictl reports the runtime's version; without crictl, the runtime's program does.
        own_file, own_folder = self.product_files
        runtime = "crio" if "crio" in self.endpoint else "containerd"
        return second_question(
            root,
            files=[self.config_path, self.state_path, own_file, self.arguments_file],
            folders=[self.config_dir, own_folder],
            # The program that runs may not be the one on disk any more.
            programs=[self.program, "" if "crictl" in self._host.tools else runtime],
            summed=self.program,
            listed=[f"{self.root_dir}/pods", "/var/log/pods"],
            endpoint=self.endpoint,
        )
