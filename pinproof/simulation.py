"""What a kubelet would do: on one machine, with a configuration, a state file and pods.

What belongs here: the steps that the model takes, and the reason for what each container gets. What
never does: how it is shown (``simulate``, ``draw``), and what was given (``pods``, ``settings``).

A pod whose uid is in the state file ran before: its manifest is in place when the kubelet starts,
and it keeps the CPUs that it holds. A uid of no given pod counts as a pod that runs too, whose
containers request as many CPUs as they hold: a kubelet frees the CPUs of pods that it does not
know. All other pods are applied after the start, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Final, TypeAlias, TypeVar

import topologies
from conformance.discovered import info_of, topology_of
from conformance.holders import holders
from conformance.pods import exclusive
from conformance.subject import SubjectUsageError
from reference import (
    Checkpoint,
    CheckpointError,
    ConfigurationError,
    CPUSet,
    CPUTopology,
    IllegalStep,
    Node,
    NotModelled,
    StaticPolicy,
    make_policy,
)
from reference.behaviours import Behaviour
from reference.kubelet.configuration import as_known, reserved_cpus
from reference.kubelet.reasons import Reason, Rule, reason_for, reason_of_refusal
from reference.memorymanager.state import State as MemoryState
from reference.pods.pod_level_resources import as_stored
from reference.releases import has, minor_of, require_whole_node
from reference.steps import (
    Apply,
    AskPodResources,
    Container,
    Device,
    Kind,
    KubeletConfig,
    Pod,
    RegisterDevices,
    Start,
    Stop,
    WriteState,
)
from reference.view import HeldDevice, Phase, View
from reports.text import few
from topologies import Machine
from topologies.errors import one_line

STATE_FILE: Final = "/var/lib/kubelet/cpu_manager_state"
_WAY_OUT: Final = "drain the node, stop the kubelet, remove {}, start the kubelet again ({})"
_PAGES: Final = "https://kubernetes.io/docs/tasks/administer-cluster"
WAY_OUT: Final = _WAY_OUT.format(
    STATE_FILE, f"{_PAGES}/cpu-management-policies/#changing-the-cpu-manager-policy"
)
MEMORY_WAY_OUT: Final = _WAY_OUT.format(
    "/var/lib/kubelet/memory_manager_state", f"{_PAGES}/memory-manager/"
)
POD_WAY_OUT: Final = "delete the pod, start the kubelet again"
_CHANCE: Final = (
    "up to 1.21 the kubelet's choice depends on Go's map order: this is one of the possible answers"
)


N = TypeVar("N", bound=Node)
#: The devices of each resource that a plugin registers.
Devices: TypeAlias = Mapping[str, Sequence[Device]]
_NO_DEVICES: Final[Devices] = {}
_DEVICES_SINCE: Final = 20


class KubeletRefuses(SubjectUsageError):
    """The kubelet would not start. ``error``: its text; ``way_out``: how to recover, ``""`` where
    the settings have to change; ``file``: the state file at fault; ``pod``: the one at whose
    admission the kubelet ends, again at each start."""

    def __init__(self, error: str, way_out: str = "", *, file: str = "", pod: str = "") -> None:
        where, then = f"{file}: " if file else "", f"; to recover: {way_out}" if way_out else ""
        what = f"end at the admission of pod {pod}" if pod else "not start"
        super().__init__(one_line(f"{where}the kubelet would {what}: {error}{then}", 2000))
        self.error = error
        self.way_out = way_out


class Kept(Enum):
    """How a container runs, in words."""

    EXCLUSIVE = "exclusive"
    POOL_OF_POD = "the pod's own pool"
    SHARED = "shared pool"
    UNPINNED = "not pinned"
    ENDED = "ended"
    REFUSED = "refused"
    UNANSWERED = "no answer"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one container gets, and why. ``cpus`` is ``None`` where the kubelet sets no cpuset."""

    pod: str
    container: str
    kept: Kept
    cpus: CPUSet | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class Answer:
    """What a kubelet would do. ``pods``: in the order in which it met them; ``held``: the CPUs of
    each holder, as pictures show them; ``memory_state``: what the memory manager leaves."""

    machine: Machine
    topology: CPUTopology
    config: KubeletConfig
    release: str
    pods: tuple[Pod, ...]
    view: View
    held: Mapping[str, CPUSet]
    notes: tuple[str, ...]
    memory_state: MemoryState | None = None

    def by_pod(self) -> Iterator[tuple[Pod, list[Verdict]]]:
        for pod in self.pods:
            yield pod, [self._verdict(pod, container) for container in pod.containers]

    def verdicts(self) -> Iterator[Verdict]:
        for _, of_pod in self.by_pod():
            yield from of_pod

    def refused(self, pod: Pod) -> bool:
        return self.view.pods[pod.name].phase is Phase.REJECTED

    def memory_of(self, pod: str, container: str) -> CPUSet:
        """The NUMA nodes in which the memory manager has reserved memory for a running container;
        empty where it has reserved none."""
        asked = self.view.asked.get(pod, {}).get(container)
        return asked.mems if asked is not None else CPUSet()

    def devices_of(self, pod: str, container: str) -> list[HeldDevice]:
        """The devices of a running container."""
        return sorted(self.view.devices.get(pod, {}).get(container, ()))

    @property
    def hangs_over(self) -> str:
        """The name of the pod at which the kubelet hangs, so that it answers neither for this pod
        nor for any after it; ``""`` where it does not hang."""
        waiting = (pod.name for pod in self.pods if self._is_unanswered(pod))
        return next(waiting, "")

    @property
    def hang_rule(self) -> Rule:
        """What keeps a kubelet that hangs busy: a merge of hints, or else a search for CPUs."""
        merges = "combinations" in self.view.hangs
        return Rule.ENDLESS_MERGE if merges else Rule.ENDLESS_SEARCH

    def _is_unanswered(self, pod: Pod) -> bool:
        return bool(self.view.hangs) and self.view.pods[pod.name].phase is Phase.PENDING

    def _verdict(self, pod: Pod, container: Container) -> Verdict:
        reason = reason_for(pod, container, self.config, release=self.release)
        status = self.view.pods[pod.name]
        if self._is_unanswered(pod):
            hangs = Reason(self.hang_rule, f"the kubelet hangs at {self.hangs_over}")
            return Verdict(pod.name, container.name, Kept.UNANSWERED, None, hangs)
        if status.phase is Phase.REJECTED:
            refusal = reason_of_refusal(status)
            kept = Kept.ENDED if refusal.rule is Rule.CRITICAL_PODS else Kept.REFUSED
            return Verdict(pod.name, container.name, kept, None, refusal)
        own = self.view.assignments.get(pod.name, {}).get(container.name)
        if own is None:
            return self._without_cpus(pod, container, reason)
        if not reason.cpus and reason.rule is Rule.POD_LEVEL_MANAGERS:
            return Verdict(pod.name, container.name, Kept.POOL_OF_POD, own, reason)
        if len(own) != reason.cpus:
            reason = Reason(Rule.STATE_FILE, f"held by the state file, though {reason.text}")
        elif heir := self._heir(pod, container, own):
            reason = Reason(Rule.INIT_CPUS, heir, reason.cpus)
        return Verdict(pod.name, container.name, Kept.EXCLUSIVE, own, reason)

    def _without_cpus(self, pod: Pod, container: Container, reason: Reason) -> Verdict:
        if reason.cpus:
            reason = Reason(Rule.INIT_CPUS, "it has ended, and its CPUs were given back")
            return Verdict(pod.name, container.name, Kept.ENDED, None, reason)
        cpus = self.view.cpusets.get(pod.name, {}).get(container.name, self.view.shared_pool)
        kept = Kept.SHARED if cpus else Kept.UNPINNED
        return Verdict(pod.name, container.name, kept, cpus or None, reason)

    def _heir(self, pod: Pod, container: Container, own: CPUSet) -> str:
        """Which later container of the pod holds CPUs of this one, in words; ``""`` if none."""
        held = self.view.assignments[pod.name]
        for later in pod.containers[pod.containers.index(container) + 1 :]:
            common = own & held.get(later.name, CPUSet())
            if common:
                what = "its CPUs" if common == own else f"its CPUs {common}"
                return f"{what} were given to {later.name} afterwards"
        return ""


