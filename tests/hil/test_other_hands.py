"""What somebody else does to a node while a scenario runs is no verdict on its kubelet.

The node is a made-up one, whose kubelet is the model (``test_subject_scenarios.py``); its service
manager shows what systemd shows (``systemctl show``, seen on a booted node).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from conformance.pods import guaranteed
from conformance.results import Result
from conformance.subject import SubjectLostError
from hil.observation import Observation, ServiceState
from hil.safety import RemoveFile, SetOnline, WriteFile
from hil.session import booting
from hil.session.node import RealNode
from hil.session.node_session import NodeSession, Patience
from hil.session.others import Others
from hil.session.scripts import Act
from hil.session.views import without_image
from hil.session.waiting import Waiting
from hil.shell import Done, NodeTimeout, NodeUnreachable
from reference import CPUSet
from reference.steps import KubeletConfig, Start
from tests.hil.test_subject_scenarios import ModelMember, NoHands, run

#: A line that kubelets write whatever ends them.
NOISE: Final = (
    'E1121 09:28:00.1 42 eviction_manager.go:10] "no imagefs label for configured runtime"'
)


class Meddled(ModelMember):
    """A node on which the unit looks like this from the moment when pod ``a`` is there."""

    def __init__(self, **shown: object) -> None:
        super().__init__()
        self._shown = shown

    def _look(self, *, spin: bool) -> Observation:
        seen = super()._look(spin=spin)
        if not any(pod.name.startswith("a-") for pod in self._pods.values()):
            return seen
        shown: Mapping[str, Any] = self._shown
        return replace(seen, service=replace(seen.service, **shown), log=NOISE)


def judged(session: ModelMember) -> Result:
    return run("qos/whole-cpus-are-exclusive", session)


def exited(status: int) -> dict[str, object]:
    return {"pid": 0, "exit_status": status, "exit_code": "exited"}


def killed(signal: int) -> dict[str, object]:
    return {"pid": 0, "exit_status": signal, "exit_code": "killed"}


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (
            {"active": "inactive", "sub": "dead", **exited(0)},
            "stopped by another program: its unit is inactive, it exited with status 0",
        ),
        (
            {"active": "deactivating", "sub": "stop-sigterm"},
            "stopped by another program: its unit is deactivating",
        ),
        (
            {"active": "inactive", **killed(15)},
            "stopped by another program: its unit is inactive, it was killed by SIGTERM",
        ),
        (
            {"invocation": "of somebody else"},
            "restarted by another program: its unit has a new invocation, and its service manager "
            "did not restart it",
        ),
    ],
)
def test_a_kubelet_that_somebody_else_stops_is_unknown(shown: dict[str, Any], said: str) -> None:
    result = judged(Meddled(**shown))
    assert result.verdict == "unknown", result.explanation
    assert f"the kubelet was {said}" in result.reason
    assert "imagefs" not in result.reason


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ({"active": "failed", **killed(9)}, "ended: it was killed by SIGKILL;"),
        ({"active": "activating", **exited(2)}, "gave up with exit status 2:"),
        (
            {"invocation": "next", "restarts": 1, "exit_status": 255, "exit_code": "exited"},
            "gave up with exit status 255:",
        ),
    ],
)
def test_a_kubelet_that_ends_by_itself_fails(shown: dict[str, Any], said: str) -> None:
    """How it ended comes before what it wrote last."""
    result = judged(Meddled(**shown))
    assert result.verdict == "fail", result.explanation
    assert f'{said} its last error line: "no imagefs label' in result.explanation


def test_a_long_wait_is_said_with_its_step() -> None:
    said: list[str] = []
    waiting = Waiting("node1", said.append, first=0.05, next_=10.0)
    waiting.step = "apply Guaranteed pod a (c: 2 CPU)"
    with waiting.at_most(120.0):
        time.sleep(0.3)
    assert said == ["node1: waiting for “apply Guaranteed pod a (c: 2 CPU)”: 0 s, at most 120 s"]
    with waiting.at_most(120.0):
        pass
    assert len(said) == 1


def test_a_node_says_what_it_is_waited_for() -> None:
    """Every step of a scenario, through the one door to the node."""
    said: list[str] = []

    class Slow(NoHands):
        def act(self, script: str, *changes: Any, deadline: float, reads: bool = False) -> Any:
            time.sleep(0.2)
            raise NodeTimeout("it is slow")

    session = ModelMember()
    session.patience = Patience()
    session.waiting = Waiting("fake", said.append, first=0.05)
    session._executor = Slow()
    node = RealNode(session, KubeletConfig(), None)
    session.act = partial(NodeSession.act, session)  # type: ignore[method-assign]
    with pytest.raises(SubjectLostError):
        node.do(Start())
    assert said == ["fake: waiting for “start the kubelet”: 0 s, at most 200 s"]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["old\nrunning\n"], "the connection broke"),
        (["old\nstopping\n", "", "new\nstarting\n"], "the node was booted by another program"),
        (["new\nrunning\n"], "the node was booted by another program"),
        ([""] * 99, "the connection broke"),
    ],
    ids=["as it was", "down, off and up", "up again", "gone"],
)
def test_a_connection_that_broke_may_be_a_boot(
    answers: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node tells which once it answers again: with its old boot id while it goes down. It is
    waited for once."""
    monkeypatch.setattr(booting, "_PAUSE", 0.01)
    asked: list[str] = []

    class Cut(NoHands):
        def act(self, script: str, *changes: Any, deadline: float, reads: bool = False) -> Any:
            if script.startswith("cat /proc/sys/kernel/random/boot_id;"):
                asked.append(answers[len(asked)])
                if asked[-1]:
                    return Done(0, asked[-1].encode(), b"")
            raise NodeUnreachable("the connection broke")

    session = ModelMember()
    session.patience = replace(session.patience, cut=0.3)
    session._executor = Cut()
    session.others.deed(Observation(CPUSet(), ServiceState(), None, boot="old"))
    with pytest.raises(SubjectLostError, match=said):
        NodeSession.act(session, Act())
    once = len(asked)
    with pytest.raises(SubjectLostError, match="the connection broke"):
        NodeSession.act(session, Act())
    assert len(asked) == once


