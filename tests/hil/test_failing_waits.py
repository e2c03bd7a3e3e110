"""How long a scenario that fails waits: its step's own deadline, and no second one after it.

The node is a made-up one, whose kubelet is the model (``test_subject_scenarios.py``), and so is its
clock: an act takes as long as it waits for what it never sees.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final

import pytest

from conformance.catalogue import find
from conformance.results import Result
from hil.observation import Observation
from hil.session.scripts import Act
from tests.hil.test_wrong_nodes import NODE

#: Within so many seconds of its step's deadline a scenario that fails has ended.
AFTER: Final = 60.0


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


class Stuck(NODE.ModelMember):  # type: ignore[name-defined, misc]
    """A node whose runtime starts no container. ``began``: when the first pod came."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.began = -1.0
        super().__init__()

    def act(self, act: Act, *, spin: bool = False, log: bool = False) -> Observation:
        in_vain = act.goal.startswith(("pin_started", "pin_changed"))
        if in_vain and self.began < 0:
            self.began = self.clock.now
        self.clock.now += act.seconds if in_vain else 1.0
        seen: Observation = super().act(act, spin=spin, log=log)
        pods = seen.pods and seen.pods.replace('"Running"', '"Pending"')
        return replace(seen, containers=(), pods=pods, reached=not in_vain)


def judged(session: Any) -> Result:
    scenario = find("qos/whole-cpus-are-exclusive")
    assert scenario is not None
    result: Result = NODE.run(scenario, session)
    return result


def test_a_pod_that_never_runs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    session = Stuck(clock)
    result = judged(session)
    assert result.verdict == "fail", result.explanation
    assert session.began >= 0
    waited = clock.now - session.began
    assert session.patience.effect <= waited <= session.patience.effect + AFTER


def test_a_pod_that_never_runs_behind_an_api_server_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There the server is asked, and not the node."""
    clock = Clock(monkeypatch)
    session = Stuck(clock)
    own = session.pod_source

    class Asked(type(own)):  # type: ignore[misc]
        static = False

        def await_settled(self, pods: Any) -> bool:
            session.began = clock.now
            clock.now += session.patience.effect
            return False

    session.pod_source = Asked(session.places.manifests, session.image)
    result = judged(session)
    assert result.verdict == "fail", result.explanation
    waited = clock.now - session.began
    assert session.patience.effect <= waited <= session.patience.effect + AFTER
