"""What is known of a node: facts as values.

What belongs here: the shape of what :func:`hil.inspection.gather` found, and what follows from it
without asking the node again. What never does: how it is asked (:mod:`hil.inspection.script`), and
what kind of node it is (:mod:`hil.distributions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from conformance.kubelets.settings import deciding, known_gates, memory_manager_in
from reference import NEWEST, CPUSet
from reference.steps import KubeletConfig
from topologies import Machine

_NO_CPUS: Final = CPUSet()


class Survival(Enum):
    """Whether the state file was seen to outlive something; ``UNKNOWN`` is neither."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Unit:
    """A systemd unit that exists on the node, as ``systemctl show`` has it. ``files`` are its own
    file and its drop-ins, by path; ``environment`` is what its files and settings give it."""

    name: str
    active: str
    sub: str
    pid: int = 0
    restarts: int = 0
    command: str = ""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Process:
    """The running process that is, or holds, the kubelet. ``age`` is in seconds."""

    pid: int
    program: str
    arguments: tuple[str, ...]
    cgroup: str = ""
    age: int = 0


@dataclass(frozen=True, slots=True)
class KubeletFacts:
    """The kubelet of a node.

    ``version`` is exact (``"v1.36.3"``; MicroShift has the minor alone), ``release`` its minor
    (``"1.36"``), both ``""`` where it does not say; then ``unsaid`` is why, in one line. ``flags``
    are its command line without the dashes. ``config_path`` is ``""`` where it has no configuration
    file; ``settings`` is what results from file, drop-ins and flags (names of
    KubeletConfiguration). ``state_file`` is the text of the state file at ``state_path``, ``None``
    without one. ``embedded``: it lives inside another program (k3s, RKE2, k0s, MicroK8s).
    ``digest`` is of the program (``"sha256:…"``), ``""`` where it is not known. ``product_files``
    are the files, by path, with which the program that it lives in (k3s, MicroShift) configures it.
    """

    binary: str
    version: str
    release: str
    unit: str
    process: Process | None
    flags: Mapping[str, str]
    config_path: str
    config_text: str = field(repr=False)
    config_dir: str
    drop_ins: Mapping[str, str] = field(repr=False)
    settings: Mapping[str, Any] = field(repr=False)
    root_dir: str
    manifests: str
    state_path: str
    state_file: str | None = field(repr=False)
    embedded: bool = False
    digest: str = ""
    unsaid: str = ""
    product_files: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def policy(self) -> str:
        """``"static"``, ``"none"``: the CPU Manager's policy as configured."""
        return str(self.settings.get("cpuManagerPolicy") or "none")

    @property
    def config(self) -> KubeletConfig:
        """The settings that decide CPUs, as steps state them."""
        config, release = deciding(self.settings), self.release or NEWEST
        gates = known_gates(config.feature_gates, release)
        config = replace(config, feature_gates=gates)
        return config.with_memory_manager_of(memory_manager_in(self.settings, release))


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """The container runtime: ``name`` is ``"containerd"``, ``"cri-o"`` or ``""``; ``endpoint`` the
    kubelet's (``unix:///run/containerd/containerd.sock``)."""

    name: str = ""
    version: str = ""
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class CgroupFacts:
    """``version`` is 1 or 2, 0 where none is mounted. ``driver`` is ``"systemd"`` or
    ``"cgroupfs"``, as seen in the hierarchy, else as configured, else ``""``. ``cpuset`` is whether
    the cpuset controller is there; ``mount`` where its hierarchy is."""

    version: int = 0
    driver: str = ""
    cpuset: bool = False
    mount: str = ""


@dataclass(frozen=True, slots=True)
class Firmware:
    """What DMI says, ``""`` each where it says nothing. Firmware of virtual machines says who
    emulates them."""

    sys_vendor: str = ""
    product_name: str = ""
    product_version: str = ""
    board_vendor: str = ""
    board_name: str = ""
    bios_vendor: str = ""
    bios_version: str = ""
    bios_date: str = ""

    @property
    def hypervisor(self) -> str:
        """Who emulates the machine, as far as its firmware shows it; else ``""``."""
        said = " ".join((self.sys_vendor, self.product_name, self.board_vendor, self.bios_vendor))
        return next((name for sign, name in _HYPERVISORS.items() if sign in said), "")


#: What firmware of virtual machines has in its names (systemd, ``src/basic/virt.c``).
_HYPERVISORS: Final = {
    "KVM": "KVM",
    "QEMU": "QEMU",
    "SeaBIOS": "QEMU",
    "Bochs": "QEMU",
    "VMware": "VMware",
    "VMW": "VMware",
    "innotek GmbH": "VirtualBox",
    "VirtualBox": "VirtualBox",
    "Xen": "Xen",
    "Virtual Machine": "Hyper-V",
    "Google Compute Engine": "Google Compute Engine",
    "OpenStack": "OpenStack",
    "BHYVE": "bhyve",
    "Parallels": "Parallels",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod on the node. ``pinned``: it holds exclusive CPUs according to the state file."""

    uid: str
    namespace: str = ""
    name: str = ""
    pinned: CPUSet = _NO_CPUS


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node at one moment. ``isolated`` and ``nohz_full`` are what the kernel says of them;
    ``tools`` which helpful programs are installed (``crictl``, ``ctr``, ``flock`` …); ``free`` the
    free bytes of file systems, by path; ``leftovers`` the paths that a run before left;
    ``machine`` is without what varies (:mod:`topologies.steady`); ``os_release`` is the name of the
    operating system with its version, ``os_id`` its ``ID``; ``virtual`` what ``systemd-detect-virt
    --vm`` names, ``""`` for nothing; ``distribution`` what the inventory names, ``""`` where it
    names none."""

    name: str
    hostname: str
    kernel: str
    arch: str
    boot_id: str
    uptime: float
    command_line: str
    online: CPUSet
    possible: CPUSet
    isolated: CPUSet
    nohz_full: CPUSet
    systemd: int
    units: Mapping[str, Unit] = field(repr=False)
    kubelet: KubeletFacts | None
    runtime: RuntimeFacts
    cgroup: CgroupFacts
    machine: Machine
    tools: frozenset[str] = frozenset()
    free: Mapping[str, int] = field(default_factory=dict)
    workloads: tuple[Workload, ...] = ()
    places: frozenset[str] = frozenset()
    survives_restart: Survival = Survival.UNKNOWN
    survives_reboot: Survival = Survival.UNKNOWN
    leftovers: tuple[str, ...] = ()
    root: str = ""
    oddities: tuple[str, ...] = ()
    os_release: str = ""
    os_id: str = ""
    firmware: Firmware = Firmware()
    virtual: str = ""
    distribution: str = ""

    @property
    def emulated(self) -> str:
        """Who emulates the machine (``"QEMU"``, ``"kvm"``), ``""`` where it is hardware as far as
        systemd and firmware show it."""
        return self.firmware.hypervisor or self.virtual