def waiting(reason: str) -> list[dict[str, object]]:
    """The statuses of a pod's containers when its only one waits for this reason."""
    return [{"name": "c", "state": {"waiting": {"reason": reason}}}]


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"])
def test_a_pod_without_its_image_accuses_nobody(reason: str) -> None:
    """Only pods of ours count, and a container that waits for anything else may still run."""
    pod = guaranteed("a", 2)

    def look(uid: str, why: str) -> Observation:
        status = {"containerStatuses": waiting(why)}
        item = {"metadata": {"uid": uid, "name": "a"}, "status": status}
        return Observation(CPUSet(), ServiceState(), None, pods=json.dumps({"items": [item]}))

    assert without_image(look(pod.uid, reason), [pod]) == (
        "pod a does not run: the image of its container c cannot be pulled on the node "
        f"({reason}); --image names one that can"
    )
    assert without_image(look("of others", reason), [pod]) == ""
    assert without_image(look(pod.uid, "ContainerCreating"), [pod]) == ""
    assert without_image(Observation(CPUSet(), ServiceState(), None), [pod]) == ""


def test_a_scenario_whose_pod_has_no_image_has_no_verdict() -> None:
    class Imageless(Meddled):
        def _look(self, *, spin: bool) -> Observation:
            seen = super()._look(spin=spin)
            listed = json.loads(seen.pods or '{"items": []}')
            for item in listed["items"]:
                item.setdefault("status", {})["containerStatuses"] = waiting("ErrImagePull")
            return replace(seen, pods=json.dumps(listed), containers=())

    result = judged(Imageless())
    assert result.verdict == "unknown", result.explanation
    assert (
        "the image of its container c cannot be pulled on the node (ErrImagePull)" in result.reason
    )


