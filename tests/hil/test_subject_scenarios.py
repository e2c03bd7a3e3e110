"""Scenarios on a node that is not there: the steps of a real node, carried out on the model.

The node below answers acts with looks as a real one does. Whatever is wrong with a miniature is
done behind the kubelet's back, as it would be on a node: after the fact, in the cgroup; or to the
state file, while the kubelet is down.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

import topologies
from conformance.catalogue import catalogue, find
from conformance.discovered import topology_of
from conformance.judge import Case, judge
from conformance.kubelets.settings import deciding
from conformance.observations import node_records
from conformance.oracle import ModelOracle
from conformance.pods import guaranteed
from conformance.rejudging import rejudged
from conformance.results import Result
from conformance.scenario import Scenario
from conformance.stream import StreamWriter
from conformance.subject import NOT_OF_REAL_NODES
from conformance.verdict import ExitStatus
from hil.distributions import Distribution
from hil.inspection import NodeFacts, kubelet_of
from hil.inspection.kubelet import document
from hil.observation import ContainerObserved, Level, Observation, ServiceState
from hil.pods import Image, PodSource, text
from hil.pods import ServerPods as OfAPIServer
from hil.safety import Change, RemoveFile, Risk, SetOnline, WriteFile
from hil.session.leasing import LeasedNode
from hil.session.node_session import NodeSession, Patience
from hil.session.scripts import Act
from hil.shell import Done, Shell
from hil.subject import NodeSubject, Options, _Reached
from hil.transport import NodeAddress
from hil.transport.local import LocalShell
from pinproof.manifests import pods_of
from reference import CPUSet, Node, steps
from reference.errors import IllegalStep
from reference.steps import Kind, KubeletConfig, Pod, RestartPolicy
from reference.view import CFS_PERIOD, Phase
from tests.support.fakenode import FakeNode

SPEC: Final = "2s-2n-8c-smt2"
RELEASE: Final = "1.36"
STATE: Final = "/var/lib/kubelet/cpu_manager_state"
MANIFESTS: Final = "/etc/kubernetes/manifests"
CONFIG: Final = "/var/lib/kubelet/config.yaml"
#: Words of the scripts of a distribution.
STOP: Final = "systemctl stop kubelet.service"
KILL: Final = "systemctl kill "
START: Final = "systemctl start kubelet.service"
PHASES: Final = {Phase.REJECTED: "Failed", Phase.ENDED: "Failed", Phase.RUNNING: "Running"}


class NoHands:
    trips = 0

    def act(self, script: str, *changes: Change, deadline: float, reads: bool = False) -> Done:
        raise AssertionError("the node below needs no shell")

    def assure(self) -> None:
        """The model has no timer."""


@cache
def _described(spec: str) -> NodeFacts:
    """Of a node made of files."""
    with TemporaryDirectory() as folder:
        return FakeNode(Path(folder) / "root", spec).facts()


def facts(**settings: Any) -> NodeFacts:
    """Of a node without pods, with these settings beside its own."""
    found = _described(SPEC)
    own = {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        "readOnlyPort": 10255,
        "cpuManagerReconcilePeriod": "1s",
    }
    kubelet = replace(
        kubelet_of(found), release=RELEASE, state_file=None, settings={**own, **settings}
    )
    machine = replace(topologies.machine(SPEC), name="fake")
    return replace(found, kubelet=kubelet, machine=machine, workloads=())


class ModelMember(NodeSession):
    """A node whose kubelet is the model, and which is not waited for. ``tamper_after`` is what
    somebody writes into a cgroup once a pod runs; ``lose_at_start`` takes the entries out of the
    state file before each start."""

    def __init__(
        self,
        *,
        risk: Risk = Risk.CPU_OFFLINE,
        tamper_after: CPUSet | None = None,
        lose_at_start: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(
            "fake",
            NoHands(),
            facts(**settings),
            Distribution("fake", lambda *_: True),
            risk=risk,
            image=Image("busybox"),
            boot=self.booted,
            spec=SPEC,
        )
        self.patience = Patience(start=1.0, effect=0.02, rest=0.02, watch=0.01)
        self._base = SPEC
        self.tamper_after = tamper_after
        self.lose_at_start = lose_at_start
        self.acts: list[Act] = []
        self._online = self._all()
        self._node = self._make(self.own_config)
        self._config = self.own_config
        self._pods: dict[str, Pod] = {}
        self._ever: dict[str, Pod] = {}
        self._pids: dict[int, tuple[str, str]] = {}
        self._started = 0
        self._restarts = 0
        self._do(steps.Start())

    def _make(self, config: KubeletConfig) -> Node:
        config = config.with_memory_manager_of(self.own_config)
        return Node(lambda name: self._tree(), "fake", config, release=RELEASE)

    def _tree(self) -> Any:
        whole = topologies.machine(self._base)
        gone = self._all() - self._online
        return (topologies.offline(whole, gone) if gone else whole).tree

    def _all(self) -> CPUSet:
        return CPUSet(topology_of(topologies.machine(self._base), release=RELEASE).details)

    def booted(self, machine: str) -> None:
        """The lab boots it again, as another machine perhaps."""
        self._base = machine or self._base
        self._online = self._all()
        self._do(steps.Stop())
        self._do(steps.Reboot("fake"))

    def _do(self, step: steps.Step) -> None:
        try:
            self._node.do(step)
        except IllegalStep:
            return
        if isinstance(step, steps.Start):
            self._started += 1

    # What a script and its changes do.

    def act(self, act: Act, *, spin: bool = False, log: bool = False) -> Observation:
        self.acts.append(act)
        script = act.script
        if KILL in script or STOP in script:
            self._do(steps.Stop())
        for change in act.changes:
            self._change(change)
        if "rm -f" in script and STATE in script:
            self._pods.clear()
            self._node = self._make(self._config)
        if START in script:
            self._restarts = 0
            if self.lose_at_start and self._node.view().state_file is not None:
                self._do(steps.RemoveState())
            self._do(steps.Start())
        if "pin_more()" in script:
            self._restarts += 1
        for pid in re.findall(r"^kill -9 (\d+)$", script, re.M):
            self._do(steps.KillContainer(*self._pids[int(pid)]))
        for cpus, path in re.findall(r"echo (\S+) >(\S+)/cpuset\.cpus$", script, re.M):
            uid, container = path.rsplit("/", 2)[-2:]
            self._do(steps.Tamper(self._name(uid), container, CPUSet.parse(cpus.strip("'"))))
        for quota, path in re.findall(r"echo (\d+) 100000 >(\S+)/cpu\.max", script):
            uid, container = path.rsplit("/", 2)[-2:]
            self._do(steps.TamperQuota(self._name(uid), container, int(quota)))
        return self._look(spin=spin)

    def _name(self, folder: str) -> str:
        return next(pod.name for pod in self._pods.values() if f"pod{pod.uid}" == folder)

    def _change(self, change: Change) -> None:
        match change:
            case WriteFile(path=path, content=content) if path == CONFIG:
                self._config = deciding(document(content.decode()))
                self._do(steps.Configure(self._config.with_memory_manager_of(self.own_config)))
            case WriteFile(path=path, content=content) if path == STATE:
                self._do(steps.WriteState(content.decode("utf-8", "surrogateescape")))
            case RemoveFile(path=path) if path == STATE:
                self._do(steps.RemoveState())
            case WriteFile(path=path, content=content):
                pod = _pod(json.loads(content))
                self._pods[path] = self._ever[pod.name] = pod
                self._do(steps.Apply(pod))
                if self.tamper_after is not None and pod.name in self._node.view().cpusets:
                    self._do(steps.Tamper(pod.name, pod.containers[-1].name, self.tamper_after))
            case RemoveFile(path=path):
                found = self._pods.pop(path, None)
                if found is not None:
                    self._do(steps.Delete(found.name))
            case SetOnline(cpu=cpu, online=online):
                one = CPUSet([cpu])
                self._online = self._online | one if online else self._online - one
                self._node._info = self._node._discover(self._tree(), release=RELEASE)

    def _look(self, *, spin: bool) -> Observation:
        view = self._node.view()
        items = []
        for pod in self._pods.values():
            if (seen := view.pods.get(pod.name)) is None:
                continue
            status = {
                "phase": PHASES.get(seen.phase, "Pending"),
                "reason": seen.reason,
                "message": seen.message,
                "qosClass": seen.qos,
            }
            items.append({"metadata": {"uid": pod.uid, "name": pod.name}, "status": status})
        containers = [
            self._truth(self._ever[name], container, cpus, spin)
            for name, sets in view.cpusets.items()
            for container, cpus in sets.items()
            if name in self._ever
        ]
        down = not view.running
        return Observation(
            online=self._online,
            service=ServiceState(
                active="activating" if view.error else ("inactive" if down else "active"),
                sub="running",
                pid=0 if down else 100,
                restarts=self._restarts,
                exit_status=view.exit_status,
                exit_code="exited" if view.error else "",
                invocation=str(self._started),
            ),
            state_file=view.state_file,
            containers=tuple(containers),
            pods=None if down else json.dumps({"items": items}),
            log=_log(view.error),
            print=str(len(self.acts)),
        )

    def _pod_quota(self, pod: Pod) -> int | None:
        """That of its own cgroup."""
        cfs = self._node.view().pod_cfs.get(pod.name)
        return None if cfs is None else cfs.quota

    def _truth(
        self, pod: Pod, container: str, cpus: CPUSet | None, spin: bool
    ) -> ContainerObserved:
        effective = (cpus or self._online) & self._online or self._online
        cfs = self._node.view().cfs.get(pod.name, {}).get(container)
        quota, period = (cfs.quota, cfs.period) if cfs is not None else (None, CFS_PERIOD)
        pid = 7 + len(self._pids)
        self._pids[pid] = pod.name, container
        return ContainerObserved(
            id=f"{pod.uid}-{container}",
            pid=pid,
            uid=pod.uid,
            name=container,
            levels=(
                Level(f"/kubepods/pod{pod.uid}/{container}", cpus, effective, quota, period),
                Level(f"/kubepods/pod{pod.uid}", CPUSet(), self._online, self._pod_quota(pod)),
                Level("/", None, self._online),
            ),
            tasks={pid: effective},
            ran_on=CPUSet([min(effective)]) if spin else CPUSet(),
        )


def _log(error: str) -> str:
    if not error:
        return ""
    escaped = error.replace("\\", "\\\\").replace('"', '\\"')
    plain = error.startswith("failed to run Kubelet: ")
    text = escaped.removeprefix("failed to run Kubelet: ") if plain else escaped
    wrapped = f"failed to run Kubelet: {text}" if plain else f"start cpu manager error: {text}"
    return f'E1121 09:28:00.1 42 run.go:72] "command failed" err="{wrapped}"'


def _pod(manifest: dict[str, Any]) -> Pod:
    """The pod of a manifest that our own code has written."""
    (pod,) = pods_of([manifest]).pods
    spec = manifest["spec"]
    shapes = {one["name"]: one for one in [*spec.get("initContainers", []), *spec["containers"]]}
    containers = [
        replace(one, restart_policy=RestartPolicy(shapes[one.name]["restartPolicy"]))
        if one.kind is not Kind.SIDECAR and "restartPolicy" in shapes[one.name]
        else one
        for one in pod.containers
    ]
    return replace(
        pod,
        name=pod.name.removeprefix("pinproof-"),
        containers=tuple(containers),
        restart_policy=RestartPolicy(spec["restartPolicy"]),
    )


class FakeSubject(NodeSubject):
    """The subject of real nodes, with one such node."""

    def __init__(self, session: ModelMember, risk: Risk = Risk.REBOOT) -> None:
        address = NodeAddress("fake", "local:", lab=SPEC)
        reached = _Reached(address, LocalShell("fake"), session.facts)
        super().__init__("fake", [reached], Options(risk))
        self._model = session

    def _lease(self, address: NodeAddress, shell: Shell, facts: NodeFacts) -> LeasedNode:
        nobody: Any = SimpleNamespace(leave=lambda patience: None)
        return LeasedNode(self._model, nobody)


class ServerPods(OfAPIServer):
    """Pods that come through an API server, which gives them other uids and is not there: the node
    tells of them."""

    await_settled = PodSource.await_settled
    listed = PodSource.listed
    all_pods = PodSource.all_pods
    close = PodSource.close

    def __init__(self, session: ModelMember) -> None:
        super().__init__(cast(Any, self), RELEASE)
        self._session = session
        self.uids: dict[str, str] = {}

    def create(self, pod: Pod) -> tuple[Pod, tuple[Change, ...]]:
        there = replace(pod, uid=str(uuid.uuid4()))
        self.uids[pod.uid] = there.uid
        self._session._pods[pod.name] = self._session._ever[pod.name] = there
        self._session._do(steps.Apply(there))
        return there, ()

    def delete(self, pod: Pod, *, force: bool) -> tuple[Change, ...]:
        if self._session._pods.get(pod.name) == pod:
            del self._session._pods[pod.name]
            self._session._do(steps.Delete(pod.name, force))
        return ()


def run(scenario: Scenario | str, session: ModelMember, risk: Risk = Risk.REBOOT) -> Result:
    """What comes of a scenario, or of the one with this id, on the node."""
    found = find(scenario) if isinstance(scenario, str) else scenario
    assert found is not None
    oracle = partial(ModelOracle, release=RELEASE)
    case = Case(found, session.machine)
    return judge(case, FakeSubject(session, risk), oracle=oracle, release=RELEASE).result


def stream(result: Result, session: ModelMember, at: Path) -> Path:
    """A result stream of one result on this node, in the folder ``at``."""
    subject, path = FakeSubject(session), at / "result.jsonl"
    machines, nodes = [session.machine.name], node_records(subject)
    writer = StreamWriter(path, subject.info, machines, environment={}, nodes=nodes)
    writer.add(result)
    writer.finish({}, ExitStatus.CONFORMANT)
    return path


OF_NODES: Final = [
    one for one in catalogue() if not (one.machine or one.capabilities & NOT_OF_REAL_NODES)
]


@pytest.mark.parametrize("source", [None, ServerPods], ids=["static pods", "pods of a server"])
@pytest.mark.parametrize("scenario", OF_NODES, ids=lambda one: one.id)
def test_a_node_like_the_model_keeps_every_promise(
    scenario: Scenario, source: type[ServerPods] | None, tmp_path: Path
) -> None:
    """All that its capabilities allow; nothing is unknown for the node's own fault. Its verdict
    follows from what the result stream keeps of it. State files are compared to the byte, under the
    uids that the model knows."""
    session = ModelMember()
    if source is not None:
        session.pod_source = source(session)
    result = run(scenario, session)
    assert result.verdict in ("pass", "skip"), result.explanation
    if result.verdict == "pass":
        (again,) = rejudged(stream(result, session, tmp_path))
        assert not again.wrong


@pytest.mark.parametrize(
    "scenario", [one for one in catalogue() if one.area == "node"], ids=lambda one: one.id
)
def test_so_does_a_small_one(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only real nodes are asked for these, and many have no more than three CPUs for pods."""
    monkeypatch.setitem(globals(), "SPEC", "1s-1n-4c-smt1")
    result = run(scenario, ModelMember())
    assert result.verdict in ("pass", "skip"), result.explanation


