"""The cgroups of what is reserved: those of the kubelet, and of the rest of the system."""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, guaranteed
from conformance.scenario import Capability, Needs, promised
from conformance.scenarios.abilities import START_ERROR
from conformance.scenarios.sources import ENFORCING
from reference import CPUSet
from reference.kubelet.cpu_quota import cpu_weight, shares_of
from reference.steps import (
    COMPRESSIBLE,
    ENFORCED_ON_PODS,
    KUBE_RESERVED,
    SYSTEM_RESERVED,
    KubeletConfig,
)

_KUBE: Final = "/kube.slice"
_SYSTEM: Final = "/system.slice"
#: What is reserved for each, in thousandths of a CPU.
_MILLI: Final = {_KUBE: 1500, _SYSTEM: 500}
#: Without the calls to its runtime, which no real node shows, only quotas of cgroups are seen.
_CGROUPS: Final = (Capability.POD_CGROUP, Capability.CALLS)
_CAPABILITIES: Final = (*_CGROUPS, Capability.CONFIGURE, Capability.RESERVATION)
_reserved: Final = partial(
    promised,
    ENFORCING,
    area="quotas",
    since="1.32",
    needs=Needs(free=4),
)


def _enforcing(how: str = "", kube: str = _KUBE) -> KubeletConfig:
    return KubeletConfig(
        kube_reserved=f"{_MILLI[_KUBE]}m",
        system_reserved=f"{_MILLI[_SYSTEM]}m",
        kube_reserved_cgroup=kube,
        system_reserved_cgroup=_SYSTEM,
        enforce_node_allocatable=(ENFORCED_ON_PODS, SYSTEM_RESERVED + how, KUBE_RESERVED + how),
    )


@_reserved(capabilities=_CAPABILITIES)
def each_reservation_weighs_its_own_amount(node: LockstepNode) -> None:
    """The cgroups of kubeReserved and of systemReserved weigh what is reserved for each.
    Their CPU time alone is enforced. Under load neither of them takes the part of the other, nor
    that of the pods."""
    node.boot_with(guaranteed("a", 1), config=_enforcing(COMPRESSIBLE))
    for cgroup, milli in _MILLI.items():
        found = node.view.reserved_cgroups.get(cgroup)
        expected, seen = cpu_weight(shares_of(milli)), found and found.weight
        node.promise_equal("It weighs what it reserves", f"weight of {cgroup}", expected, seen)


@_reserved(capabilities=_CAPABILITIES)
def reservations_have_no_cpuset_under_static(node: LockstepNode) -> None:
    """Under the static policy the cgroups of what is reserved keep an empty cpuset.
    They have the CPUs of the cgroup above then: a reservation is an amount, and its daemons may run
    on every CPU, those of exclusive containers too."""
    node.boot_with(guaranteed("a", 1), best_effort("shared"), config=_enforcing())
    for cgroup in _MILLI:
        found = node.view.reserved_cgroups.get(cgroup)
        seen = found and found.cpus
        node.promise_equal("It is empty", f"cpuset of {cgroup}", CPUSet(), seen)


@_reserved(capabilities=(*_CAPABILITIES, *START_ERROR))
def reservation_needs_its_cgroup(node: LockstepNode) -> None:
    """The kubelet does not start if the cgroup of a reservation that it enforces is missing.
    It makes no such cgroup itself, and its error names the one that it has not found."""
    node.boot(_enforcing(kube="/missing.slice"))
    node.promise_refusal("Failed to enforce Kube Reserved", "/missing.slice", "no such file")
