"""CFS quotas and shares: beside exclusive CPUs, with another period, with pod-level resources."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import burstable, exclusive, guaranteed
from conformance.scenario import Capability, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import QUOTAS
from conformance.scenarios.containers import QUOTA_GATE
from conformance.scenarios.entering import core, refused, row
from conformance.scenarios.outcomes import configured_quota, promise_quota, promise_running
from conformance.scenarios.pod_level_parts import managed, of_managers, pod_of, shared
from reference.kubelet.cpu_quota import shares_of
from reference.steps import Container, KubeletConfig, Pod
from reference.view import CFS

PERIOD: Final = sources.documentation(
    "Kubelet Configuration: cpuCFSQuotaPeriod", "reference/config-api/kubelet-config.v1beta1/"
)
SWITCH: Final = sources.documentation(
    "Kubelet Configuration: cpuCFSQuota", "reference/config-api/kubelet-config.v1beta1/"
)
WEIGHTS: Final = sources.documentation(
    "Resource Management for Pods and Containers: a cpu request is a weight",
    "concepts/configuration/manage-resources-containers/#how-pods-with-resource-limits-are-run",
)
PERIOD_GATE: Final = sources.pull(136339, "feature gate CustomCPUCFSQuotaPeriod is on by default")
PERIOD_TESTS: Final = sources.tests(
    "cpu_manager_test.go#L1895", "a non-default CPU CFS quota period"
)
SANDBOXES: Final = sources.code(
    "1.36.4",
    "pkg/kubelet/kuberuntime/kuberuntime_sandbox_linux.go",
    "the sandbox of a pod with exclusive CPUs has no CFS quota",
)
POD_LEVEL_TESTS: Final = sources.tests(
    "cpu_manager_test.go#L2869", "CPU quotas of pods with pod-level resources"
)

#: Microseconds.
_HALF: Final = 50_000
_SHORT: Final = 10_000
_LEAST: Final = 1_000


def _with_period(node: LockstepNode, *, gate: bool = True, period: int = _HALF) -> KubeletConfig:
    config = node.default_config()
    gates = {**config.feature_gates, "CustomCPUCFSQuotaPeriod": True} if gate else {}
    return replace(config, cpu_cfs_quota=True, cpu_cfs_quota_period=period, feature_gates=gates)


def _promise_of_period(node: LockstepNode, rule: str, owner: str, quota: int) -> None:
    """Promise a quota in the period that is configured."""
    pod, container = owner.split("/")
    seen = node.view.cfs.get(pod, {}).get(container, CFS(None))
    node.promise_equal(rule, f"CFS quota of {owner}", quota, seen.quota)
    what, period = f"period of the CFS quota of {owner} in microseconds", seen.period
    expected = node.config.cpu_cfs_quota_period
    node.promise_equal("It is of the configured period", what, expected, period)


@promised(
    WEIGHTS, area="quotas", since="1.26", needs=Needs(free=2),
    capabilities=(*QUOTAS, Capability.CALLS),
)  # fmt: skip
def request_of_zero_weighs_least(node: LockstepNode) -> None:
    """The CFS shares of a container are those of its cpu request, though that be 0.
    Its limit counts where it requests nothing. A container with neither has the least shares."""
    sizes = {"zero": ("0", "1"), "some": ("100m", "1"), "limited": (None, "500m")}
    containers = [Container(name, cpu_request=a, cpu_limit=b) for name, (a, b) in sizes.items()]
    node.boot_with(Pod("b", (*containers, Container("none"))))
    rule = "They are those of its request"
    for name, milli in (("zero", 0), ("some", 100), ("limited", 500), ("none", 0)):
        seen = node.view.cfs.get("b", {}).get(name, CFS(None)).shares
        node.promise_equal(rule, f"CFS shares of b/{name}", shares_of(milli), seen)


@promised(
    SANDBOXES, area="quotas", since="1.33", needs=Needs(free=3),
    capabilities=(*QUOTAS, Capability.CALLS),
)  # fmt: skip
def sandbox_of_exclusive_cpus_has_no_quota(node: LockstepNode) -> None:
    """The sandbox of a pod with exclusive CPUs is created without a CFS quota.
    Also where another container of the pod shares CPUs. The sandbox of a pod without exclusive CPUs
    gets the quota of all its limits. A runtime that runs pods in virtual machines sizes them by
    that."""
    node.boot_with(guaranteed("a", 1), guaranteed("mixed", 1, "500m"))
    node.apply(Pod("b", (Container("one", "100m", "500m"), Container("two", "100m", "1"))))
    for pod, milli in (("a", None), ("mixed", None), ("b", 1500)):
        expected = configured_quota(node, milli)
        rule = "It has none" if milli is None else "It has that of all its limits"
        seen = node.view.sandbox_quotas.get(pod, "(not there)")
        node.promise_equal(rule, f"CFS quota of the sandbox of {pod}", expected, seen)


@promised(QUOTA_GATE, area="containers", since="1.33", needs=Needs(free=2), capabilities=QUOTAS)
def quotas_end_at_exclusive_cpus(node: LockstepNode) -> None:
    """A container with exclusive CPUs has no CFS quota, and one beside it has that of its limit.
    A quota would throttle what has its CPUs alone. Each container is judged by itself, the pod
    is Guaranteed as a whole."""
    node.boot_with(guaranteed("mixed", 1, "1500m"))
    promise_quota(node, "Who has exclusive CPUs has no quota", "mixed/c1", None)
    promise_quota(node, "Who shares has the quota of its limit", "mixed/c2", 1500)


@promised(
    PERIOD_TESTS, area="quotas", needs=Needs(free=2), capabilities=(*QUOTAS, Capability.CONFIGURE)
)
def custom_period_is_used(node: LockstepNode) -> None:
    """With another cpuCFSQuotaPeriod quotas are of that period.
    In a Guaranteed pod and in a Burstable one."""
    node.boot(_with_period(node))
    node.apply(guaranteed("a", "500m"))
    node.apply(burstable("b", request="100m", limit="500m"))
    for owner in ("a/c", "b/c"):
        _promise_of_period(node, "Half a CPU is half of each period", owner, _HALF // 2)


@promised(
    PERIOD_TESTS, area="quotas", needs=Needs(free=2), capabilities=(*QUOTAS, Capability.CONFIGURE)
)
def short_period_has_the_least_quota(node: LockstepNode) -> None:
    """With a short cpuCFSQuotaPeriod too no quota is below one millisecond, the kernel's least.
    A twentieth of a CPU would be half a millisecond of ten."""
    node.boot(_with_period(node, period=_SHORT))
    node.apply(burstable("b", request="50m", limit="50m"))
    _promise_of_period(node, "The quota is the least that the kernel takes", "b/c", _LEAST)


@promised(
    PERIOD, area="quotas", since="1.33", needs=Needs(free=4),
    capabilities=(*QUOTAS, Capability.CONFIGURE),
)  # fmt: skip
def custom_period_spares_exclusive_cpus(node: LockstepNode) -> None:
    """With another cpuCFSQuotaPeriod a container with exclusive CPUs has no CFS quota either.
    Up to 1.32 it has one. The fraction beside it keeps its own."""
    node.boot_with(guaranteed("a", 2, "1500m"), config=_with_period(node))
    promise_quota(node, "It has no quota", "a/c1", None)
    _promise_of_period(node, "The fraction has one", "a/c2", _HALF * 3 // 2)


@core(SWITCH, area="quotas", needs=Needs(free=2), capabilities=(*QUOTAS, Capability.CONFIGURE))
def none_where_switched_off(node: LockstepNode) -> None:
    """With cpuCFSQuota false no container has a CFS quota.
    Whether it has CPUs of its own, shares them in a Guaranteed pod, or is Burstable."""
    node.boot(replace(node.default_config(), cpu_cfs_quota=False))
    node.apply(guaranteed("a", 1, "500m"))
    node.apply(burstable("b", request="100m", limit="500m"))
    for owner in ("a/c1", "a/c2", "b/c"):
        promise_quota(node, "It has no quota", owner, None)


refused(
    "quotas/gateless-period-is-refused",
    "Up to 1.35 another cpuCFSQuotaPeriod takes a feature gate for the kubelet to start",
    PERIOD_GATE,
    "CustomCPUCFSQuotaPeriod, alpha up to there and on by default from 1.36 on.",
    lambda node: _with_period(node, gate=False),
    "cpuCFSQuotaPeriod",
    "requires feature gate CustomCPUCFSQuotaPeriod",
    since="1.20", until="1.35", beyond=(Capability.CFS, Capability.CONFIGURE),
)  # fmt: skip


_pod_level: Final = partial(of_managers, area="quotas", source=POD_LEVEL_TESTS, capabilities=QUOTAS)


def _keeps_shared_quotas(node: LockstepNode, scope: str) -> None:
    node.boot(managed(node, scope=scope))
    limited = Container("limited", cpu_request="0", cpu_limit="1")
    node.run(pod_of("a", 3, exclusive("main", 1), limited, shared("side")))
    promise_quota(node, "It has the quota of its limit", "a/limited", 1000)
    promise_quota(node, "It has the quota of its pod", "a/side", 3000)


@_pod_level()
def pod_scope_lifts_exclusive_quotas(node: LockstepNode) -> None:
    """Under scope pod an exclusive container of a pod with pod-level resources has no CFS quota.
    Whether it has all CPUs of its pod or some of them."""
    node.boot(managed(node))
    node.apply(pod_of("whole", 1, exclusive("main", 1)))
    node.apply(pod_of("parted", 3, exclusive("main", 2), shared("side")))
    for pod in ("whole", "parted"):
        promise_running(node, pod)
        promise_quota(node, "It has no quota", f"{pod}/main", None)


row(
    "quotas/pod-scope-keeps-shared-quotas",
    "Under scope pod a container that shares its pod's CPUs has the CFS quota of its limit",
    "Of its pod's limit where it has none itself.",
    lambda node: _keeps_shared_quotas(node, "pod"),
    enter=_pod_level,
)  # fmt: skip


@_pod_level()
def container_scope_lifts_exclusive_quotas(node: LockstepNode) -> None:
    """Under scope container an exclusive container of a pod with pod-level resources has no quota.
    As any other container with exclusive CPUs."""
    node.boot(managed(node, scope="container"))
    node.run(pod_of("a", 2, exclusive("main", 1), shared("side")))
    promise_quota(node, "It has no quota", "a/main", None)


row(
    "quotas/container-scope-keeps-shared-quotas",
    "Under scope container the shared containers of a pod with pod-level resources have a quota",
    "That of their own limit, or of their pod's where they have none.",
    lambda node: _keeps_shared_quotas(node, "container"),
    enter=_pod_level,
)  # fmt: skip
