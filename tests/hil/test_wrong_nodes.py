"""Made-up nodes that are wrong in one way each: every scenario of area ``node`` fails on one, and
none waits for longer than its step's own deadline.

The node is that of ``test_subject_scenarios.py``, whose kubelet is the model. Its runtime, kernel
or service manager do what the scenario says they must not, or its kubelet is a miniature.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from conformance.catalogue import catalogue, find
from conformance.subjects.miniatures import miniature
from differential.kill_exceptions import NEVER_FAILED
from hil.observation import Observation
from hil.pods import StaticPods
from hil.session.node_session import Patience
from hil.session.scripts import Act
from reference import CPUSet, Node
from reference.steps import KubeletConfig, Pod, RemoveState, Start, Tamper
from tests.hil import test_subject_scenarios as made_up
from tests.hil.test_subject_scenarios import ModelMember, run


class WithMiniature(ModelMember):
    """A node whose kubelet is a miniature."""

    def __init__(self, name: str) -> None:
        self._miniature = name
        super().__init__()

    def _make(self, config: KubeletConfig) -> Node:
        made = miniature(self._miniature)._make
        return made(lambda name: self._tree(), "fake", config, made_up.RELEASE)


class Moves(ModelMember):
    """A node on which pod ``a`` gets another cpuset when a script has this text, or after it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def act(self, act: Act, *, spin: bool = False, log: bool = False) -> Observation:
        super().act(act, spin=spin, log=log)
        pods = [name for name in self._node.view().cpusets if name.startswith("a-")]
        for name in pods if self._text in act.script else ():
            self._do(Tamper(name, "c", CPUSet([1, 2, 3])))
        return self._look(spin=spin)


class KeepsWhatIsLeft(ModelMember):
    """A node whose kernel takes an offline CPU out of every cpuset for good."""

    def _truth(self, pod: Any, container: str, cpus: CPUSet | None, spin: bool) -> Any:
        self._lost = getattr(self, "_lost", CPUSet()) | (self._all() - self._online)
        kept = cpus and (cpus - self._lost or cpus)
        return super()._truth(pod, container, kept, spin)


class PinsToOfflineCPUs(ModelMember):
    """A node that shows a container on CPUs that are offline."""

    _online: CPUSet

    def _truth(self, pod: Any, container: str, cpus: CPUSet | None, spin: bool) -> Any:
        online, self._online = self._online, self._all()
        try:
            return super()._truth(pod, container, cpus, spin)
        finally:
            self._online = online


class StopsLooping(ModelMember):
    """A node whose service manager starts a kubelet that gave up just once."""

    def act(self, act: Act, *, spin: bool = False, log: bool = False) -> Observation:
        seen = super().act(act, spin=spin, log=log)
        if "pin_more()" in act.script:
            self._do(RemoveState())
            self._do(Start())
            return self._look(spin=spin)
        return seen


class QuotaOfPods(ModelMember):
    """A node that throttles every pod alike, or none."""

    def __init__(self, quota: int | None) -> None:
        super().__init__()
        self._quota = quota

    def _pod_quota(self, pod: Any) -> int | None:
        return self._quota


#: What makes each scenario fail; the release where it is not the newest.
WRONG: Final[dict[str, Callable[[], ModelMember]]] = {
    "node/tasks-run-where-they-are-pinned": partial(ModelMember, tamper_after=CPUSet([1, 2, 3])),
    "node/pod-of-exclusive-cpus-has-no-quota": partial(QuotaOfPods, 80_000),
    "node/pod-of-exclusive-cpus-keeps-its-quota": partial(QuotaOfPods, None),
    "node/killed-container-keeps-its-cpus": partial(Moves, "pin_again()"),
    "node/forced-deletion-leaks-nothing": partial(WithMiniature, "forgets-to-give-back"),
    "node/runtime-restart-keeps-cpus": partial(Moves, "containerd.service || exit 1"),
    "node/daemon-reload-keeps-cpusets": partial(Moves, "daemon-reload"),
    "node/restart-repairs-a-cpuset-changed-by-hand": partial(Moves, made_up.START),
    "node/policy-change-crash-loops": StopsLooping,
    "node/start-with-a-cpu-offline-is-refused": partial(WithMiniature, "trusts-its-state"),
    "node/offline-cpu-and-recovery": partial(WithMiniature, "trusts-its-state"),
    "node/offline-cpu-comes-back-to-its-container": KeepsWhatIsLeft,
    "node/all-cpus-offline-lose-exclusivity": PinsToOfflineCPUs,
    "node/cpu-upgrade-and-recovery": partial(WithMiniature, "trusts-its-state"),
}


def test_every_scenario_that_no_miniature_fails_has_a_wrong_node() -> None:
    never = {scenario for ids in NEVER_FAILED.values() for scenario in ids}
    of_forks = {one.id for one in catalogue() if one.of_fork}
    assert never - of_forks <= set(WRONG)
    assert set(WRONG) <= {one.id for one in catalogue() if one.area == "node"}


@pytest.mark.parametrize("scenario", WRONG)
def test_a_wrong_node_is_caught(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With differences; the right one passes (``test_subject_scenarios.py``)."""
    found = find(scenario)
    assert found is not None
    if found.until:
        monkeypatch.setattr(made_up, "RELEASE", found.until)
    result = run(found, WRONG[scenario]())
    assert result.verdict == "fail", result.explanation
    assert result.failure is not None
    assert result.failure.differences


class Stuck(ModelMember):
    """A node whose runtime starts no container, and whose clock is made up: an act takes as long as
    it waits for what it never sees. ``began``: when the first pod came."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.began = 0.0, -1.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        super().__init__()
        self.patience = Patience()

    def act(self, act: Act, *, spin: bool = False, log: bool = False) -> Observation:
        in_vain = act.goal.startswith(("pin_started", "pin_changed"))
        if in_vain and self.began < 0:
            self.began = self.now
        self.now += act.seconds if in_vain else 1.0
        seen = super().act(act, spin=spin, log=log)
        pods = seen.pods and seen.pods.replace('"Running"', '"Pending"')
        return replace(seen, containers=(), pods=pods, reached=not in_vain)


class AskedInVain(StaticPods):
    """An API server is asked whether pods run, and not the node."""

    static = False

    def __init__(self, session: Stuck) -> None:
        super().__init__(session.places.manifests, session.image)
        self._session = session

    def await_settled(self, pods: Sequence[Pod]) -> bool:
        self._session.began = self._session.now
        self._session.now += self._session.patience.effect
        return False


@pytest.mark.parametrize("source", [None, AskedInVain], ids=["static pods", "pods of a server"])
def test_a_pod_that_never_runs_is_waited_for_once(
    source: type[AskedInVain] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its step's own deadline, and no second one after it: 60 s later the scenario has failed."""
    session = Stuck(monkeypatch)
    if source is not None:
        session.pod_source = source(session)
    result = run("qos/whole-cpus-are-exclusive", session)
    assert result.verdict == "fail", result.explanation
    assert session.began >= 0
    waited = session.now - session.began
    assert session.patience.effect <= waited <= session.patience.effect + 60