def test_a_kubelet_that_loses_assignments_at_its_start_is_caught() -> None:
    """Its state file is gone when it comes up, and pods may get other CPUs."""
    result = run("restart/deleted-while-down-is-freed", ModelMember(lose_at_start=True))
    assert result.verdict == "fail", result.explanation


@pytest.mark.parametrize(
    "scenario",
    [
        "qos/whole-cpus-are-exclusive",
        "pool/deletion-returns-cpus",
        "admission/too-large-is-rejected",
    ],
)
def test_with_pods_only_the_kubelet_is_left_alone(scenario: str) -> None:
    session = ModelMember(risk=Risk.PODS)
    result = run(scenario, session, Risk.PODS)
    assert result.verdict == "pass", result.explanation
    assert not [act for act in session.acts for one in (STOP, KILL, START) if one in act.script]
    paths = {change.path for act in session.acts for change in act.changes}  # type: ignore[union-attr]
    assert paths
    assert all(path.startswith(f"{MANIFESTS}/pinproof-") for path in paths)


@pytest.mark.parametrize(
    ("scenario", "options", "reason"),
    [
        (
            "options/full-pcpus-partial-core-is-rejected",
            {},
            "another kubelet configuration than the node's own: needs --max-risk kubelet-restart",
        ),
        (
            "restart/stop-keeps-assignments",
            {},
            "the subject cannot stop, kill and start the kubelet",
        ),
        ("node/all-cpus-offline-lose-exclusivity", {}, "the subject cannot take CPUs offline"),
        # A promise that does not hold with the owner's settings is not asked for.
        (
            "qos/1000m-is-a-whole-cpu",
            {"full-pcpus-only": "true"},
            "the settings of the node's owner",
        ),
    ],
)
def test_with_pods_only_the_rest_is_skipped(
    scenario: str, options: dict[str, str], reason: str
) -> None:
    """With its reason, before any step, and as something that a certificate lacks."""
    session = ModelMember(risk=Risk.PODS, cpuManagerPolicyOptions=options)
    result = run(scenario, session, Risk.PODS)
    assert result.verdict == "skip", result.explanation
    assert reason in result.reason
    assert result.unable
    assert not session.acts


