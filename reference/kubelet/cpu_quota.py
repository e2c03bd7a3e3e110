"""The CFS quota and shares that a container is created with, and those of the cgroup of its pod.

Up to 1.32 a container is held to its cpu limit whether or not its CPUs are its own
(kubernetes/kubernetes#70585). From 1.33 on one with CPUs of its own has no quota, unless feature
gate DisableCPUQuotaWithExclusiveCPUs is off (until 1.36; 1.37 refuses that). One that shares the
CPUs of its pod keeps its quota. In a pod with pod-level resources a container without a limit has
the pod's. Shares follow the cpu request alone, and the limit where there is none. Updates of a
cpuset name neither, so both stay as they were. With ``cpuCFSQuota: false`` nothing has a quota.
The period is 100 ms unless ``cpuCFSQuotaPeriod`` says otherwise, which takes feature gate
CustomCPUCFSQuotaPeriod (on by default from 1.36 on).

The cgroup of a pod has the quota of all its limits, unless one of its containers has none, and the
shares of all its requests. From 1.33 on a pod has no quota if one of its containers has CPUs of its
own; one with pod-level resources that count, if all of them have. The sandbox of a pod is created
with the quota of the limits that there are, or with none if exclusive CPUs lift the pod's.
Source: ``kuberuntime_container_linux.go``, ``cm/helpers_linux.go`` (``MilliCPUToQuota``,
``ResourceConfigForPod``), ``cm/pod_container_manager_linux.go``,
``kuberuntime_sandbox_linux.go``; seen on kubelets 1.17.17 to 1.37.0, cgroups of pods on 1.32.2,
1.36.4 and 1.37.0, sandboxes on these and on 1.26.15.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from reference.behaviours import Behaviour
from reference.errors import NotModelled
from reference.feature_gates import enabled
from reference.pods.pod import Container, Kind, Pod
from reference.pods.qos import BEST_EFFORT, BURSTABLE, pod_milli_cpus, qos_class, total_request
from reference.pods.quantity import Quantity, milli_value, quantity
from reference.releases import NEWEST, AnyRelease, has, minor_of
from reference.steps import KubeletConfig
from reference.view import CFS, CFS_PERIOD

#: What lifts a quota.
NO_LIMIT: Final = -1
_LEAST: Final = 1_000
_SHARES_OF_A_CPU: Final = 1024
_LEAST_SHARES, _MOST_SHARES = 2, 1 << 18
_GATE: Final = "DisableCPUQuotaWithExclusiveCPUs"
_PERIOD_GATE: Final = "CustomCPUCFSQuotaPeriod"
#: The first minor release that looks at the limit of each container alone.
_LIMITS_ONE_BY_ONE_SINCE: Final = 37


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
    """The quota of ``milli`` thousandths of a CPU, and not below the least that the kernel takes
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


def size(pod: Pod, container: Container) -> Mapping[str, tuple[Quantity, Quantity]]:
    """What counts as a container's size at a resize: limit and request of ``cpu`` and ``memory``
    (``containerResourcesFromRequirements``)."""
    whole = pod.resources
    memory = container.memory_limit or (whole.memory_limit if whole else None)
    cpu = with_limit_of(pod, container).cpu_limit
    return {
        "cpu": (quantity(cpu or "0"), quantity(container.requested_cpu or "0")),
        "memory": (quantity(memory or "0"), quantity(container.requested_memory or "0")),
    }


def cfs_shares(container: Container) -> int:
    """The weight of a container, 1024 for each CPU that it requests; a limit without a request is
    also the request."""
    request = container.cpu_limit if container.cpu_request is None else container.cpu_request
    return shares_of(_milli(request))


def shares_of(milli: int) -> int:
    """The shares of ``milli`` thousandths of a CPU (``MilliCPUToShares``)."""
    return min(max(milli * _SHARES_OF_A_CPU // 1000, _LEAST_SHARES), _MOST_SHARES)


def pod_cfs(
    pod: Pod,
    *,
    exclusive: bool,
    feature_gates: Mapping[str, bool],
    period: int | None,
    release: AnyRelease,
) -> CFS:
    """The processor time of a pod's cgroup as it is made (``ResourceConfigForPod``); ``exclusive``
    and ``period`` as above, ``None`` without quotas."""
    asks_for_any = qos_class(pod) != BEST_EFFORT
    shares = shares_of(pod_milli_cpus(pod) if asks_for_any else 0)
    limit = _pod_limit(pod, release) if asks_for_any else 0
    lifted = exclusive and enabled(_GATE, feature_gates, release=release)
    if period is None or lifted or not limit:
        return CFS(None, shares, weight=cpu_weight(shares))
    return CFS(share_of(period, limit), shares, period, cpu_weight(shares))


def sandbox_quota(
    pod: Pod,
    *,
    exclusive: bool,
    feature_gates: Mapping[str, bool],
    period: int | None,
    release: AnyRelease,
) -> int | None:
    """The quota in microseconds that the runtime is told when it creates the sandbox of a pod
    (``calculateSandboxResources``): that of all its limits, though a container may have none;
    ``None`` without one. Arguments as of :func:`pod_cfs`."""
    whole = _milli(pod.resources.cpu_limit) if pod.resources is not None else 0
    limit = whole or total_request(pod, lambda one: _milli(one.cpu_limit))
    lifted = exclusive and enabled(_GATE, feature_gates, release=release)
    return None if period is None or lifted or not limit else share_of(period, limit)


def resized(before: CFS, after: CFS) -> CFS:
    """The processor time of a pod's cgroup that was made with ``before``, once the pod was resized
    to ``after``: an equal quota is not written, and so keeps its period. Shares are read from the
    weight, and not written if those are equal (``doPodResizeAction``)."""
    period = before.period if before.quota == after.quota else after.period
    is_equal = before.weight is not None and _shares_read(before.weight) == after.shares
    weight = before.weight if is_equal else after.weight
    return replace(after, period=period, weight=weight)


def _pod_limit(pod: Pod, release: AnyRelease) -> int:
    """The cpu limit in thousandths; 0 where a container has no limit, and the pod has none. Up to
    1.36 the limits of the sidecars before them count for init containers, too."""
    if pod.resources is not None and _milli(pod.resources.cpu_limit):
        return _milli(pod.resources.cpu_limit)
    one_by_one = minor_of(release) >= _LIMITS_ONE_BY_ONE_SINCE
    of_sidecars = 0
    for one in pod.containers:
        limit = _milli(one.cpu_limit)
        covered = one.kind is not Kind.APP and not one_by_one and of_sidecars
        if not limit and not covered:
            return 0
        of_sidecars += limit if one.kind is Kind.SIDECAR else 0
    return total_request(pod, lambda one: _milli(one.cpu_limit))


def burstable_weight(pods: Iterable[Pod]) -> int:
    """The weight of the cgroup that all Burstable pods are in, where these pods are active
    (``setCPUCgroupConfig``)."""
    burstable = (pod for pod in pods if qos_class(pod) == BURSTABLE)
    return cpu_weight(shares_of(sum(map(pod_milli_cpus, burstable))))


def cpu_weight(shares: int) -> int:
    """``cpu.weight`` of ``shares`` (``getCPUWeight``)."""
    return 1 + (shares - 2) * 9999 // 262142


def _shares_read(weight: int) -> int:
    """``cpuWeightToCPUShares``: seldom those that the weight was made of."""
    return (weight - 1) * 262142 // 9999 + 2


def _milli(cpu: str | None) -> int:
    return milli_value(quantity(cpu)) if cpu else 0
