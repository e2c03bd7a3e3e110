"""Guards: what is refused before anything is done."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

from hil.changes import Change, InstallFile, SetOnline
from hil.inspection import NodeFacts, Workload
from hil.safety.risk import Allow, Risk
from hil.shell import NodeUnfit
from reference import CPUSet, NotEnoughCPUs, discover, take_by_topology
from reference.pods.quantity import quantity

#: Namespaces of pods that a distribution puts on every node; sonobuoy's are pinproof's own.
_SYSTEM: Final = (
    "kube-", "openshift-", "calico-", "tigera-", "cilium", "metallb-", "local-path-storage",
    "sonobuoy",
)  # fmt: skip
OURS: Final = "pinproof-"
#: Namespaces of pods that are the way to a node (:mod:`hil.transport.kube.pod`).
_WAYS: Final = "pinproof-transport-"


def foreign(facts: NodeFacts) -> tuple[Workload, ...]:
    """Pods of others: neither the system's nor pinproof's, also those of unknown namespace."""
    return tuple(
        one
        for one in facts.workloads
        if not one.namespace.startswith((*_SYSTEM, _WAYS)) and not one.name.startswith(OURS)
    )


def check_workloads(
    facts: NodeFacts, risk: Risk, *, allow: Iterable[Allow] = (), static_pods: bool = False
) -> None:
    """Raises :class:`NodeUnfit` where the node runs what ``risk`` would disturb. Pods through an
    API server disturb no pod; for static pods the kubelet evicts others."""
    others = foreign(facts)
    allowed = frozenset(allow)
    if not others or risk is Risk.READ_ONLY:
        return
    names = ", ".join(_name_of(one) for one in others[:3]) + (" …" if len(others) > 3 else "")
    if risk > Risk.PODS and Allow.FOREIGN_WORKLOADS not in allowed:
        raise NodeUnfit(
            f"{facts.name}: {risk.value} would disturb {len(others)} pods of others ({names}): "
            f'allow = ["{Allow.FOREIGN_WORKLOADS.value}"] in the inventory permits it'
        )
    if static_pods and not allowed & {Allow.STATIC_PODS, Allow.FOREIGN_WORKLOADS}:
        raise NodeUnfit(
            f"{facts.name}: the kubelet evicts pods of others ({names}) for static pods: give a "
            f'kubeconfig, or allow = ["{Allow.STATIC_PODS.value}"]'
        )


def _name_of(one: Workload) -> str:
    return f"{one.namespace}/{one.name}" if one.name else one.uid


def reserved(facts: NodeFacts) -> CPUSet:
    """The CPUs that the kubelet keeps for the system: named ones, else as many as the reserved
    quantities amount to, chosen as it does."""
    kubelet = facts.kubelet
    if kubelet is None:
        return CPUSet()
    config = kubelet.config
    if config.reserved_system_cpus is not None:
        return config.reserved_system_cpus
    amounts = (config.system_reserved, config.kube_reserved)
    wanted = math.ceil(sum((quantity(one) for one in amounts if one), Fraction()))
    topology = discover(facts.machine.tree).cpu_topology()
    try:
        return take_by_topology(topology, topology.cpus, wanted)
    except NotEnoughCPUs:
        return topology.cpus


def check_changes(facts: NodeFacts, risk: Risk, changes: Sequence[Change]) -> None:
    """Raises :class:`NodeUnfit` for a change that is not permitted."""
    if changes and risk is Risk.READ_ONLY:
        raise NodeUnfit(f"{facts.name}: a read-only run changes nothing: needs --max-risk pods")
    if risk < Risk.KUBELET_RESTART and any(isinstance(one, InstallFile) for one in changes):
        raise NodeUnfit(f"{facts.name}: replacing a program needs --max-risk kubelet-restart")
    offline = [one.cpu for one in changes if isinstance(one, SetOnline) and not one.online]
    if not offline:
        return
    if risk < Risk.CPU_OFFLINE:
        raise NodeUnfit(f"{facts.name}: taking CPUs offline needs --max-risk cpu-offline")
    for cpu in offline:
        if reason := _why_not(facts, cpu):
            raise NodeUnfit(f"{facts.name}: CPU {cpu} stays online: {reason}")


def _why_not(facts: NodeFacts, cpu: int) -> str:
    if cpu == 0:
        return "it is CPU 0"
    if cpu in reserved(facts):
        return "it is reserved for the system"
    for one in facts.workloads:
        if cpu in one.pinned and not one.name.startswith(OURS):
            return f"it belongs to {_name_of(one)}"
    return ""
