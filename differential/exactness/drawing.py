"""Random cases: which configuration, and what happens.

What belongs here: how a case is drawn. What never does: the parts it is made of (``machines``,
``pods``, ``files``), and walking it. Every case has its own random numbers, made of seed, release
and its number, so that any of them can be drawn again by itself.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from differential.exactness import cases, pods
from differential.exactness.cases import Action, Case
from differential.exactness.files import Change, OtherFile
from differential.exactness.machines import (
    machine_of_many_parts,
    random_machine,
    topology_of,
    without_a_core,
)
from reference import CPUSet, MachineInfo
from reference.behaviours import Behaviour
from reference.cpumanager.policy_options import (
    ACROSS_CORES,
    ACROSS_NUMA,
    BY_SOCKET,
    BY_UNCORE,
    FULL_PCPUS,
    OPTIONS,
    STRICT,
)
from reference.feature_gates import readiness
from reference.releases import Release, has
from reference.steps import KubeletConfig, Pod

_WHOLE: Final = "PodLevelResources"
_MANAGERS: Final = "PodLevelResourceManagers"
_EXCLUSIVE_RESIZE: Final = "InPlacePodVerticalScalingExclusiveCPUs"

#: A hint is made for every set of NUMA nodes. A Topology Manager refuses more than eight.
_MOST_NODES_WITH_HINTS: Final = 10
#: The first minor whose pods can be resized in place.
_RESIZES: Final = 27


def draw(seed: int, release: str, number: int) -> Case:
    random = Random(f"{seed} {release} {number}")
    prone = has(release, Behaviour.NUMA_DISTRIBUTION) and random.random() < 0.02
    machine = (machine_of_many_parts if prone else random_machine)(random, release)
    cpus = sorted(cpu for node in machine.nodes for core in node.cores for cpu in core.thread_ids)
    config = _config(random, release, cpus)
    if prone:  # the kubelet may search for ever
        config = replace(
            config,
            policy_options={ACROSS_NUMA: "true", FULL_PCPUS: "true"},
            reserved_system_cpus=CPUSet(random.sample(cpus, len(cpus) // 5 + 1)),
            topology_manager_policy="none",
            topology_manager_policy_options={},
        )
    return Case(release, machine, config, _Story(random, release, config, machine, cpus).actions())


# -- configuration ---------------------------------------------------------------------------


def _config(random: Random, release: str, cpus: list[int]) -> KubeletConfig:
    gates = {}
    if random.random() < 0.97:
        gates["CPUManagerPolicyAlphaOptions"] = True
        if not has(release, Behaviour.OPTION_MATURITY):
            gates = {"CPUManagerPolicyOptions": True}
    known = [one for one, stages in OPTIONS.items() if readiness(stages, release)]
    chosen = [one for one in _chosen(random) if one in known]
    options = {one: "true" if random.random() < 0.95 else "false" for one in chosen}
    config = KubeletConfig(
        policy="static" if random.random() < 0.98 else "none",
        policy_options=options,
        feature_gates={**gates, **_pod_gates(random, release)},
    )
    config = _aligned(random, release, _reserved(random, config, cpus))
    return _odd(random, release, config) if random.random() < 0.05 else config


def _odd(random: Random, release: str, config: KubeletConfig) -> KubeletConfig:
    """The configuration with an unusual setting; a kubelet refuses most of these."""
    options, gates = dict(config.policy_options), dict(config.feature_gates)
    match random.randrange(7):
        case 0:
            return replace(config, policy=random.choice(["other", "Static", "dynamic"]))
        case 1:
            options[random.choice(["no-such-option", "", *OPTIONS])] = "true"
        case 2:
            options[random.choice([*OPTIONS])] = random.choice(
                ["t", "1", "T", "", "yes", "f", "tRUE"]
            )
        case 3 if has(release, Behaviour.OPTION_MATURITY):
            gates["CPUManagerPolicyBetaOptions"] = False
        case 4 if not has(release, Behaviour.OPTIONS_UNGATED):
            gates["CPUManagerPolicyOptions"] = random.random() < 0.5
        case 5 if has(release, Behaviour.TOPOLOGY_OPTIONS):
            return _oddly_aligned(random, release, config)
        case _:
            amount = random.choice(["0", "1", "500m", "1.5", "2e0", "1100000u", "1k"])
            return replace(config, kube_reserved=amount)
    return replace(config, policy_options=options, feature_gates=gates)


def _oddly_aligned(random: Random, release: str, config: KubeletConfig) -> KubeletConfig:
    options, gates = dict(config.topology_manager_policy_options), dict(config.feature_gates)
    for _ in range(random.choice([1, 1, 2])):
        name = random.choice(["prefer-closest-numa-nodes", "max-allowable-numa-nodes", "other"])
        options[name] = random.choice(["true", "f", "", "8", "08", "-9", "9999999999999999999"])
    if not has(release, Behaviour.TOPOLOGY_OPTIONS_STABLE) and random.random() < 0.3:
        level = random.choice(["Alpha", "Beta", ""])
        gates[f"TopologyManagerPolicy{level}Options"] = random.random() < 0.5
    return replace(config, topology_manager_policy_options=options, feature_gates=gates)


def _pod_gates(random: Random, release: str) -> dict[str, bool]:
    """The gates of pod-level resources and of resizes."""
    if not has(release, Behaviour.POD_LEVEL_RESOURCES):
        return {}
    gates = {}
    if not has(release, Behaviour.POD_LEVEL_RESOURCES_SKIPPED) and random.random() < 0.3:
        gates[_WHOLE] = True
    elif has(release, Behaviour.POD_LEVEL_MANAGERS) and random.random() < 0.45:
        gates[_MANAGERS] = True
    if random.random() < 0.2:
        gates[_EXCLUSIVE_RESIZE] = True
    return gates


def _chosen(random: Random) -> list[str]:
    """Options, which most often can be combined."""
    if random.random() < 0.12:
        return random.sample([*OPTIONS], random.choice([1, 2, 3]))
    strategy = random.choice(
        [None, None, None, ACROSS_NUMA, ACROSS_NUMA, ACROSS_CORES, BY_UNCORE, BY_UNCORE]
    )
    chosen = [] if strategy is None else [strategy]
    if strategy != ACROSS_CORES and random.random() < 0.4:
        chosen.append(FULL_PCPUS)
    chosen += [one for one in (BY_SOCKET, STRICT) if random.random() < 0.2]
    random.shuffle(chosen)
    return chosen


def _reserved(random: Random, config: KubeletConfig, cpus: list[int]) -> KubeletConfig:
    count = random.choice([1, 1, 1, 2, 2, 3, 4])
    if random.random() < 0.6:
        taken = random.sample(cpus, min(count, len(cpus)))
        if random.random() < 0.02:
            taken.append(max(cpus) + 1)
        return replace(config, reserved_system_cpus=CPUSet(taken))
    if random.random() < 0.03:
        return config
    text = f"{count}" if random.random() < 0.5 else f"{count * 1000 - random.randrange(999)}m"
    return replace(config, system_reserved=text)


def _aligned(random: Random, release: str, config: KubeletConfig) -> KubeletConfig:
    managers = config.feature_gates.get(_MANAGERS, False)  # with them the scope matters more
    if random.random() < (0.2 if managers else 0.45):
        return config
    if not has(release, Behaviour.TOPOLOGY_MANAGER_ON):
        return config
    scopes = ["container", "pod", "pod"] if managers else ["container", "container", "pod"]
    config = replace(
        config,
        topology_manager_policy=random.choice(["best-effort", "restricted", "single-numa-node"]),
        topology_manager_scope=random.choice(scopes),
    )
    options = {}
    if has(release, Behaviour.TOPOLOGY_OPTIONS) and random.random() < 0.3:
        options["prefer-closest-numa-nodes"] = "true"
    if has(release, Behaviour.NUMA_LIMIT_OPTION) and random.random() < 0.05:
        options["max-allowable-numa-nodes"] = random.choice(["8", "9", "7", "x"])
    if not options:
        return config
    gates = dict(config.feature_gates)
    if not has(release, Behaviour.TOPOLOGY_OPTIONS_STABLE):
        gates["TopologyManagerPolicyOptions"] = True
        gates["TopologyManagerPolicyAlphaOptions"] = True
    return replace(config, topology_manager_policy_options=options, feature_gates=gates)


# -- what happens ----------------------------------------------------------------------------


class _Story:
    """Draws what happens in one case."""

    def __init__(
        self,
        random: Random,
        release: str,
        config: KubeletConfig,
        machine: MachineInfo,
        cpus: list[int],
    ) -> None:
        self._random = random
        self._release = release
        self._config = config
        self._machine = machine
        self._cpus = cpus
        self._there: list[Pod] = []
        per_core = topology_of(machine).cpus_per_core
        whole_cores = config.policy_options.get(FULL_PCPUS) and random.random() < 0.8
        self._wanted = pods.Wanted(
            release, len(cpus), per_core if whole_cores else 1, self._whole_pods()
        )

    def _whole_pods(self) -> int:
        """How many pods in a hundred ask for resources as a whole."""
        if not has(self._release, Behaviour.POD_LEVEL_RESOURCES):
            return 0
        return 60 if self._config.feature_gates.get(_MANAGERS) else 8

    def actions(self) -> tuple[Action, ...]:
        actions: list[Action] = []
        for number in range(self._random.choice([4, 8, 12, 20])):
            actions += self._next(number)
        if len(self._machine.nodes) > _MOST_NODES_WITH_HINTS:
            actions = [one for one in actions if not isinstance(one, cases.Ask)]
        return tuple(actions)

    def _next(self, number: int) -> list[Action]:
        random, there = self._random, self._there
        dice = random.random()
        if dice < 0.48:
            there.append(pods.pod(random, f"p{number}", self._wanted))
            return [cases.Arrive(there[-1])]
        if dice < 0.64 and there:
            return [cases.Leave(there.pop(random.randrange(len(there))).name)]
        if dice < 0.76:
            return [cases.Round()]
        if dice < 0.85:
            known = there and random.random() < 0.25
            return [
                cases.Ask(
                    random.choice(there) if known else pods.pod(random, f"q{number}", self._wanted)
                )
            ]
        if dice < 0.90 and there:
            return self._ended()
        if dice < 0.94:
            return [cases.Restart(rebooted=random.random() < 0.15)]
        return self._changed() if dice < 0.965 else self._other_file()

    def _ended(self) -> list[Action]:
        """Containers end or come again, or a pod is resized."""
        random, pod = self._random, self._random.choice(self._there)
        if Release.parse(self._release).minor >= _RESIZES and random.random() < 0.5:
            after = pods.resized(random, pod, self._release)
            return [] if after is None else [cases.Resize(after)]
        return random.choice(
            [
                [cases.Exit(pod.name)],
                [cases.Exit(pod.name), cases.Again(pod.name)],
                [cases.Again(pod.name)],
            ]
        )

    def _changed(self) -> list[Action]:
        """A restart with another configuration or after a core was lost, and one as before."""
        random = self._random
        if random.random() < 0.3:
            smaller = without_a_core(random, self._machine)
            return [cases.Restart(machine=smaller), cases.Restart(machine=self._machine)]
        return [
            cases.Restart(_config(random, self._release, self._cpus)),
            cases.Restart(self._config),
        ]

    def _other_file(self) -> list[Action]:
        """A restart on a changed state file, most often with a drain after it."""
        random = self._random
        file = OtherFile(random.choice(list(Change)), random.randrange(1 << 30))
        restart = cases.Restart(file=file, rebooted=random.random() < 0.15)
        return [restart, cases.Drain()] if random.random() < 0.9 else [restart]
