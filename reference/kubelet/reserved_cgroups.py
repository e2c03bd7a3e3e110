"""The cgroups of what is reserved: which a kubelet finds, and what it writes into them.

What belongs here: ``enforceNodeAllocatable`` for the reservations of the kubelet and of the system
(``enforceNodeAllocatableCgroups``, ``node_container_manager_linux.go``). What never does: the
cgroup of all pods (``startup``), and how an amount becomes a weight (``cpu_quota``).
"""

from __future__ import annotations

from typing import Final

from reference.cpuset import CPUSet
from reference.errors import NotModelled, StartupError
from reference.kubelet.container_manager import models_pod_cgroups
from reference.kubelet.cpu_quota import cpu_weight, shares_of
from reference.kubelet.runtime import Runtime
from reference.pods.quantity import milli_value, quantity
from reference.releases import AnyRelease
from reference.steps import (
    COMPRESSIBLE,
    ENFORCED_ON_PODS,
    KUBE_RESERVED,
    RESERVED_CGROUPS,
    SYSTEM_RESERVED,
    KubeletConfig,
)
from reference.view import ReservedCgroup

#: In the order in which a kubelet enforces them.
_ORDER: Final = (
    SYSTEM_RESERVED,
    KUBE_RESERVED,
    SYSTEM_RESERVED + COMPRESSIBLE,
    KUBE_RESERVED + COMPRESSIBLE,
)


def require_modelled_cgroups(config: KubeletConfig, release: AnyRelease) -> None:
    """Raise :class:`NotModelled` where the cgroups of reservations are configured in a way that
    the kubelet refuses or that was not looked at: only CPU time is enforced here."""
    enforced = set(config.enforce_node_allocatable) - {ENFORCED_ON_PODS}
    named = (config.system_reserved_cgroup, config.kube_reserved_cgroup)
    if not enforced and named == (None, None):
        return
    if not models_pod_cgroups(release):
        raise NotModelled(f"cgroups of reservations, by release {release}")
    if config.reserved_system_cpus is not None:
        raise NotModelled("cgroups of reservations beside reservedSystemCPUs")
    if config.memory_manager_policy != "None":
        raise NotModelled("cgroups of reservations beside a reservation of memory")
    bases = [level.removesuffix(COMPRESSIBLE) for level in config.enforce_node_allocatable]
    if ENFORCED_ON_PODS not in bases or len(bases) != len(set(bases)) or not enforced <= {*_ORDER}:
        raise NotModelled(f"enforceNodeAllocatable {' '.join(config.enforce_node_allocatable)}")
    if any(_cgroup_and_amount(level, config)[0] is None for level in enforced):
        raise NotModelled("a reservation that is enforced without a cgroup")


def enforce_reservations(config: KubeletConfig, runtime: Runtime, cpus: CPUSet) -> None:
    """Write what is reserved into the cgroups in which it is enforced; ``cpus``: their cpuset, if
    it is not empty. Raises :class:`StartupError` where nothing is reserved, and for a cgroup that
    does not exist."""
    for level in _ORDER:
        cgroup, amount = _cgroup_and_amount(level, config)
        if level not in config.enforce_node_allocatable or cgroup is None:
            continue
        if amount is None or cgroup not in RESERVED_CGROUPS:
            raise StartupError(_refusal(level, cgroup, reserves=amount is not None))
        before = runtime.reserved_cgroups.get(cgroup, ReservedCgroup())
        weight = cpu_weight(shares_of(milli_value(quantity(amount))))
        runtime.reserved_cgroups[cgroup] = ReservedCgroup(weight, cpus or before.cpus)


def _cgroup_and_amount(level: str, config: KubeletConfig) -> tuple[str | None, str | None]:
    if level.startswith(KUBE_RESERVED):
        return config.kube_reserved_cgroup, config.kube_reserved
    return config.system_reserved_cgroup, config.system_reserved


def _refusal(level: str, cgroup: str, *, reserves: bool) -> str:
    """``reserves``: whether an amount is reserved, so that it is the cgroup that is missing."""
    kind = "Kube Reserved" if level.startswith(KUBE_RESERVED) else "System Reserved"
    how = " Compressible" if level.endswith(COMPRESSIBLE) else ""
    path = cgroup.strip("/")
    listed = '["' + path.replace("/", '" "') + '"]'
    why = (
        f"could not read controllers for cgroup {listed}: "
        f"open /sys/fs/cgroup/{path}/cgroup.controllers: no such file or directory"
        if reserves
        else f"{listed} cgroup is not configured properly"
    )
    return f'Failed to enforce {kind}{how} Cgroup Limits on "{cgroup}": {why}'
