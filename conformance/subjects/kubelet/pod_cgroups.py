"""What kubelets write into the cgroups of a sandbox (:mod:`.inside.cgroups` makes these)."""

from __future__ import annotations

import contextlib
import shutil
from typing import Final

from conformance.subjects.kubelet.inside import OWN_CGROUPS
from conformance.subjects.kubelet.sandbox import Sandbox
from reference.cpuset import CPUSet
from reference.pods.qos import GUARANTEED, qos_class
from reference.steps import RESERVED_CGROUPS, KubeletConfig, Pod
from reference.view import CFS, ReservedCgroup

_PODS: Final = "kubepods"


def path_of(pod: Pod) -> str:
    """The path of a pod's cgroup (``GetPodContainerName``, ``pod_container_manager_linux.go``)."""
    kind = qos_class(pod)
    above = _PODS if kind == GUARANTEED else f"{_PODS}/{kind.lower()}"
    return f"{above}/pod{pod.uid}"


def cfs_of(sandbox: Sandbox, cgroup: str) -> CFS | None:
    """The cgroup's CFS settings; ``None`` if it does not exist. Without a quota its period is
    ignored. A file is empty for a moment while it is written: then the weight is 0, which no cgroup
    has."""
    folder = sandbox.path(f"{OWN_CGROUPS}/{cgroup}")
    try:
        quota, _, period = (folder / "cpu.max").read_text().partition(" ")
        weight = int((folder / "cpu.weight").read_text() or 0)
    except FileNotFoundError:
        return None
    if not period or quota == "max":
        return CFS(None, weight=weight if period else 0)
    return CFS(int(quota), period=int(period), weight=weight)


def pods_weight(sandbox: Sandbox) -> int | None:
    """The weight of the cgroup that all pods are in; ``None`` without one."""
    return _weight_of(sandbox, _PODS)


def burstable_weight(sandbox: Sandbox) -> int | None:
    """The weight of the cgroup that all Burstable pods are in; ``None`` without one."""
    return _weight_of(sandbox, f"{_PODS}/burstable")


def pods_cpus(sandbox: Sandbox) -> CPUSet:
    """The cpuset of the cgroup that all pods are in; empty without one."""
    return _cpus_of(sandbox, _PODS)


def reserved_cgroups(sandbox: Sandbox) -> dict[str, ReservedCgroup]:
    """By name, those in which reservations are enforced."""
    found = {name: cfs_of(sandbox, name.strip("/")) for name in RESERVED_CGROUPS}
    return {
        name: ReservedCgroup(cfs.weight or 0, _cpus_of(sandbox, name.strip("/")))
        for name, cfs in found.items()
        if cfs is not None
    }


def cgroups_of_reservations(config: KubeletConfig) -> set[str]:
    """The paths of the cgroups that are there for what this configuration reserves."""
    named = {config.kube_reserved_cgroup, config.system_reserved_cgroup}
    return {name.strip("/") for name in RESERVED_CGROUPS if name in named}


def _cpus_of(sandbox: Sandbox, cgroup: str) -> CPUSet:
    try:
        return CPUSet.parse(sandbox.path(f"{OWN_CGROUPS}/{cgroup}/cpuset.cpus").read_text().strip())
    except FileNotFoundError:
        return CPUSet()


def _weight_of(sandbox: Sandbox, cgroup: str) -> int | None:
    cfs = cfs_of(sandbox, cgroup)
    return None if cfs is None else cfs.weight


def remove_all(sandbox: Sandbox) -> None:
    """Remove the cgroups of all pods and of reservations, as a reboot does."""
    for name in (_PODS, *RESERVED_CGROUPS):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(sandbox.path(f"{OWN_CGROUPS}/{name.strip('/')}"))
