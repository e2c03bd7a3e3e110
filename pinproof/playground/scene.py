"""A node within a story, and the nodes that the steps of the story make of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import topologies
from conformance.discovered import topology_named
from conformance.holders import holders
from pinproof.documents import documents_in
from pinproof.kubelet_configuration import NO_MEMORY, only_one, settings_in, with_a_reservation
from pinproof.manifests import BadManifest, pods_of
from pinproof.playground.captured import machine_of
from pinproof.playground.story import BadStory, Story, require_shallow
from pinproof.reserved_memory import memory_in
from pinproof.simulation import (
    Answer,
    StateFile,
    apply,
    begun,
    known_pods,
    notes_at_start,
    require_simulated,
    reserved_of,
)
from reference import IllegalStep
from reference.branching import BranchingNode
from reference.releases import Release
from reference.steps import (
    Apply,
    Configure,
    Delete,
    KubeletConfig,
    Pod,
    Reboot,
    RemoveState,
    Start,
    Step,
    Stop,
    TakeOver,
    WriteState,
)
from topologies import Machine
from topologies.errors import one_line

_CONFIG: Final = "KubeletConfiguration"
_STATE: Final = "state file"
_CHANCE: Final = "the order of admission is random here: this is one of {} possible answers"
#: Steps that need the kubelet down. One that runs is stopped before, and started again after.
_WHILE_DOWN: Final = ("reboot", "configure", "upgrade", "write-state", "remove-state")


@dataclass(frozen=True, slots=True)
class Scene:
    """The node after some steps. ``pods`` are those whose manifests are in place, ``uids`` all that
    were used. ``taken``: the model's steps that the last step of the story was made of."""

    machine: Machine
    config: KubeletConfig
    release: str
    node: BranchingNode
    pods: tuple[Pod, ...]
    uids: frozenset[str]
    notes: tuple[str, ...]
    taken: tuple[Step, ...]

    def answer(self) -> Answer:
        """What the kubelet has done so far. Of a kubelet that is down the answer has no pods."""
        view = self.node.view()
        topology = topology_named(self.machine, release=self.release)
        held = holders(view, reserved_of(topology, self.config, self.release))
        pods = tuple(pod for pod in self.pods if pod.name in view.pods)
        return Answer(
            self.machine, topology, self.config, self.release, pods, view, held, self.notes
        )

    def after(self, kind: str, text: str) -> Scene:
        """The node after one more step of a story; this one stays as it is. Raises
        :class:`BadStory`, :class:`conformance.subject.SubjectUsageError`, and what the model and
        machines raise."""
        scene = replace(self, node=self.node.copy(), notes=(), taken=())
        runs = self.node.view().running
        if kind in _WHILE_DOWN:
            return scene._while_down(kind, text, runs=runs)
        match kind:
            case "apply":
                return scene._applied(text)
            case "delete":
                left = tuple(pod for pod in self.pods if pod.name != text)
                return replace(scene._do(Delete(text)), pods=left)
            case "start":
                return scene._do(Start())
            case "restart":
                return scene._do(*([Stop()] if runs else []), Start())
            case _:
                return scene._do(Stop(kill=kind == "kill"))

    def _while_down(self, kind: str, text: str, *, runs: bool) -> Scene:
        scene, step = self._changed(kind, text)
        return scene._do(*([Stop()] if runs else []), step, *([Start()] if runs else []))

    def _changed(self, kind: str, text: str) -> tuple[Scene, Step]:
        match kind:
            case "reboot":
                machine = topologies.machine(text) if text else self.machine
                topology_named(machine, release=self.release)
                return replace(self, machine=machine), Reboot(text)
            case "configure":
                config, notes = configured(text, self.machine, self.release)
                return replace(self, config=config, notes=notes), Configure(config)
            case "upgrade":
                require_simulated(text)
                return replace(self, release=text), TakeOver(text)
            case "write-state":
                return self, WriteState(text)
            case _:
                return self, RemoveState()

    def _applied(self, text: str) -> Scene:
        found, notes = manifests(text, "manifest")
        pods = [self._with_a_uid(pod) for pod in found]
        for pod in pods:
            apply(self.node, pod)
        return replace(
            self,
            pods=(*self.pods, *pods),
            uids=self.uids.union(pod.uid for pod in pods),
            notes=notes + self._by_chance(),
            taken=tuple(map(Apply, pods)),
        )

    def _with_a_uid(self, pod: Pod) -> Pod:
        """A pod that is applied again without a uid of its own gets a new one, as from the API."""
        if pod.uid not in self.uids or pod.uid != Pod(pod.name, ()).uid:
            return pod
        return replace(pod, uid=str(uuid.uuid5(uuid.UUID(pod.uid), str(len(self.uids)))))

    def _do(self, *steps: Step) -> Scene:
        for step in steps:
            try:
                self.node.do(step)
            except IllegalStep as error:
                raise BadStory(str(error)) from error
        return replace(self, taken=steps, notes=self.notes + self._by_chance())

    def _by_chance(self) -> tuple[str, ...]:
        outcomes = self.node.outcomes
        return (_CHANCE.format(outcomes),) if outcomes > 1 else ()


def begin(story: Story) -> Scene:
    """The node of a story before its first step. Raises as :meth:`Scene.after`."""
    machine = machine_of(story.machine, story.archive)
    require_simulated(story.release)
    config, notes = configured(story.config, machine, story.release)
    ran, more = manifests(story.ran, "pods that ran before") if story.ran.strip() else ((), ())
    state, known = None, list(ran)
    if story.state.strip():
        state = StateFile(_STATE, story.state)
        known = known_pods(state, ran, config, story.release)
    node = begun(machine, config, story.release, state, known, make=BranchingNode)
    later = [pod for pod in ran if pod not in known]
    for pod in later:
        apply(node, pod)
    said = notes_at_start(node, known, ran, config, story.release)
    pods = (*known, *later)
    first: Iterable[Step] = [*([WriteState(story.state)] if state else []), Start()]
    return Scene(
        machine,
        config,
        story.release,
        node,
        pods,
        frozenset(pod.uid for pod in pods),
        (*notes, *more, *said),
        tuple(first),
    )


def configured(text: str, machine: Machine, release: str) -> tuple[KubeletConfig, tuple[str, ...]]:
    """The settings of a KubeletConfiguration, and notes on them. Raises
    :class:`conformance.subject.SubjectUsageError`."""
    topology = topology_named(machine, release=Release.parse(release))
    if not text.strip():
        return with_a_reservation(KubeletConfig(), topology, release), ()
    every = _documents(text, _CONFIG)
    config, notes = settings_in(every, _CONFIG, release=release)
    memory = memory_in(only_one(every, _CONFIG), _CONFIG)
    if memory.policy != "None":
        reserved = dict(memory.reserved or {})
        config = replace(config, memory_manager_policy=memory.policy, reserved_memory=reserved)
    return config, tuple(note for note in notes if note != NO_MEMORY)


def manifests(text: str, what: str) -> tuple[tuple[Pod, ...], tuple[str, ...]]:
    """The pods of manifests, and notes on them. Raises :class:`BadStory`,
    :class:`conformance.subject.SubjectUsageError`."""
    try:
        found = pods_of(_documents(text, what))
    except BadManifest as error:
        raise BadStory(f"{what}: {one_line(str(error))}") from error
    return found.pods, found.notes


def _documents(text: str, what: str) -> list[Any]:
    if text.lstrip()[:1] in ("{", "["):
        require_shallow(text, what)
    return documents_in(text, what)
