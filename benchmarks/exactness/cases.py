"""Random cases: a machine, a configuration, and what happens to a kubelet on it.

What belongs here: how a case is drawn, and how it is written down. What never does: running one.
Every case has its own random numbers, made of seed, release and its number, so that any of them
can be drawn again by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import msgspec

from benchmarks.exactness.machines import (
    machine_of_many_parts,
    random_machine,
    without_a_core,
)
from reference import CPUSet, MachineInfo
from reference.behaviours import Behaviour
from reference.releases import has
from reference.steps import Container, Kind, KubeletConfig, Pod

_FULL_PCPUS: Final = "full-pcpus-only"
_ACROSS_NUMA: Final = "distribute-cpus-across-numa"
_BY_SOCKET: Final = "align-by-socket"
_ACROSS_CORES: Final = "distribute-cpus-across-cores"
_STRICT: Final = "strict-cpu-reservation"
_BY_UNCORE: Final = "prefer-align-cpus-by-uncorecache"

OPTIONS: Final = (_FULL_PCPUS, _ACROSS_NUMA, _BY_SOCKET, _ACROSS_CORES, _STRICT, _BY_UNCORE)
#: Which option came with which behaviour; others would be refused every time.
_SINCE: Final = {
    _FULL_PCPUS: Behaviour.POLICY_OPTIONS,
    _ACROSS_NUMA: Behaviour.NUMA_DISTRIBUTION,
    _BY_SOCKET: Behaviour.ALIGN_BY_SOCKET,
    _ACROSS_CORES: Behaviour.CORE_SPREADING,
    _STRICT: Behaviour.STRICT_RESERVATION,
    _BY_UNCORE: Behaviour.UNCORE_ALIGNMENT,
}


#: A hint is made for every set of NUMA nodes. A Topology Manager refuses more than eight.
_MOST_NODES_WITH_HINTS: Final = 10


@dataclass(frozen=True, slots=True)
class Arrive:
    """A pod is admitted, and its containers are created if it is."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Leave:
    """A pod and its containers are gone."""

    pod: str