@dataclass(frozen=True, slots=True)
class StateFile:
    """A ``cpu_manager_state``: where it was found, and its text."""

    name: str
    text: str


def answer(
    machine: Machine,
    config: KubeletConfig,
    pods: Sequence[Pod],
    *,
    state: StateFile | None = None,
    release: str,
    notes: Iterable[str] = (),
    devices: Devices = _NO_DEVICES,
    memory_state: MemoryState | None = None,
) -> Answer:
    """What a kubelet of ``release`` does with these pods, after it has started over the state file
    (``None``: there is none) and the memory manager's, and a plugin of each resource has registered
    its ``devices``. Pods come from an API server; a static one is critical.

    Raises :class:`KubeletRefuses` where it does not start, :class:`SubjectUsageError` for a pod
    that it would not even take up, and :class:`reference.NotModelled`.
    """
    topology, pods = topology_of(machine, release=release), [as_stored(pod) for pod in pods]
    known = known_pods(state, pods, config, release) if state is not None else []
    require_numa_nodes(devices, machine, release)
    in_cluster = replace(config, api_server=True)
    node = _started(machine, in_cluster, release, state, known, memory_state)
    said = [*notes, *notes_at_start(node, known, pods, config, release)]
    for resource, each in devices.items():
        node.do(RegisterDevices(resource, tuple(each)))
    later = [pod for pod in pods if pod not in known]
    for pod in later:
        apply(node, pod)
        if errors := node.possible_errors:
            raise KubeletRefuses(errors[0], POD_WAY_OUT, pod=pod.name)
    if devices and not node.view().hangs:
        try:
            node.do(AskPodResources())
        except NotModelled as why:
            said.append(f"which devices containers have is not known: {why}")
    view = node.view()
    held = holders(view, reserved_of(topology, config, release))
    if not view.hangs:
        node.do(Stop())
    return Answer(
        machine, topology, config, release, (*known, *later), view, held, tuple(said),
        node.memory_state,
    )  # fmt: skip


