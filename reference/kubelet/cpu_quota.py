"""The CFS quota and shares that a container is created with.

What belongs here: the numbers that the kubelet asks the runtime for. What never does: cgroups.

Up to 1.32 a container is held to its cpu limit whether or not its CPUs are its own
(kubernetes/kubernetes#70585). From 1.33 on one with CPUs of its own has no quota, unless feature
gate DisableCPUQuotaWithExclusiveCPUs is off (until 1.36; 1.37 refuses that). One that shares the
CPUs of its pod keeps its quota. In a pod with pod-level resources a container without a limit has
the pod's. Shares follow the cpu request alone, and the limit where there is none. Updates of a
cpuset name neither, so both stay as they were. With ``cpuCFSQuota: false`` nothing has a quota.
The period is 100 ms unless ``cpuCFSQuotaPeriod`` says otherwise, which takes feature gate
CustomCPUCFSQuotaPeriod (on by default from 1.36 on).
Source: ``kuberuntime_container_linux.go``, ``cm/helpers_linux.go`` (``MilliCPUToQuota``); seen on
kubelets 1.17.17 to 1.37.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from reference.behaviours import Behaviour
from reference.errors import NotModelled
from reference.feature_gates import enabled
from reference.pods.pod import Container, Pod
from reference.pods.quantity import Quantity, milli_value, quantity
from reference.releases import NEWEST, AnyRelease, has
from reference.steps import KubeletConfig
from reference.view import CFS_PERIOD

#: What lifts a quota.
NO_LIMIT: Final = -1
_LEAST: Final = 1_000
_SHARES_OF_A_CPU: Final = 1024
_LEAST_SHARES, _MOST_SHARES = 2, 1 << 18
_GATE: Final = "DisableCPUQuotaWithExclusiveCPUs"
_PERIOD_GATE: Final = "CustomCPUCFSQuotaPeriod"


def cfs_quota(
    container: Container,
    *,
    exclusive: bool,
    feature_gates: Mapping[str, bool] | None = None,
    period: int = CFS_PERIOD,
    release: AnyRelease = NEWEST,
) -> int:
    """Microseconds in each ``period``; :data:`NO_LIMIT`, or 0 where nothing is asked for.
    ``exclusive``: whether the container has CPUs of its own."""
    if exclusive and enabled(_GATE, feature_gates, release=release):
        return NO_LIMIT
    milli = _milli(container.cpu_limit)
    return share_of(period, milli) if milli else 0


def share_of(period: int, milli: int) -> int:
    """The quota of so many thousandths of a CPU, but the least that the kernel takes
    (``MilliCPUToQuota``)."""
    return max(milli * period // 1000, _LEAST)


def quota_period(config: KubeletConfig, *, release: AnyRelease = NEWEST) -> int | None:
    """The period in microseconds that the runtime is asked for; ``None`` where containers have no
    quotas (``cpuCFSQuota``)."""
    if not config.cpu_cfs_quota:
        return None
    on = enabled(_PERIOD_GATE, config.feature_gates, release=release)
    return config.cpu_cfs_quota_period if on else CFS_PERIOD


def faults_of_period(config: KubeletConfig, *, release: AnyRelease = NEWEST) -> list[str]:
    """What the kubelet finds wrong with the period; empty if nothing
    (``ValidateKubeletConfiguration``). Raises :class:`NotModelled` for one that is no whole number
    of milliseconds up to a second."""
    period = config.cpu_cfs_quota_period
    if period not in range(1000, 1_000_000, 1000):
        raise NotModelled(f"a cpuCFSQuotaPeriod of {period} us")
    on = enabled(_PERIOD_GATE, config.feature_gates, release=release)
    if on or period == CFS_PERIOD or not has(release, Behaviour.CFS_PERIOD_GATED):
        return []
    flag = " (--cpu-cfs-quota-period)" if has(release, Behaviour.SETTINGS_LIST_VALUES) else ""
    return [
        f"invalid configuration: cpuCFSQuotaPeriod{flag} {{{period // 1000}ms}} "
        f"requires feature gate {_PERIOD_GATE}"
    ]


def with_limit_of(pod: Pod, container: Container) -> Container:
    """The container with the cpu limit that counts for it: its pod's where it has none
    (``getCPULimit``)."""
    whole = pod.resources
    if whole is None or _milli(container.cpu_limit):
        return container
    return replace(container, cpu_limit=whole.cpu_limit)


def size(pod: Pod, container: Container) -> tuple[Quantity, ...]:
    """What counts as a container's size at a resize: cpu and memory, limits and requests
    (``containerResourcesFromRequirements``)."""
    whole = pod.resources
    memory = container.memory_limit or (whole.memory_limit if whole else None)
    limit = with_limit_of(pod, container).cpu_limit
    asked = (limit, container.requested_cpu, memory, container.requested_memory)
    return tuple(quantity(one or "0") for one in asked)


def cfs_shares(container: Container) -> int:
    """The weight of a container, 1024 for each CPU that it requests; a limit without a request is
    also the request (``MilliCPUToShares``)."""
    request = container.cpu_limit if container.cpu_request is None else container.cpu_request
    shares = _milli(request) * _SHARES_OF_A_CPU // 1000
    return min(max(shares, _LEAST_SHARES), _MOST_SHARES)


def _milli(cpu: str | None) -> int:
    return milli_value(quantity(cpu)) if cpu else 0