MEMORY: Final[dict[str, Any]] = {
    "memoryManagerPolicy": "Static",
    "reservedMemory": [{"numaNode": node, "limits": {"memory": "256Mi"}} for node in (0, 1)],
}


@pytest.mark.parametrize(
    ("scenario", "verdict"),
    [
        ("topology/restricted-admits-the-fewest", "skip"),
        ("topology/best-effort-admits-scattered", "pass"),
        ("topology/restricted-refuses-scattered", "pass"),
        ("restart/stop-keeps-assignments", "pass"),
    ],
)
def test_a_memory_manager_stays_whatever_scenarios_configure(
    scenario: str, verdict: str, tmp_path: Path
) -> None:
    """Its hints decide with those of the CPU manager, and the result stream keeps that."""
    session = ModelMember(**MEMORY)
    result = run(scenario, session)
    assert result.verdict == verdict, result.explanation
    assert result.unable == (verdict == "skip")
    if verdict == "pass":
        assert "memory manager Static" in result.steps[0]
        (again,) = rejudged(stream(result, session, tmp_path))
        assert not again.wrong


def test_with_pods_of_others_pinned_nothing_can_be_told() -> None:
    """The model knows nothing of them."""
    session = ModelMember(risk=Risk.PODS)
    manifest = text(guaranteed("web", 2), Image()).encode()
    session.act(Act(changes=(WriteFile(f"{MANIFESTS}/web.yaml", manifest),)))
    session.acts.clear()
    result = run("qos/whole-cpus-are-exclusive", session, Risk.PODS)
    assert result.verdict == "unknown"
    assert "hold exclusive CPUs" in result.reason or "pods of an earlier scenario" in result.reason
    assert not [act for act in session.acts if act.changes]