def require_numa_nodes(devices: Devices, machine: Machine, release: str) -> None:
    """Raises :class:`SubjectUsageError` where a device is near a NUMA node that the machine lacks,
    and for a release whose devices are not modelled."""
    if devices and minor_of(release) < _DEVICES_SINCE:
        raise SubjectUsageError(f"devices are simulated from 1.{_DEVICES_SINCE} on, not {release}")
    there = info_of(machine.tree, release=release).numa_node_ids if devices else ()
    for resource, each in devices.items():
        missing = {node for one in each for node in one.numa_nodes} - set(there)
        if missing:
            text = f"{machine.name} has no NUMA node {min(missing)}"
            raise SubjectUsageError(f"a device of {resource}: {text}")


def require_simulated(release: str) -> None:
    """Raises :class:`SubjectUsageError` where the model of the release shows no CPUs."""
    try:
        require_whole_node(release)
    except ValueError as error:
        raise SubjectUsageError(str(error)) from error
    if not has(release, Behaviour.STATE_FILE):
        raise SubjectUsageError(
            f"release {release} has no state file and logs no CPUs; 1.9 chooses the same CPUs"
        )


def reserved_of(topology: CPUTopology, config: KubeletConfig, release: str) -> CPUSet:
    """The CPUs that a kubelet with this configuration reserves: those of the list, or as many as
    the amounts come to, which it chooses."""
    listed = reserved_cpus(topology, config, release=release)
    if listed is not None or config.policy != "static":
        return listed or CPUSet()
    try:
        policy = make_policy(topology, as_known(config, release), release=release)
    except ConfigurationError:
        return CPUSet()  # the kubelet does not start with it
    return policy.reserved if isinstance(policy, StaticPolicy) else CPUSet()


def _started(
    machine: Machine,
    config: KubeletConfig,
    release: str,
    state: StateFile | None,
    known: Iterable[Pod],
    memory_state: MemoryState | None = None,
) -> Node:
    make = partial(Node, memory_state=memory_state)
    node = begun(machine, config, release, state, known, make=make)
    if node.view().running:
        return node
    error = node.view().error
    if memory_state is not None:
        _started(machine, config, release, state, known)  # raises where these are at fault
        raise KubeletRefuses(error, MEMORY_WAY_OUT)
    if state is not None:
        _started(machine, config, release, None, ())  # raises where the settings are at fault
        raise KubeletRefuses(error, WAY_OUT, file=state.name)
    raise KubeletRefuses(error)


