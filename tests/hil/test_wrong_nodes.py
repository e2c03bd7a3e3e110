"""Made-up nodes that are wrong in one way each: every scenario of area ``node`` fails on one.

The node is the neighbour's, whose kubelet is the model. Its runtime, kernel or service manager do
what the scenario says they must not, or its kubelet is a miniature.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from conformance.catalogue import catalogue, find
from conformance.subjects.miniatures import miniature
from differential.kill_exceptions import NEVER_FAILED
from hil.observation import Observation
from hil.session.scripts import Act
from reference import CPUSet, Node
from reference.steps import KubeletConfig, Tamper


def _neighbour() -> ModuleType:
    path = Path(__file__).with_name("test_subject_scenarios.py")
    spec = importlib.util.spec_from_file_location("a_node_gone_wrong", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


NODE: Final = _neighbour()


class WithMiniature(NODE.ModelMember):  # type: ignore[name-defined, misc]
    """A node whose kubelet is a miniature."""

    def __init__(self, name: str) -> None:
        self._miniature = name
        super().__init__()

    def _make(self, config: KubeletConfig) -> Node:
        made = miniature(self._miniature)._make
        return made(lambda name: self._tree(), "fake", config, NODE.RELEASE)


class Moves(NODE.ModelMember):  # type: ignore[name-defined, misc]
    """A node on which pod ``a`` gets another cpuset when a script has this text, or after it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def act(self, act: Act, *, spin: bool = False, log: bool = False) -> Observation:
        super().act(act, spin=spin, log=log)
        pods = [name for name in self._node.view().cpusets if name.startswith("a-")]
        for name in pods if self._text in act.script else ():
            self._do(Tamper(name, "c", CPUSet([1, 2, 3])))
        return self._look(spin=spin)  # type: ignore[no-any-return]


class KeepsWhatIsLeft(NODE.ModelMember):  # type: ignore[name-defined, misc]
    """A node whose kernel takes an offline CPU out of every cpuset for good."""

    def _truth(self, pod: Any, container: str, cpus: CPUSet | None, spin: bool) -> Any:
        self._lost = getattr(self, "_lost", CPUSet()) | (self._all() - self._online)
        kept = cpus and (cpus - self._lost or cpus)
        return super()._truth(pod, container, kept, spin)


class PinsToOfflineCPUs(NODE.ModelMember):  # type: ignore[name-defined, misc]
    """A node that shows a container on CPUs that are offline."""

    _online: CPUSet

    def _truth(self, pod: Any, container: str, cpus: CPUSet | None, spin: bool) -> Any:
        online, self._online = self._online, self._all()
        try:
            return super()._truth(pod, container, cpus, spin)
        finally:
            self._online = online


class StopsLooping(NODE.ModelMember):  # type: ignore[name-defined, misc]
    """A node whose service manager starts a kubelet that gave up just once."""

    def act(self, act: Act, *, spin: bool = False, log: bool = False) -> Observation:
        seen = super().act(act, spin=spin, log=log)
        if "pin_more()" in act.script:
            self._remove_state_and_start()
            return self._look(spin=spin)  # type: ignore[no-any-return]
        return seen  # type: ignore[no-any-return]

    def _remove_state_and_start(self) -> None:
        self._do(NODE.RemoveState())
        self._do(NODE.Start())


class QuotaOfEveryPod(NODE.ModelMember):  # type: ignore[name-defined, misc]
    """A node that throttles pods with exclusive CPUs."""

    def _pod_quota(self, pod: Any) -> int:
        return 80_000


class QuotaOfNoPod(NODE.ModelMember):  # type: ignore[name-defined, misc]
    """A node that throttles no pod."""

    def _pod_quota(self, pod: Any) -> None:
        return None


#: What makes each scenario fail; the release where it is not the newest.
WRONG: Final[dict[str, Callable[[], Any]]] = {
    "node/tasks-run-where-they-are-pinned": partial(
        NODE.ModelMember, tamper_after=CPUSet([1, 2, 3])
    ),
    "node/pod-of-exclusive-cpus-has-no-quota": QuotaOfEveryPod,
    "node/pod-of-exclusive-cpus-keeps-its-quota": QuotaOfNoPod,
    "node/killed-container-keeps-its-cpus": partial(Moves, "pin_again()"),
    "node/forced-deletion-leaks-nothing": partial(WithMiniature, "forgets-to-give-back"),
    "node/runtime-restart-keeps-cpus": partial(Moves, "containerd.service || exit 1"),
    "node/daemon-reload-keeps-cpusets": partial(Moves, "daemon-reload"),
    "node/restart-repairs-a-cpuset-changed-by-hand": partial(Moves, "#start"),
    "node/policy-change-crash-loops": StopsLooping,
    "node/start-with-a-cpu-offline-is-refused": partial(WithMiniature, "trusts-its-state"),
    "node/offline-cpu-and-recovery": partial(WithMiniature, "trusts-its-state"),
    "node/offline-cpu-comes-back-to-its-container": KeepsWhatIsLeft,
    "node/all-cpus-offline-lose-exclusivity": PinsToOfflineCPUs,
    "node/cpu-upgrade-and-recovery": partial(WithMiniature, "trusts-its-state"),
}


def test_every_scenario_that_no_miniature_fails_has_a_wrong_node() -> None:
    never = {scenario for ids in NEVER_FAILED.values() for scenario in ids}
    assert never <= set(WRONG)
    assert set(WRONG) <= {one.id for one in catalogue() if one.area == "node"}


@pytest.mark.parametrize("scenario", WRONG)
def test_a_wrong_node_is_caught(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With differences; the right one passes (``test_subject_scenarios.py``)."""
    found = find(scenario)
    assert found is not None
    if found.until:
        monkeypatch.setattr(NODE, "RELEASE", found.until)
    session = WRONG[scenario]()
    NODE._impatient(monkeypatch, session)
    result = NODE.run(found, session)
    assert result.verdict == "fail", result.explanation
    assert result.failure.differences