@dataclass(frozen=True, slots=True)
class Round:
    """A reconcile round."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The hints for a pod, which may be there, by container and for the whole pod."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Exit:
    """The containers of a pod end."""

    pod: str


@dataclass(frozen=True, slots=True)
class Again:
    """The containers of a pod that do not run are created again."""

    pod: str


@dataclass(frozen=True, slots=True)
class Restart:
    """The kubelet is started again, perhaps with another configuration or on a machine that has
    changed; every pod is admitted again."""

    config: KubeletConfig | None = None
    machine: MachineInfo | None = None


Action: TypeAlias = Arrive | Leave | Round | Ask | Exit | Again | Restart


@dataclass(frozen=True, slots=True)
class Case:
    """One story."""

    release: str
    machine: MachineInfo
    config: KubeletConfig
    actions: tuple[Action, ...] = field(default=())


def draw(seed: int, release: str, number: int) -> Case:
    """Case ``number`` of ``seed``."""
    random = Random(f"{seed} {release} {number}")
    prone = has(release, Behaviour.NUMA_DISTRIBUTION) and random.random() < 0.02
    machine = (machine_of_many_parts if prone else random_machine)(random, release)
    cpus = sorted(cpu for node in machine.nodes for core in node.cores for cpu in core.thread_ids)
    config = _config(random, release, cpus)
    if prone:  # the kubelet may search for ever
        config = replace(
            config,
            policy_options={_ACROSS_NUMA: "true", _FULL_PCPUS: "true"},
            reserved_system_cpus=CPUSet(random.sample(cpus, len(cpus) // 5 + 1)),
            topology_manager_policy="none",
            topology_manager_policy_options={},
        )
    return Case(release, machine, config, _actions(random, config, machine, cpus))


def _config(random: Random, release: str, cpus: list[int]) -> KubeletConfig:
    gates = {}
    if random.random() < 0.97:
        gates["CPUManagerPolicyAlphaOptions"] = True
        if not has(release, Behaviour.OPTION_MATURITY):
            gates = {"CPUManagerPolicyOptions": True}
    known = [one for one in OPTIONS if one not in _SINCE or has(release, _SINCE[one])]
    chosen = [one for one in _chosen(random) if one in known]
    options = {one: "true" if random.random() < 0.95 else "false" for one in chosen}
    config = KubeletConfig(
        policy="static" if random.random() < 0.98 else "none",
        policy_options=options,
        feature_gates=gates,
    )
    return _aligned(random, release, _reserved(random, config, cpus))


def _chosen(random: Random) -> list[str]:
    """Options that go together, most of the time."""
    if random.random() < 0.12:
        return random.sample(OPTIONS, random.choice([1, 2, 3]))
    strategy = random.choice(
        [None, None, None, _ACROSS_NUMA, _ACROSS_NUMA, _ACROSS_CORES, _BY_UNCORE, _BY_UNCORE]
    )
    chosen = [] if strategy is None else [strategy]
    if strategy != _ACROSS_CORES and random.random() < 0.4:
        chosen.append(_FULL_PCPUS)
    chosen += [one for one in (_BY_SOCKET, _STRICT) if random.random() < 0.2]
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
    if random.random() < 0.45 or not has(release, Behaviour.TOPOLOGY_MANAGER_ON):
        return config
    config = replace(
        config,
        topology_manager_policy=random.choice(["best-effort", "restricted", "single-numa-node"]),
        topology_manager_scope=random.choice(["container", "container", "pod"]),
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


def _actions(
    random: Random, config: KubeletConfig, machine: MachineInfo, cpus: list[int]
) -> tuple[Action, ...]:
    actions: list[Action] = []
    there: list[Pod] = []
    per_core = machine.cpu_topology().cpus_per_core
    step = per_core if config.policy_options.get(_FULL_PCPUS) and random.random() < 0.8 else 1
    for number in range(random.choice([4, 8, 12, 20])):
        dice = random.random()
        if dice < 0.48:
            there.append(_pod(random, f"p{number}", len(cpus), step))
            actions.append(Arrive(there[-1]))
        elif dice < 0.66 and there:
            actions.append(Leave(there.pop(random.randrange(len(there))).name))
        elif dice < 0.78:
            actions.append(Round())
        elif dice < 0.87:
            known = there and random.random() < 0.25
            pod = random.choice(there) if known else _pod(random, f"q{number}", len(cpus), step)
            actions.append(Ask(pod))
        elif dice < 0.92 and there:
            name = random.choice(there).name
            actions += random.choice([[Exit(name)], [Exit(name), Again(name)], [Again(name)]])
        elif dice < 0.97:
            actions.append(Restart())
        else:
            actions += _changed(random, config, machine, cpus)
    if len(machine.nodes) > _MOST_NODES_WITH_HINTS:
        actions = [one for one in actions if not isinstance(one, Ask)]
    return tuple(actions)


def _changed(
    random: Random, config: KubeletConfig, machine: MachineInfo, cpus: list[int]
) -> list[Action]:
    """A restart with another configuration or after a core was lost, and one as before."""
    if random.random() < 0.3:
        return [Restart(machine=without_a_core(random, machine)), Restart(machine=machine)]
    return [Restart(_config(random, str(machine.release), cpus)), Restart(config)]


def _pod(random: Random, name: str, cpus: int, step: int) -> Pod:
    """A pod; most of its containers ask for a multiple of ``step`` CPUs."""
    kinds = [Kind.APP]
    if random.random() < 0.3:
        kinds += random.choices(
            [Kind.APP, Kind.INIT, Kind.INIT, Kind.SIDECAR], k=random.choice([1, 2, 3])
        )
        order = {Kind.APP: 1}
        random.shuffle(kinds)
        kinds.sort(key=lambda kind: order.get(kind, 0))
    most = random.choice([2, 4, 4, 8, max(2, cpus // 2), cpus + 2])
    return Pod(
        name,
        tuple(_container(random, f"c{i}", kind, most, step) for i, kind in enumerate(kinds)),
    )


def _container(random: Random, name: str, kind: Kind, most: int, step: int) -> Container:
    dice = random.random()
    if dice < 0.07:
        return Container(name, kind=kind)  # BestEffort, or it spoils the pod's class
    count = random.randint(1, most)
    count += -count % (step if step > 1 else random.choice([1, 2]))
    cpu = str(count)
    if dice < 0.15:
        cpu = f"{random.randrange(100, most * 1000, 50)}m"
    if dice < 0.20:
        return Container(name, cpu, None, "1Mi", "1Mi", kind)
    return Container(name, cpu, cpu, "1Mi", "1Mi", kind)


# --- writing down ----------------------------------------------------------------------------


def dumps(case: Case) -> str:
    """The case as JSON."""
    return json.dumps(msgspec.to_builtins(_tagged(case), enc_hook=_encode), indent=1)


def loads(path: Path) -> Case:
    """A case from JSON; raises :class:`msgspec.ValidationError`."""
    plain = json.loads(path.read_text())
    return Case(
        msgspec.convert(plain["release"], str),
        msgspec.convert(plain["machine"], MachineInfo, dec_hook=_decode),
        msgspec.convert(plain["config"], KubeletConfig, dec_hook=_decode),
        tuple(
            msgspec.convert(each, _KINDS[each.pop("action")], dec_hook=_decode)
            for each in plain["actions"]
        ),
    )


_KINDS: Final[Mapping[str, type[Any]]] = {
    kind.__name__.lower(): kind for kind in (Arrive, Leave, Round, Ask, Exit, Again, Restart)
}


def _tagged(case: Case) -> dict[str, Any]:
    plain = msgspec.to_builtins(replace(case, actions=()), enc_hook=_encode)
    plain["actions"] = [
        {"action": type(one).__name__.lower(), **msgspec.to_builtins(one, enc_hook=_encode)}
        for one in case.actions
    ]
    return dict(plain)


def _encode(value: object) -> object:
    if isinstance(value, CPUSet):
        return str(value)
    if isinstance(value, Kind):
        return value.value
    raise NotImplementedError(type(value).__name__)


def _decode(kind: type[Any], value: Any) -> Any:
    if kind is CPUSet:
        return CPUSet.parse(value)
    raise NotImplementedError(kind.__name__)
