"""Every short history on small machines, shortest first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Final

import topologies
from conformance.identifying.history import History
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from differential.kill_matrix import MACHINES, WITH_CACHES, WITH_NODES
from hunting.scope import POD_LEVEL
from reference import Architecture, CPUSet
from reference.behaviours import Behaviour
from reference.releases import has
from reference.steps import (
    Apply,
    AskAllocatable,
    AskPodResources,
    AwaitReconcile,
    Container,
    Delete,
    Kind,
    KubeletConfig,
    Pod,
    PodResources,
    Start,
    Step,
    Stop,
)

_OPTIONS: Final = (
    "full-pcpus-only",
    "distribute-cpus-across-numa",
    "align-by-socket",
    "distribute-cpus-across-cores",
    "strict-cpu-reservation",
    "prefer-align-cpus-by-uncorecache",
)
_GATES: Final = {
    "CPUManagerPolicyOptions": True,
    "CPUManagerPolicyAlphaOptions": True,
    "CPUManagerPolicyBetaOptions": True,
}
_TOPOLOGY_GATES: Final = {
    "TopologyManagerPolicyOptions": True,
    "TopologyManagerPolicyAlphaOptions": True,
}
_WHOLE: Final = PodResources("4", "4", "256Mi", "256Mi")

#: More rounds than those in which a kubelet updates a container for no reason.
_ROUNDS: Final = 6
#: What may happen to a kubelet that runs, beside a restart.
_STEPS: Final[tuple[Step, ...]] = (
    Apply(guaranteed("a", 1)),
    Apply(guaranteed("b", 2)),
    Apply(guaranteed("c", 3)),
    Apply(guaranteed("d", 9)),
    Apply(best_effort("shared")),
    Apply(guaranteed_of("e", [exclusive("init", 2, kind=Kind.INIT), exclusive("app", 2)])),
    Apply(guaranteed_of("f", [exclusive("side", 1, kind=Kind.SIDECAR), exclusive("app", 1)])),
    Apply(Pod("g", (Container("c"),), resources=_WHOLE)),
    Apply(Pod("h", (Container("c"),), resources=PodResources(cpu_limit="2", memory_limit="64Mi"))),
    Apply(Pod("i", (exclusive("c", 1),), resources=PodResources())),
    Apply(Pod("j", (Container("init", kind=Kind.INIT), exclusive("app", 1)))),
    Delete("a"),
    Delete("b"),
    AwaitReconcile(),
    AskPodResources(),
    AskAllocatable(),
)

#: Pods of as many CPUs as an uncore cache, a NUMA node beside a reserved CPU, and more than a node
#: of those machines have.
_LARGE: Final = tuple(Apply(guaranteed(f"of-{count}", count)) for count in (8, 31, 33))


def configs(release: str) -> Iterator[KubeletConfig]:
    """Small configurations that the release may know."""
    reserved = (
        {"reserved_system_cpus": CPUSet([0])}
        if has(release, Behaviour.RESERVED_CPU_LIST)
        else {"system_reserved": "1"}
    )
    yield KubeletConfig(**reserved)
    yield KubeletConfig(system_reserved="1500m")
    yield KubeletConfig()
    yield KubeletConfig("none")
    yield KubeletConfig(
        cpu_cfs_quota_period=10_000, feature_gates={"CustomCPUCFSQuotaPeriod": False}
    )
    for policy in ("best-effort", "restricted", "single-numa-node"):
        yield KubeletConfig(**reserved, topology_manager_policy=policy)
    yield KubeletConfig(**reserved, feature_gates=POD_LEVEL)
    for name, gates in product(_OPTIONS, ({}, _GATES)):
        yield KubeletConfig(**reserved, policy_options={name: "true"}, feature_gates=gates)
    yield KubeletConfig(
        **reserved,
        policy_options={"align-by-socket": "true", "distribute-cpus-across-numa": "true"},
        feature_gates=_GATES,
        topology_manager_policy="best-effort",
    )
    for policy in ("none", "best-effort", "restricted"):
        yield KubeletConfig(
            **reserved,
            topology_manager_policy=policy,
            topology_manager_policy_options={"prefer-closest-numa-nodes": "true"},
            feature_gates=_TOPOLOGY_GATES,
        )


def histories(release: str, depth: int) -> Iterator[History]:
    """A start on every machine of the catalogue that is an x86 one; idle rounds; up to two large
    pods on machines with uncore caches and with several NUMA nodes; and on small machines what
    takes up to ``depth`` steps after the first start; a restart counts as one."""
    for name, policy in product(_x86_machines(), ("static", "none")):
        yield History(name, KubeletConfig(policy, system_reserved="1"), (Start(),))
    idle = (Start(), Apply(best_effort("shared")), *(AwaitReconcile(),) * _ROUNDS)
    yield History(MACHINES[0], KubeletConfig(system_reserved="1"), idle)
    for machine, config in product((WITH_CACHES, WITH_NODES), configs(release)):
        for count in range(3):
            for large in permutations(_LARGE, count):
                yield History(machine, config, (Start(), *large))
    for count in range(depth + 1):
        for machine, config in product(MACHINES, configs(release)):
            for chosen in product((*_STEPS, None), repeat=count):
                yield History(machine, config, (Start(), *_flat(chosen)))


def _x86_machines() -> Iterator[str]:
    for name in topologies.names():
        cpuinfo = topologies.machine(name).tree.get("proc/cpuinfo", "")
        if Architecture.of_cpuinfo(cpuinfo) is Architecture.X86_64:
            yield name


def _flat(chosen: tuple[Step | None, ...]) -> Iterator[Step]:
    for step in chosen:
        if step is None:
            yield from (Stop(), Start())
        else:
            yield step
