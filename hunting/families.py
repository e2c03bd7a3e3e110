"""Families of moves: kinds of what may happen to a node, each switched on by its name.

What belongs here: which moves of a kind may come next, and the settings that they take. What never
does: the moves that every history has (``moves``), and taking a move (``walk``). A move whose steps
are not possible on the node is dropped there, so a family may offer more than the node can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of, pooled
from conformance.subject import SubjectUsageError
from hunting.upgrades import configurations_for
from reference import CPUSet, CPUTopology
from reference.feature_gates import refusal, stage_of
from reference.releases import minor_of
from reference.steps import (
    Apply,
    AskAllocatable,
    AskMetrics,
    AskPodResources,
    AwaitReconcile,
    Configure,
    Delete,
    Device,
    FailUpdates,
    KillAtRename,
    KillContainer,
    Kind,
    KubeletConfig,
    Pod,
    Reboot,
    RegisterDevices,
    RemoveState,
    Resize,
    RestartPolicy,
    Start,
    Step,
    Stop,
    TakeOver,
    Tamper,
)

Move: TypeAlias = tuple[Step, ...]

UPGRADES: Final = "upgrades"
DEVICE: Final = "pinproof.invalid/device"
_GATE: Final = "TopologyManager"
#: The feature gates with which a resize in place reaches exclusive CPUs.
RESIZE: Final = ("InPlacePodVerticalScaling", "InPlacePodVerticalScalingExclusiveCPUs")
#: At which write of the state file the kubelet is killed: one that an admission makes, or the next.
_WRITES: Final = (1, 2)
#: CPUs that a pod requests as a whole. A kubelet counts them from 1.34 on.
_OF_POD: Final = 2
#: CPUs that are reserved. Kubelets up to 1.36 count this as more than one CPU.
_ODD_AMOUNT: Final = "1.0001"


@dataclass(frozen=True, slots=True)
class Scene:
    """What moves depend on. ``applied``: the pods by name; ``name``: that of the next pod;
    ``free``: how many CPUs an empty node has for pods; ``others``: the releases whose kubelets may
    take over."""

    applied: Mapping[str, Pod]
    name: str
    free: int
    config: KubeletConfig
    release: str
    machine: str
    topology: CPUTopology
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """``sentence``: what its moves are. ``moves``: those that may come next. ``settings``: the
    configurations that take the place of one in a search."""

    name: str
    sentence: str
    moves: Callable[[Scene], Iterator[Move]] = lambda scene: iter(())
    settings: Callable[[KubeletConfig, str], Iterator[KubeletConfig]] = lambda config, release: (
        iter((config,))
    )


def _names(scene: Scene) -> Iterator[tuple[str, str]]:
    for name, pod in scene.applied.items():
        for one in pod.containers:
            yield name, one.name


def _ends(scene: Scene) -> Iterator[Move]:
    for name, container in _names(scene):
        yield (KillContainer(name, container, exit_code=0),)
        yield (KillContainer(name, container),)
    count = max(scene.free // 2, 1)
    yield (Apply(replace(guaranteed(scene.name, count), restart_policy=RestartPolicy.NEVER)),)


def _tampers(scene: Scene) -> Iterator[Move]:
    for name, container in _names(scene):
        yield (Tamper(name, container, scene.topology.cpus), AwaitReconcile())


def _rounds(scene: Scene) -> Iterator[Move]:
    if scene.applied:
        yield AwaitReconcile(), AwaitReconcile()


def _refuses(scene: Scene) -> Iterator[Move]:
    for gone in scene.applied:
        yield FailUpdates(1), Delete(gone), AwaitReconcile()
    yield FailUpdates(1), Apply(guaranteed(scene.name, 1)), AwaitReconcile()


def _asks(scene: Scene) -> Iterator[Move]:
    yield (AskPodResources(),)
    yield (AskAllocatable(),)
    yield (AskMetrics(),)


def _reboots(scene: Scene) -> Iterator[Move]:
    if scene.applied:
        yield Stop(), Reboot(), Start()
    for gone in scene.applied:
        yield Stop(), Reboot(), Delete(gone), Start()


def _changes_while_down(scene: Scene) -> Iterator[Move]:
    for gone in scene.applied:
        yield Stop(), Delete(gone), Start()
    yield Stop(), Apply(guaranteed(scene.name, 1)), Start()


def _crashes(scene: Scene) -> Iterator[Move]:
    for number in _WRITES:
        for after in (False, True):
            kill = KillAtRename(number, after=after)
            yield kill, Apply(guaranteed(scene.name, 1)), Start()
            for gone in scene.applied:
                yield kill, Delete(gone), Start()


def _policies(scene: Scene) -> Iterator[Move]:
    """The policy is none for a while. On an empty node the state file is removed before each start,
    as is documented. Else it stays, and a pod is deleted meanwhile."""
    other, back = Configure(replace(scene.config, policy="none")), Configure(scene.config)
    if not scene.applied:
        yield Stop(), other, RemoveState(), Start(), Stop(), back, RemoveState(), Start()
    for gone in scene.applied:
        yield Stop(), other, Start(), Delete(gone), Stop(), back, Start()


def _gates_off(scene: Scene) -> Iterator[Move]:
    """Each feature gate of the configuration is left out, but for one that an option needs."""
    for gate in scene.config.feature_gates:
        if not gate.startswith("CPUManagerPolicy"):
            left = {name: on for name, on in scene.config.feature_gates.items() if name != gate}
            yield Stop(), Configure(replace(scene.config, feature_gates=left)), Start()


def _resizes(scene: Scene) -> Iterator[Move]:
    for pod in scene.applied.values():
        for at, one in enumerate(pod.containers):
            if one.cpu_limit and one.kind is Kind.APP and one.cpu_limit.isdigit():
                for count in {int(one.cpu_limit) + 1, int(one.cpu_limit) - 1} - {0}:
                    other = replace(one, cpu_request=str(count), cpu_limit=str(count))
                    containers = (*pod.containers[:at], other, *pod.containers[at + 1 :])
                    yield (Resize(replace(pod, containers=containers)),)


def resize_gates(release: str) -> dict[str, bool]:
    """The gates of a resize of exclusive CPUs that the release has, switched on."""
    return {
        gate: True
        for gate in RESIZE
        if stage_of(gate, release) is not None and not refusal(gate, True, release)
    }


def _cluster(config: KubeletConfig, release: str) -> Iterator[KubeletConfig]:
    """Pods from manifests; then pods from an API server, with the feature gates of a resize that
    the release has: the first alone, then both."""
    yield config
    gates = dict(config.feature_gates)
    known = resize_gates(release)
    for gate in RESIZE:
        gates |= {gate: True} if gate in known else {}
        yield replace(config, api_server=True, feature_gates=dict(gates))


def _devices(scene: Scene) -> Iterator[Move]:
    """A plugin with a device near each NUMA node; pods that request one device or all of them."""
    nodes = sorted(scene.topology.numa_masks)
    every = RegisterDevices(DEVICE, tuple(Device(f"d{node}", (node,)) for node in nodes))
    yield (every,)
    yield Stop(), Start(), every
    for count in sorted({1, min(2, len(nodes)), max(len(nodes) // 2, 1), len(nodes)}):
        for cpus in sorted({max(len(nodes), 2), max(scene.free // 2, 1)}):
            app = replace(exclusive("c", cpus), devices=((DEVICE, count),))
            yield every, Apply(guaranteed_of(scene.name, [app])), AskPodResources()
    init = replace(exclusive("i", 1, kind=Kind.INIT), devices=((DEVICE, 1),))
    both = [init, replace(exclusive("c", 1), devices=((DEVICE, 1),))]
    yield every, Apply(guaranteed_of(scene.name, both))


def _machines(scene: Scene) -> Iterator[Move]:
    """The machine boots without its highest CPU, where such a machine can be described."""
    if "-off" not in scene.machine and scene.machine.count("-") == 3:
        yield Stop(), Reboot(f"{scene.machine}-off{max(scene.topology.cpus)}"), Start()


def _large_pods(scene: Scene) -> Iterator[Move]:
    """A small init container before an app container of nearly a NUMA node; two app containers."""
    sizes = {mask.bit_count() for mask in scene.topology.numa_masks.values()}
    init = exclusive("i", 1, kind=Kind.INIT)
    for count in sorted({one for size in sizes for one in (size - 1, size)} & {*range(1, 400)}):
        yield (Apply(guaranteed_of(scene.name, [init, exclusive("c", count)])),)
        yield (Apply(guaranteed(scene.name, count)),)
    for count in sorted({min(sizes) // 2 + 1, max(min(sizes) - 1, 1)}):
        yield (Apply(guaranteed(scene.name, count, count)),)
    yield (Apply(best_effort(scene.name)),)


def _sizes(scene: Scene) -> Iterator[Move]:
    """A pod of every size from one CPU to all: many moves on a large machine."""
    for count in range(1, scene.free + 1):
        yield (Apply(guaranteed(scene.name, count)),)


def _upgrades(scene: Scene) -> Iterator[Move]:
    """Another release takes over; or a pod comes whose CPUs releases count differently."""
    if scene.others and scene.free >= _OF_POD:
        yield (Apply(pooled(scene.name, _OF_POD)),)
    for release in scene.others:
        for config in configurations_for(release, scene.config):
            change = () if config == scene.config else (Configure(config),)
            yield Stop(), *change, TakeOver(release), Start()


def _reserved_by_amount(config: KubeletConfig, release: str) -> Iterator[KubeletConfig]:
    """An amount that releases round differently, in place of CPU 0."""
    yield config
    if config.reserved_system_cpus is not None:
        yield replace(config, reserved_system_cpus=None, system_reserved=_ODD_AMOUNT)


def _reservations(config: KubeletConfig, release: str) -> Iterator[KubeletConfig]:
    """CPU 1 or CPU 4 is reserved beside CPU 0."""
    yield config
    if config.reserved_system_cpus is not None:
        for more in (1, 4):
            yield replace(config, reserved_system_cpus=CPUSet([0, more]))


def _aligned_early(config: KubeletConfig, release: str) -> Iterator[KubeletConfig]:
    """The Topology Manager of a release in which it is off by default."""
    yield config
    stage = stage_of(_GATE, release)
    if stage is not None and not stage.default and minor_of(release) < 18:
        gates = {**config.feature_gates, _GATE: True}
        for policy in ("best-effort", "restricted", "single-numa-node"):
            yield replace(config, feature_gates=gates, topology_manager_policy=policy)


#: Every family, by what it is about.
FAMILIES: Final = {
    one.name: one
    for one in (
        Family("ends", "a container ends by itself, or is killed", _ends),
        Family("tampers", "an agent on the node lets a running container run on every CPU",
               _tampers),
        Family("rounds", "two reconcile rounds pass", _rounds),
        Family("refuses", "the container runtime refuses an update", _refuses),
        Family("asks", "the kubelet is asked for its metrics, and at its pod-resources socket",
               _asks),
        Family("reboots", "the machine reboots, and a pod may be deleted before the kubelet starts",
               _reboots),
        Family("down", "a pod comes or goes while the kubelet is down", _changes_while_down),
        Family("crashes", "the kubelet is killed before or after a write of its state file",
               _crashes),
        Family("policies", "the policy is none for a while", _policies),
        Family("gates", "a feature gate is turned off", _gates_off),
        Family("resizes", "a pod from an API server is given another size in place", _resizes,
               _cluster),
        Family("devices", "a device plugin registers, and pods request its devices", _devices),
        Family("machines", "the machine boots with a CPU less", _machines),
        Family("pods", "pods that nearly fill a NUMA node, with init containers and without",
               _large_pods),
        Family("sizes", "pods of every size", _sizes),
        Family(UPGRADES, "a kubelet of another release takes over", _upgrades,
               _reserved_by_amount),
        Family("reservations", "other CPUs are reserved as well", settings=_reservations),
        Family("alignment", "the Topology Manager is turned on where it is off by default",
               settings=_aligned_early),
    )
}  # fmt: skip


def named(text: str) -> tuple[str, ...]:
    """The families of a list such as ``devices,ends``; ``all`` names every one. Raises
    :class:`SubjectUsageError`."""
    names = [one for one in text.split(",") if one]
    if names == ["all"]:
        return tuple(FAMILIES)
    for one in names:
        if one not in FAMILIES:
            raise SubjectUsageError(f"--moves {one}: the families are {', '.join(FAMILIES)}")
    return tuple(dict.fromkeys(names))


def configured(
    config: KubeletConfig, families: tuple[str, ...], release: str
) -> Iterator[KubeletConfig]:
    """The configurations that a search with these families has in place of one."""
    configs = [config]
    for name in families:
        configs = [other for one in configs for other in FAMILIES[name].settings(one, release)]
    yield from configs


def moves_of(scene: Scene, families: tuple[str, ...]) -> Iterator[Move]:
    for name in families:
        yield from FAMILIES[name].moves(scene)
