"""What somebody else does to a node's kubelet while a scenario runs is no verdict on the kubelet.

The node is a made-up one, whose kubelet is the model (``test_subject_scenarios.py``); its service
manager shows what systemd shows (``systemctl show``, seen on a booted node).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from conformance.catalogue import find
from conformance.results import Result
from hil.observation import Observation
from hil.session.node_session import Patience
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
