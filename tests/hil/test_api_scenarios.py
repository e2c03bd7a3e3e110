"""Scenarios on a node whose pods come through an API server: they have other uids there, and the
server is not there. Beside it, the steps of a real node, carried out on the model."""

from __future__ import annotations

import importlib.util
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conformance.catalogue import catalogue
from conformance.kubelets.uids import renamed
from conformance.scenario import Scenario
from hil.safety import Change
from reference.steps import Apply, Delete, KubeletConfig, Pod


def _neighbour() -> ModuleType:
    path = Path(__file__).with_name("test_subject_scenarios.py")
    spec = importlib.util.spec_from_file_location("a_node_under_a_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


NODE = _neighbour()


class ServerPods:
    """:class:`hil.pods.PodSource` for a session whose kubelet is the model."""

    static = False

    def __init__(self, session: Any) -> None:
        self._session = session
        self.uids: dict[str, str] = {}
        self.forced = 0

    def create(self, pod: Pod) -> tuple[Pod, tuple[Change, ...]]:
        from dataclasses import replace

        there = replace(pod, uid=str(uuid.uuid4()))
        self.uids[pod.uid] = there.uid
        self._session._pods[pod.name] = self._session._ever[pod.name] = there
        self._session._do(Apply(there))
        return there, ()

    def delete(self, pod: Pod, *, force: bool) -> tuple[Change, ...]:
        self.forced += force
        if self._session._pods.get(pod.name) == pod:
            del self._session._pods[pod.name]
            self._session._do(Delete(pod.name, force))
        return ()

    def await_settled(self, pods: Sequence[Pod]) -> bool:
        return True

    def listed(self, own: str | None) -> str | None:
        return own

    def all_pods(self, own: str | None) -> str | None:
        return own

    def as_stated(self, state_file: str | None, config: KubeletConfig) -> str | None:
        stated = {given: own for own, given in self.uids.items()}
        return state_file and renamed(
            state_file, stated, release=NODE.RELEASE, feature_gates=config.feature_gates
        )

    def as_given(self, state_file: str, config: KubeletConfig) -> str:
        return renamed(
            state_file, self.uids, release=NODE.RELEASE, feature_gates=config.feature_gates
        )

    def close(self) -> None:
        return


@pytest.mark.parametrize(
    "scenario", [one for one in catalogue() if not one.machine], ids=lambda one: one.id
)
def test_other_uids_change_no_verdict(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """State files are compared to the byte, under the uids that the model knows."""
    session = NODE.ModelMember()
    session.pod_source = ServerPods(session)
    NODE._impatient(monkeypatch, session)
    result = NODE.run(scenario, session)
    assert result.verdict in ("pass", "skip"), result.explanation
