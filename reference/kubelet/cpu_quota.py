"""The CFS quota and shares that a container is created with.

What belongs here: the numbers that the kubelet asks the runtime for. What never does: cgroups.

Up to 1.32 a container is held to its cpu limit whether or not its CPUs are its own
(kubernetes/kubernetes#70585). From 1.33 on one with CPUs of its own has no quota, unless feature
gate DisableCPUQuotaWithExclusiveCPUs is off (until 1.36; 1.37 refuses that). One that shares the
CPUs of its pod keeps its quota. Shares follow the cpu request alone. Updates of a cpuset name
neither, so both stay as they were.
Source: ``kuberuntime_container_linux.go``, ``cm/helpers_linux.go`` (``MilliCPUToQuota``); seen on
kubelets 1.17.17 to 1.37.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reference.feature_gates import enabled
from reference.pods.pod import Container
from reference.pods.quantity import milli_value, quantity
from reference.releases import NEWEST, AnyRelease

#: ``cpuCFSQuotaPeriod`` in microseconds, where nothing else is set.
PERIOD: Final = 100_000
#: What lifts a quota.
NO_LIMIT: Final = -1
_LEAST: Final = 1_000
_SHARES_OF_A_CPU: Final = 1024
_LEAST_SHARES, _MOST_SHARES = 2, 1 << 18
_GATE: Final = "DisableCPUQuotaWithExclusiveCPUs"


def cfs_quota(
    container: Container,
    *,
    exclusive: bool,
    feature_gates: Mapping[str, bool] | None = None,
    release: AnyRelease = NEWEST,
) -> int:
    """Microseconds in each :data:`PERIOD`; :data:`NO_LIMIT`, or 0 where nothing is asked for.
    ``exclusive``: whether the container has CPUs of its own."""
    if exclusive and enabled(_GATE, feature_gates, release=release):
        return NO_LIMIT
    milli = _milli(container.cpu_limit)
    return max(milli * PERIOD // 1000, _LEAST) if milli else 0


def cfs_shares(container: Container) -> int:
    """The weight of a container, 1024 for each CPU that it requests; a limit without a request is
    also the request (``MilliCPUToShares``)."""
    request = container.cpu_limit if container.cpu_request is None else container.cpu_request
    shares = _milli(request) * _SHARES_OF_A_CPU // 1000
    return min(max(shares, _LEAST_SHARES), _MOST_SHARES)


def _milli(cpu: str | None) -> int:
    return milli_value(quantity(cpu)) if cpu else 0