def begun(
    machine: Machine,
    config: KubeletConfig,
    release: str,
    state: StateFile | None,
    known: Iterable[Pod],
    *,
    make: Callable[..., N],
) -> N:
    """A node from ``make``. Its kubelet was started over the state file with the manifests of the
    ``known`` pods in place, and may have given up. Raises :class:`SubjectUsageError` for a pod that
    it would not even take up."""

    def tree(name: str) -> Mapping[str, str]:
        return (machine if name == machine.name else topologies.machine(name)).tree

    node = make(tree, machine.name, config, release=release, discovering=info_of)
    if state is not None:
        node.do(WriteState(state.text))
    for pod in known:
        apply(node, pod)
    node.do(Start())
    return node


def apply(node: Node, pod: Pod) -> None:
    """Apply the pod; raises :class:`SubjectUsageError` where a kubelet would not take it up."""
    try:
        node.do(Apply(pod))
    except IllegalStep as error:
        raise SubjectUsageError(str(error).removeprefix("Apply: ")) from error


def notes_at_start(
    node: Node, known: Sequence[Pod], pods: Sequence[Pod], config: KubeletConfig, release: str
) -> Iterator[str]:
    """Notes on a node whose kubelet has just started with ``known`` pods."""
    if not has(release, Behaviour.ORDERED_ALLOCATION) and config.policy == "static":
        yield _CHANCE
    if node.outcomes > 1:
        yield (f"a kubelet that starts admits its pods in a random order: this is one of "
               f"{node.outcomes} possible answers")  # fmt: skip
    yield from assumed(known, pods)


def assumed(known: Iterable[Pod], pods: Collection[Pod]) -> Iterator[str]:
    """The note that names the ``known`` pods that were not given, if there are any."""
    nameless = [pod.name for pod in known if pod not in pods]
    if nameless:
        yield f"known only from the state file, and assumed to run: {few(nameless, 3)}"


# -- pods that the state file knows ------------------------------------------------------------


def known_pods(
    state: StateFile, pods: Iterable[Pod], config: KubeletConfig, release: str
) -> list[Pod]:
    """The pods that hold CPUs by the state file, those that were given first."""
    if not has(release, Behaviour.KEYED_BY_POD):
        raise SubjectUsageError(
            f"{state.name}: a state file of {release} names containers by ids, not pods"
        )
    try:
        found = Checkpoint.loads(
            state.text,
            policy=as_known(config, release).policy,
            release=release,
            feature_gates=config.feature_gates,
        )
    except CheckpointError:
        return []  # the kubelet does not start with it
    if any("\ufffd" in uid for uid in found.entries):
        raise SubjectUsageError(f"{state.name}: a pod's uid is not a string")
    given = {pod.uid: pod for pod in pods}
    nameless = sorted(set(found.entries) - set(given))
    pooled = sorted(set(found.pod_entries) & set(nameless))
    if pooled:
        raise SubjectUsageError(
            f"{state.name}: pod {pooled[0]} has a pool of its own: give its manifest with --pods"
        )
    ran = [pod for uid, pod in given.items() if uid in found.entries]
    return ran + [_pod_of(uid, found.entries[uid]) for uid in nameless]


def _pod_of(uid: str, entries: Mapping[str, CPUSet]) -> Pod:
    """A pod that asks for what it holds. Of containers that hold the same CPUs all but one are
    taken for init containers that have ended."""
    apps: list[Container] = []
    ended: list[Container] = []
    taken = CPUSet()
    for name, cpus in sorted(entries.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        one = exclusive(name, len(cpus))
        if cpus.isdisjoint(taken):
            apps.append(one)
            taken |= cpus
        else:
            ended.append(replace(one, kind=Kind.INIT))
    return Pod(uid, (*ended, *sorted(apps, key=lambda one: one.name)), uid)