# ---- each deed by itself ------------------------------------------------------------------------

SOCKET: Final = "/run/containerd/containerd.sock"
CONFIG: Final = "/var/lib/kubelet/config.yaml"
UP: Final = Observation(
    online=CPUSet.parse("0-3"),
    service=ServiceState(active="active", pid=812, invocation="first"),
    state_file="{}",
    boot="b00t",
    files={CONFIG: "17 420 1000", SOCKET: "23 0 900"},
)
STATE_GONE: Final = replace(UP, state_file=None)
OFFLINE: Final = replace(UP, online=CPUSet.parse("0-2"))
BOOTED: Final = replace(UP, boot="an0ther")
RUNTIME: Final = "the container runtime was"
RUNTIME_STOPPED: Final = replace(UP, files={CONFIG: UP.files[CONFIG]})
RUNTIME_RESTARTED: Final = replace(UP, files={**UP.files, SOCKET: "24 0 1100"})
CONFIG_CHANGED: Final = replace(UP, files={**UP.files, CONFIG: "17 421 1100"})
CONFIG_GONE: Final = replace(UP, files={SOCKET: UP.files[SOCKET]})


def others() -> Others:
    made = Others(SOCKET)
    assert made.deed(UP) == ""
    assert made.deed(UP) == ""
    return made


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (
            STATE_GONE,
            "the state file was removed by another program: the kubelet runs on as process 812, "
            "and a kubelet does not remove it",
        ),
        (OFFLINE, "CPU 3 was taken offline by another program: 0-2 are online"),
        (
            replace(UP, online=CPUSet.parse("0-5")),
            "CPUs 4-5 were brought online by another program",
        ),
        (BOOTED, "the node was booted by another program: it has a new boot id"),
        (RUNTIME_RESTARTED, f"{RUNTIME} restarted by another program: {SOCKET} is another one"),
        (RUNTIME_STOPPED, f"{RUNTIME} stopped by another program: {SOCKET} is gone"),
        (CONFIG_CHANGED, f"{CONFIG} was changed by another program"),
        (CONFIG_GONE, f"{CONFIG} was removed by another program"),
    ],
)
def test_a_deed_of_another_hand_is_named(seen: Observation, said: str) -> None:
    assert others().deed(seen) == said


@pytest.mark.parametrize(
    ("own", "seen"),
    [
        (lambda one: one.will([SetOnline(3, False)]), OFFLINE),
        (lambda one: one.will([WriteFile(CONFIG, b"")]), CONFIG_CHANGED),
        (lambda one: one.will([RemoveFile(CONFIG)]), CONFIG_GONE),
        (Others.restarts_runtime, RUNTIME_RESTARTED),
        (Others.boots, replace(BOOTED, online=CPUSet.parse("0-7"), files={SOCKET: "1 0 1"})),
    ],
)
def test_what_this_run_does_is_no_deed_of_another(
    own: Callable[[Others], None], seen: Observation
) -> None:
    made = others()
    own(made)
    assert made.deed(seen) == ""
    assert made.deed(seen) == ""


@pytest.mark.parametrize(
    "service",
    [ServiceState(active="inactive"), ServiceState(active="active", pid=900, invocation="second")],
)
def test_a_kubelet_that_starts_without_a_state_file_is_judged(service: ServiceState) -> None:
    """A run removes the file while the kubelet is down; and one that ends is the scenario's."""
    assert others().deed(replace(UP, service=service, state_file=None)) == ""


def test_what_lasts_is_named_each_time_and_a_restart_once() -> None:
    made = others()
    assert made.deed(STATE_GONE) == made.deed(STATE_GONE) != ""
    assert made.deed(OFFLINE) == made.deed(OFFLINE) != ""
    assert made.deed(UP) == ""
    assert made.deed(RUNTIME_RESTARTED) != ""
    assert made.deed(RUNTIME_RESTARTED) == ""
