"""One case on the model and on the Go code, request by request.

What belongs here: what is asked, what the model says to it, and where the Go code differs. What
never does: how cases are drawn, or made smaller.

The model goes first, and says which requests there are to make; they are sent together, because
nothing in them hangs on an answer. A case ends early where the model does not know, and where it
says that the kubelet hangs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from benchmarks.exactness.cases import (
    Action,
    Again,
    Arrive,
    Ask,
    Case,
    Exit,
    Leave,
    Restart,
    Round,
)
from conformance.describe import config_text, pod_text
from conformance.subject import SubjectLostError
from conformance.subjects.exec import wire
from conformance.subjects.exec.machineinfo import machine_line
from conformance.subjects.exec.node import pod_line, settings
from conformance.subjects.exec.program import Program
from reference import (
    AllocationError,
    CheckpointError,
    CPUManager,
    KubeletError,
    KubeletHangs,
    NotModelled,
    StateError,
    make_policy,
)
from reference.admission import Refusal, allocation_refusal, refusal
from reference.errors import TopologyAffinityError
from reference.hints import Hint
from reference.policy import require_settings
from reference.steps import Container, Kind, KubeletConfig, Pod
from reference.topology_manager import TopologyManager, faults_of_settings, refusal_of

_STATE_FILE: Final = "/var/lib/kubelet/cpu_manager_state"
_nodes = itertools.count(1)


class End(Enum):
    """How far a case came."""

    WHOLE = "walked to its end"
    OUTSIDE = "went on where the model does not know"
    HANGS = "ended with a kubelet that hangs"


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the two differ: what was asked, in words, and what each says to it."""

    asked: str
    model: str
    go: str


@dataclass(slots=True)
class Asked:
    """A request, what it is called, and what the model says: a check that returns the Go code's
    word where it is another, and the state file as it is afterwards."""

    request: wire.Request
    words: str
    model: str
    check: Callable[[wire.Answer], str | None]
    state_file: str | None


@dataclass(slots=True)
class Script:
    """All that is asked in a case."""

    asked: list[Asked] = field(default_factory=list)
    end: End = End.WHOLE
    hanging: wire.Request | None = None


def compare(
    case: Case, program: Program, *, hangs: float = 0.0
) -> tuple[Difference | None, Script]:
    """The first difference, ``None`` if there is none. ``hangs``: make sure that the Go code hangs
    where the model says so, for so many seconds, which costs the program.

    A program that is lost where it should not be is a difference.
    """
    script = Model(case).script()
    requests = [one.request for one in script.asked]
    if hangs and script.hanging is not None:
        return _hangs(script, program, requests, hangs), script
    node = requests[0].node if requests and isinstance(requests[0], wire.Start) else ""
    try:
        answers = program.exchange([*requests, wire.Close(node=node)])
    except SubjectLostError as error:
        return Difference("the case as a whole", "goes on", str(error)), script
    return _first_difference(script, answers), script


def _hangs(
    script: Script, program: Program, requests: list[wire.Request], patience: float
) -> Difference | None:
    assert script.hanging is not None
    try:
        found = _first_difference(script, program.exchange(requests))
    except SubjectLostError as error:
        return Difference("the case as a whole", "goes on", str(error))
    if found is not None:
        return found
    program.patience = patience
    try:
        (last,) = program.exchange([script.hanging])
    except SubjectLostError as error:
        if "hangs" in str(error):
            return None
        return Difference("the last request", "hangs", str(error))
    return Difference("the last request", "hangs", f"{last}")


def _first_difference(script: Script, answers: list[wire.Answer]) -> Difference | None:
    state: str | None = None
    for asked, answer in zip(script.asked, answers, strict=False):
        if answer.error or answer.panic:
            trouble = f"panics: {answer.panic}" if answer.panic else f"refuses: {answer.error}"
            return Difference(asked.words, asked.model, trouble)
        seen = asked.check(answer)
        if seen is not None:
            return Difference(asked.words, asked.model, seen)
        if isinstance(answer.state_file, str) or answer.state_file is None:
            state = answer.state_file
        if state != asked.state_file:
            return Difference(f"{asked.words}: state file", str(asked.state_file), str(state))
    return None


