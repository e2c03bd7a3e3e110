"""What somebody else does to a node's kubelet while a scenario runs is no verdict on the kubelet.

The node is a made-up one, whose kubelet is the model (``test_subject_scenarios.py``); its service
manager shows what systemd shows (``systemctl show``, seen on a booted node).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from conformance.catalogue import find
from conformance.pods import guaranteed
from conformance.results import Result
from conformance.subject import SubjectLostError
from hil.observation import Observation, ServiceState
from hil.session import booting
from hil.session.node import RealNode
from hil.session.node_session import NodeSession, Patience
from hil.session.scripts import Act
from hil.session.views import without_image
from hil.session.waiting import Waiting
from hil.shell import Done, NodeTimeout, NodeUnreachable
from reference import CPUSet
from reference.steps import KubeletConfig, Start
from tests.hil.test_wrong_nodes import NODE

#: A line that kubelets write whatever ends them.
NOISE: Final = (
    'E1121 09:28:00.1 42 eviction_manager.go:10] "no imagefs label for configured runtime"'
)


class Meddled(NODE.ModelMember):  # type: ignore[name-defined, misc]
    """A node on which the unit looks like this from the moment when pod ``a`` is there."""

    def __init__(self, **shown: object) -> None:
        super().__init__()
        self._shown = shown

    def _look(self, *, spin: bool) -> Observation:
        seen: Observation = super()._look(spin=spin)
        if not any(pod.name.startswith("a-") for pod in self._pods.values()):
            return seen
        shown: Mapping[str, Any] = self._shown
        return replace(seen, service=replace(seen.service, **shown), log=NOISE)


def judged(session: Any) -> Result:
    session.patience = Patience(start=1.0, effect=0.02, rest=0.02, watch=0.01)
    scenario = find("qos/whole-cpus-are-exclusive")
    assert scenario is not None
    result: Result = NODE.run(scenario, session)
    return result


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (
            {
                "active": "inactive",
                "sub": "dead",
                "pid": 0,
                "exit_status": 0,
                "exit_code": "exited",
            },
            "the kubelet was stopped by another hand: its unit is inactive, "
            "it exited with status 0",
        ),
        (
            {"active": "deactivating", "sub": "stop-sigterm"},
            "the kubelet was stopped by another hand: its unit is deactivating",
        ),
        (
            {"active": "inactive", "pid": 0, "exit_status": 15, "exit_code": "killed"},
            "the kubelet was stopped by another hand: its unit is inactive, "
            "it was killed by SIGTERM",
        ),
        (
            {"invocation": "of somebody else"},
            "the kubelet was restarted by another hand: its unit has a new invocation, and its "
            "service manager did not restart it",
        ),
    ],
)
def test_a_kubelet_that_somebody_else_stops_is_unknown(shown: dict[str, Any], said: str) -> None:
    result = judged(Meddled(**shown))
    assert result.verdict == "unknown", result.explanation
    assert said in result.reason
    assert "imagefs" not in result.reason


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (
            {"active": "failed", "pid": 0, "exit_status": 9, "exit_code": "killed"},
            'ended: it was killed by SIGKILL; its last error line: "no imagefs label',
        ),
        (
            {"active": "activating", "pid": 0, "exit_status": 2, "exit_code": "exited"},
            'gave up with exit status 2: its last error line: "no imagefs label',
        ),
        (
            {"invocation": "next", "restarts": 1, "exit_status": 255, "exit_code": "exited"},
            'gave up with exit status 255: its last error line: "no imagefs label',
        ),
    ],
)
def test_a_kubelet_that_ends_by_itself_fails(shown: dict[str, Any], said: str) -> None:
    """How it ended comes before what it wrote last."""
    result = judged(Meddled(**shown))
    assert result.verdict == "fail", result.explanation
    assert said in result.explanation


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

    class Slow(NODE.NoHands):  # type: ignore[name-defined, misc]
        def act(self, script: str, *changes: Any, deadline: float, reads: bool = False) -> Any:
            time.sleep(0.2)
            raise NodeTimeout("it is slow")

    session = NODE.ModelMember()
    session.waiting = Waiting("fake", said.append, first=0.05)
    session._executor = Slow()
    node = RealNode(session, KubeletConfig(), None)
    session.act = partial(NodeSession.act, session)
    with pytest.raises(SubjectLostError):
        node.do(Start())
    assert said == ["fake: waiting for “start the kubelet”: 0 s, at most 200 s"]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["old\nrunning\n"], "the connection broke"),
        (["old\nstopping\n", "", "new\nstarting\n"], "the node was booted by another hand"),
        (["new\nrunning\n"], "the node was booted by another hand"),
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

    class Cut(NODE.NoHands):  # type: ignore[name-defined, misc]
        def act(self, script: str, *changes: Any, deadline: float, reads: bool = False) -> Any:
            if script.startswith("cat /proc/sys/kernel/random/boot_id;"):
                asked.append(answers[len(asked)])
                if asked[-1]:
                    return Done(0, asked[-1].encode(), b"")
            raise NodeUnreachable("the connection broke")

    session = NODE.ModelMember()
    session.patience = replace(session.patience, cut=0.3)
    session._executor = Cut()
    session.others.deed(Observation(CPUSet(), ServiceState(), None, boot="old"))
    with pytest.raises(SubjectLostError, match=said):
        NodeSession.act(session, Act())
    once = len(asked)
    with pytest.raises(SubjectLostError, match="the connection broke"):
        NodeSession.act(session, Act())
    assert len(asked) == once


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"])
def test_a_pod_without_its_image_accuses_nobody(reason: str) -> None:
    """Only pods of ours count, and a container that waits for anything else may still run."""
    pod = guaranteed("a", 2)

    def look(uid: str, why: str) -> Observation:
        waits = {"name": "c", "state": {"waiting": {"reason": why}}}
        item = {"metadata": {"uid": uid, "name": "a"}, "status": {"containerStatuses": [waits]}}
        return Observation(CPUSet(), ServiceState(), None, pods=json.dumps({"items": [item]}))

    assert without_image(look(pod.uid, reason), [pod]) == (
        "pod a does not run: the image of its container c cannot be had on the node "
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
            waits = {"name": "c", "state": {"waiting": {"reason": "ErrImagePull"}}}
            for item in listed["items"]:
                item.setdefault("status", {})["containerStatuses"] = [waits]
            return replace(seen, pods=json.dumps(listed), containers=())

    result = judged(Imageless())
    assert result.verdict == "unknown", result.explanation
    assert "the image of its container c cannot be had on the node (ErrImagePull)" in result.reason
