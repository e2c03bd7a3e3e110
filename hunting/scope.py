"""What is searched: machines and configurations.

What belongs here: the tasks of a scope. What never does: histories on them (``moves``).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Final

from hunting.families import configured
from reference import CPUSet, Release
from reference.behaviours import Behaviour
from reference.cpumanager.policy_options import BY_SOCKET, OPTIONS, StaticOptions
from reference.errors import ConfigurationError
from reference.feature_gates import ALPHA, enabled, readiness
from reference.releases import has
from reference.steps import KubeletConfig
from topologies import BadSpec, describe

TOPOLOGY_POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
#: The feature gates with which a kubelet assigns CPUs to whole pods.
POD_LEVEL: Final = {"PodLevelResources": True, "PodLevelResourceManagers": True}
_ALPHA_OPTIONS: Final = "CPUManagerPolicyAlphaOptions"

#: How many searches a campaign of random walks has.
DRAWN: Final = 20_000


@dataclass(frozen=True, slots=True)
class Task:
    """One search: a release, a machine by its spec, and a configuration. ``others``: the releases
    whose kubelets may take over."""

    release: str
    machine: str
    config: KubeletConfig
    others: tuple[str, ...] = ()

    def taken_over(self, release: str) -> Task:
        """The task once this release has taken over. The others may take over from it."""
        others = sorted({*self.others, self.release} - {release}, key=Release.parse)
        return replace(self, release=release, others=tuple(others))

    def __str__(self) -> str:
        return f"{self.release}, {self.machine}, {self.config}"


@lru_cache
def regular(most: int) -> tuple[str, ...]:
    """Every regular machine of 2 to ``most`` CPUs: equal sockets, NUMA nodes and cores, threads
    numbered as x86 kernels do, one L3 for each NUMA node. Up to 8 CPUs these are 55."""
    shapes = [
        f"{sockets}s-{nodes}n-{cores}c-smt{threads}"
        for threads in (1, 2, 4, 8)
        for cores in range(1, most // threads + 1)
        for sockets in range(1, cores + 1)
        for nodes in range(sockets, cores + 1)
        if nodes % sockets == 0 and cores % nodes == 0 and cores * threads > 1
    ]
    return tuple(sorted(shapes, key=lambda shape: (_processors(shape), shape)))


def _processors(shape: str) -> int:
    return describe(shape).tree["proc/cpuinfo"].count("processor")


@lru_cache
def uneven(most: int) -> tuple[str, ...]:
    """Machines of at most ``most`` CPUs that are uneven in one way: a CPU offline, small cores,
    neighbouring threads, several uncore caches in a NUMA node, or NUMA nodes of unequal size."""
    specs = []
    for threads in (1, 2):
        for cores in range(2, most // threads + 1):
            for totals in ("1s-1n", "1s-2n", "2s-2n", "1s-3n"):
                last = cores * threads - 1
                for suffix in ("", "-near", "-l3x2", f"-off{last}", "-e2", "-near-l3x2"):
                    specs.append(f"{totals}-{cores}c-smt{threads}{suffix}")
    known = set(regular(most))
    return tuple(
        dict.fromkeys(name for spec in specs if (name := _canonical(spec)) not in known and name)
    )


def _canonical(spec: str) -> str:
    try:
        return describe(spec).name
    except BadSpec:
        return ""


def configurations(release: str, *, alpha: bool = False) -> Iterator[KubeletConfig]:
    """Every combination of options that a kubelet of ``release`` takes (``alpha``: those that an
    alpha feature gate opens as well), with each Topology Manager policy; CPU 0 is reserved. From
    1.36 on, also without options and with the managers of pod-level resources."""
    # The Topology Manager is on by default, and knows static pods.
    aligning = (Behaviour.STATIC_PODS_ALIGNED, Behaviour.TOPOLOGY_MANAGER_ON)
    policies = TOPOLOGY_POLICIES if all(has(release, one) for one in aligning) else ("none",)
    for options in _option_sets(release, alpha=alpha):
        for policy in policies:
            if BY_SOCKET in options and policy == "single-numa-node":
                continue  # the kubelet refuses the two together
            yield config_of(release, options, policy)
    if has(release, Behaviour.POD_LEVEL_MANAGERS):
        for policy in policies:
            for scope in ("container", "pod"):
                yield KubeletConfig(
                    reserved_system_cpus=CPUSet([0]),
                    topology_manager_policy=policy,
                    topology_manager_scope=scope,
                    feature_gates=POD_LEVEL,
                )


def config_of(release: str, options: Mapping[str, str], policy: str) -> KubeletConfig:
    """These options with a Topology Manager policy; the alpha feature gate is on where an option
    needs it, and CPU 0 is reserved."""
    is_alpha = any(readiness(OPTIONS[name], release) is ALPHA for name in options)
    gates = {_ALPHA_OPTIONS: True} if is_alpha else {}
    reserved = CPUSet([0]) if has(release, Behaviour.RESERVED_CPU_LIST) else None
    return KubeletConfig(
        reserved_system_cpus=reserved,
        system_reserved=None if reserved else "1",
        policy_options=options,
        topology_manager_policy=policy,
        feature_gates=gates,
    )


def _option_sets(release: str, *, alpha: bool) -> Iterator[dict[str, str]]:
    gates = {_ALPHA_OPTIONS: True} if alpha and Release.parse(release).minor >= 23 else {}
    if not has(release, Behaviour.POLICY_OPTIONS) or not enabled(
        "CPUManagerPolicyOptions", gates, release=release
    ):
        yield {}
        return
    for count in range(len(OPTIONS) + 1):
        for names in combinations(OPTIONS, count):
            options = dict.fromkeys(names, "true")
            try:
                StaticOptions.parse(options, gates, release=release)
            except ConfigurationError:
                continue
            yield options


def _configs(release: str, families: tuple[str, ...], *, alpha: bool) -> list[KubeletConfig]:
    plain = configurations(release, alpha=alpha)
    return [one for config in plain for one in configured(config, families, release)]


def tasks(
    release: str,
    machines: tuple[str, ...],
    *,
    alpha: bool = False,
    families: tuple[str, ...] = (),
    others: tuple[str, ...] = (),
) -> Iterator[Task]:
    """Every search on these machines, small ones first, with the settings that the families of
    moves take; kubelets of the ``others`` may take over."""
    configs = _configs(release, families, alpha=alpha)
    for machine in machines:
        for config in configs:
            yield Task(release, machine, config, others)


def drawn_tasks(
    release: str,
    machines: tuple[str, ...],
    *,
    alpha: bool = False,
    families: tuple[str, ...] = (),
    others: tuple[str, ...] = (),
    seed: int = 0,
) -> Iterator[Task]:
    """As :func:`tasks`, but :data:`DRAWN` searches for random walks: each a machine and a
    configuration, drawn by chance. The same seed draws the same."""
    configs = _configs(release, families, alpha=alpha)
    chance = random.Random(seed)  # noqa: S311
    for _ in range(DRAWN):
        yield Task(release, chance.choice(machines), chance.choice(configs), others)