class Model:
    """The model's side of one case; :meth:`script` walks it."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._release = case.release
        self._node = f"x{next(_nodes)}"
        self._config = case.config
        self._manager: CPUManager | None = None
        self._state_file: str | None = None
        self._saved = 0
        self._active: dict[str, Pod] = {}
        self._boxes: dict[tuple[str, str], str] = {}
        self._ids: dict[tuple[str, str], str] = {}
        self._created = 0
        self._machine = case.machine
        self._told_machine = False
        self._script = Script()

    def script(self) -> Script:
        """Everything that is asked, and what the model says to it."""
        try:
            self._start(self._config)
            for action in self._case.actions:
                self._act(action)
        except NotModelled:
            self._script.end = End.OUTSIDE
        except KubeletHangs:
            self._script.end = End.HANGS
        return self._script

    def _act(self, action: Action) -> None:
        if isinstance(action, Restart):
            self._restart(action)
            return
        if not self._runs():
            return
        match action:
            case Arrive(pod=pod):
                self._arrive(pod)
            case Leave(pod=name):
                self._leave(name)
            case Round():
                self._round()
            case Ask(pod=pod):
                for container in (*pod.containers, None):
                    self._ask(pod, container)
            case Exit(pod=name):
                self._exit(name)
            case Again(pod=name):
                self._again(name)

    # --- actions -----------------------------------------------------------------------------

    def _restart(self, action: Restart) -> None:
        if self._manager is not None:
            self._put(wire.Stop(node=self._node), "stop the kubelet", "", _nothing)
        self._manager = None
        if action.machine is not None:
            self._machine, self._told_machine = action.machine, False
        self._start(action.config or self._config)
        if self._runs():
            pods, self._active = list(self._active.values()), {}
            for pod in pods:
                self._arrive(pod)

    def _start(self, config: KubeletConfig) -> None:
        request = wire.Start(
            node=self._node, config=settings(config), containers=self._containers()
        )
        words = f"start the kubelet with {config_text(config)}"
        if not self._told_machine:
            request.machine = machine_line(self._machine)
            words += f" on {self._machine.num_cores} CPUs"
        self._told_machine = True
        self._script.hanging = request
        try:
            manager = self._started(config)
        except KubeletError as error:
            possible = {_as_told(error, text) for text in error.possible}
            self._put(request, words, f"gives up: {sorted(possible)}", _gives_up(possible))
            return
        self._manager, self._saved = manager, 0
        self._save()
        self._put(request, words, "runs", _runs)

    def _started(self, config: KubeletConfig) -> CPUManager:
        faults = faults_of_settings(config, release=self._release)
        if faults:
            raise NotModelled("; ".join(faults))  # not the CPU manager's to judge
        info = self._machine
        topology = info.cpu_topology()
        require_settings(topology, config, release=self._release)
        aligner = TopologyManager(info, config, release=self._release)
        manager = CPUManager(
            make_policy(topology, config, release=self._release),
            release=self._release,
            feature_gates=config.feature_gates,
            aligner=aligner,
        )
        boxes = {one.id: (one.pod_uid, one.name) for one in self._containers()}
        manager.start(self._state_file, boxes)
        return manager

    def _arrive(self, pod: Pod) -> None:
        manager = self._running()
        request = wire.Admit(node=self._node, pod=pod_line(pod))
        self._script.hanging = request
        words = f"admit {pod_text(pod)}"
        possible: set[Refusal] = set()
        try:
            manager.admit(pod, [*self._active.values(), pod])
        except TopologyAffinityError as error:
            possible = {refusal_of(error, self._release)}
        except AllocationError as error:
            possible = {allocation_refusal(error, self._release)}
        self._save()
        if possible:
            check = _refused(possible, self._release)
            self._put(request, words, f"refused: {sorted(possible)}", check)
            self._forget(pod)
            return
        self._put(request, words, "admitted", _admitted)
        self._active[pod.name] = pod
        for container in pod.containers:
            self._create(pod, container)

    def _create(self, pod: Pod, container: Container) -> None:
        key = (pod.uid, container.name)
        if key in self._boxes:
            return
        self._created += 1
        self._ids[key] = f"{'/'.join(key)}/{self._created}"
        manager = self._running()
        cpus = str(manager.affinity(*key))
        manager.add_container(*key)
        # What init containers do here ends at once.
        self._boxes[key] = "exited" if container.kind is Kind.INIT else "running"
        request = wire.Create(
            node=self._node, pod_uid=pod.uid, container=container.name, container_id=self._ids[key]
        )
        self._put(request, f"create {pod.name}/{container.name}", cpus, _created(cpus))

    def _exit(self, name: str) -> None:
        """Nobody tells the CPU manager: the next round sees it."""
        pod = self._active.get(name)
        for key in [key for key in self._boxes if pod is not None and key[0] == pod.uid]:
            self._boxes[key] = "exited"

    def _again(self, name: str) -> None:
        pod = self._active.get(name)
        for container in () if pod is None else pod.containers:
            if container.kind is not Kind.INIT and pod is not None:
                self._boxes.pop((pod.uid, container.name), None)
                self._create(pod, container)

    def _leave(self, name: str) -> None:
        pod = self._active.pop(name, None)
        if pod is None:
            return
        self._forget(pod)
        request = wire.Remove(node=self._node, pod_uid=pod.uid)
        self._put(request, f"remove {name}", "", _nothing)

    def _forget(self, pod: Pod) -> None:
        for key in [key for key in self._boxes if key[0] == pod.uid]:
            del self._boxes[key]

    def _round(self) -> None:
        manager = self._running()
        manager.sources_ready = True
        sent = [
            (uid, name, str(cpus))
            for uid, name, cpus in manager.reconcile(
                list(self._active.values()), lambda *key: self._boxes.get(key) == "running"
            )
        ]
        self._save()
        request = wire.Reconcile(node=self._node, containers=self._containers())
        self._put(request, "reconcile", str(sent), _sent(sent))

    def _ask(self, pod: Pod, container: Container | None) -> None:
        manager = self._running()
        active = [*self._active.values()]
        if pod.name not in self._active:
            active.append(pod)
        found = (
            manager.pod_hints(pod, active)
            if container is None
            else manager.hints(pod, container, active)
        )
        self._save()
        name = container.name if container else ""
        request = wire.Hints(node=self._node, pod=pod_line(pod), container=name)
        words = f"hints for {name or 'the whole'} of {pod_text(pod)}"
        shown = _hints_text(found)
        self._put(request, words, shown, _hinted(shown))

    # --- parts -------------------------------------------------------------------------------

    def _put(
        self,
        request: wire.Request,
        words: str,
        model: str,
        check: Callable[[wire.Answer], str | None],
    ) -> None:
        self._script.asked.append(Asked(request, words, model, check, self._state_file))
        self._script.hanging = None

    def _runs(self) -> bool:
        return self._manager is not None

    def _running(self) -> CPUManager:
        assert self._manager is not None
        return self._manager

    def _save(self) -> None:
        manager = self._running()
        if manager.state.changes != self._saved:
            self._saved = manager.state.changes
            self._state_file = manager.state_file()

    def _containers(self) -> list[wire.ContainerState]:
        return [
            wire.ContainerState(pod_uid=uid, name=name, id=self._ids[uid, name], state=state)
            for (uid, name), state in self._boxes.items()
        ]


def _as_told(error: KubeletError, text: str) -> str:
    if isinstance(error, CheckpointError):
        return (
            f"start: could not restore state from checkpoint: {text}, please drain this node and "
            f'delete the CPU manager checkpoint file "{_STATE_FILE}" before restarting Kubelet'
        )
    return f"{'start' if isinstance(error, StateError) else 'configuration'}: {text}"


# --- checks: None where the answer is as the model says, else what it says ---------------------


def _nothing(answer: wire.Answer) -> str | None:
    return None


def _runs(answer: wire.Answer) -> str | None:
    assert isinstance(answer, wire.StartAnswer)
    refused = answer.refused
    return None if refused is None else f"gives up: {refused.stage}: {refused.message}"


def _gives_up(possible: set[str]) -> Callable[[wire.Answer], str | None]:
    def check(answer: wire.Answer) -> str | None:
        assert isinstance(answer, wire.StartAnswer)
        refused = answer.refused
        if refused is None:
            return "runs"
        told = f"{refused.stage}: {refused.message}"
        return None if told in possible else f"gives up: {told}"

    return check


def _admitted(answer: wire.Answer) -> str | None:
    assert isinstance(answer, wire.AdmitAnswer)
    return None if answer.admitted else f"refused: {answer.reason}: {answer.message}"


def _refused(possible: set[Refusal], release: str) -> Callable[[wire.Answer], str | None]:
    def check(answer: wire.Answer) -> str | None:
        assert isinstance(answer, wire.AdmitAnswer)
        if answer.admitted:
            return "admitted"
        told = refusal(answer.reason, answer.message, release)
        return None if told in possible else f"refused: {told}"

    return check


def _created(cpus: str) -> Callable[[wire.Answer], str | None]:
    def check(answer: wire.Answer) -> str | None:
        assert isinstance(answer, wire.CreateAnswer)
        return None if answer.cpus == cpus else str(answer.cpus)

    return check


def _sent(sent: list[tuple[str, str, str]]) -> Callable[[wire.Answer], str | None]:
    def check(answer: wire.Answer) -> str | None:
        assert isinstance(answer, wire.ReconcileAnswer)
        seen = [(one.pod_uid, one.container, one.cpus) for one in answer.updates or ()]
        return None if seen == sent else str(seen)

    return check


def _hinted(shown: str) -> Callable[[wire.Answer], str | None]:
    def check(answer: wire.Answer) -> str | None:
        assert isinstance(answer, wire.HintsAnswer)
        found = (answer.hints or {}).get("cpu")
        seen = "none" if found is None else ", ".join(_seen_hints(found)) or "impossible"
        return None if seen == shown else seen

    return check


def _seen_hints(found: list[wire.Hint]) -> Iterator[str]:
    for one in found:
        yield f"{one.numa}{' preferred' if one.preferred else ''}"


def _hints_text(found: list[Hint] | None) -> str:
    if found is None:
        return "none"
    texts = []
    for one in found:
        bits = None if one.nodes is None else _bits(one.nodes)
        texts.append(f"{bits}{' preferred' if one.preferred else ''}")
    return ", ".join(texts) or "impossible"


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