def test_every_step_is_one_round_trip() -> None:
    """Where the node does as it ought to, at once; the first line of a story is no step, and its
    pods go with the next scenario."""
    session = ModelMember()
    result = run("restart/stop-keeps-assignments", session)
    assert result.verdict == "pass"
    assert len(session.acts) == len(result.steps) - 1


@pytest.fixture
def used() -> ModelMember:
    """A node on which the pods of a scenario still are."""
    session = ModelMember()
    assert run("qos/whole-cpus-are-exclusive", session).verdict == "pass"
    assert [change for act in session.acts for change in act.changes if "pinproof-" in str(change)]
    session.acts.clear()
    return session


def test_who_needs_the_same_kubelet_takes_the_pods_before_away(used: ModelMember) -> None:
    """And waits until the kubelet has forgotten them."""
    assert run("qos/whole-cpus-are-exclusive", used).verdict == "pass"
    assert [one for one in used.acts[0].changes if isinstance(one, RemoveFile)]
    assert used.acts[0].goal == "pin_none"
    assert START not in "".join(act.script for act in used.acts)


def test_who_needs_another_kubelet_does_not_wait_for_the_pods_before(used: ModelMember) -> None:
    """Their manifests go, the kubelet is stopped, and what still runs of them is killed."""
    assert run("options/full-pcpus-gives-whole-cores", used).verdict == "pass"
    first = used.acts[0]
    assert [one for one in first.changes if isinstance(one, RemoveFile)]
    script = first.script
    assert script.index(STOP) < script.index("kill -9") < script.index(START)
