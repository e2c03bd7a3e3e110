"""Four known faults of upgrades on unmodified kubelets, each as one command shows it
(docs/how-to/upgrading.md): what is broken, what helps, and that the models say the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final

import pytest

import topologies
from conformance.kept_files import STATE, layout_of
from conformance.kubelets import cached
from conformance.pods import guaranteed, later_pods, pooled
from conformance.subject import Subject
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.reference import ReferenceSubject
from conformance.upgrading import Leg, Plan, Rehearsed, rehearse, with_drained
from reference import CPUSet
from reference.cpumanager.policy_options import FULL_PCPUS
from reference.steps import KubeletConfig
from tests.support import lacking

THERE, BACK, AGAIN = Leg
_MACHINE: Final = topologies.machine("2s-2n-8c-smt2")
_PLAIN: Final = KubeletConfig(reserved_system_cpus=CPUSet([0, 8]))
_WHOLE_CORES: Final = replace(
    _PLAIN, policy_options={FULL_PCPUS: "true"}, topology_manager_policy="best-effort"
)
_OFF: Final = replace(_PLAIN, topology_manager_policy="best-effort", topology_manager_scope="pod")
_ON: Final = replace(_OFF, feature_gates={"PodLevelResourceManagers": True})
_LATER: Final = later_pods(2)
_FULL: Final = Plan(_MACHINE, _WHOLE_CORES, [guaranteed("pod1", 12)], _LATER)
_V1: Final = Plan(_MACHINE, _PLAIN, [guaranteed("pod1", 2)], _LATER)
_POOLED: Final = Plan(_MACHINE, _ON, [pooled("whole", 4)], _LATER)
#: 129078; a file of 1.17 that 1.37 refuses; 140989; 137751: the releases, the plan, the legs on
#: which something breaks, and those on which it does if every pod is deleted first.
FAULTS: Final = {
    "129078": ("1.36", "1.37", _FULL, [BACK], []),
    "a file of 1.17": ("1.17", "1.37", _V1, [THERE, AGAIN], [THERE, AGAIN]),
    "140989": ("1.36", "1.36", _POOLED, [THERE, BACK, AGAIN], []),
    "137751": ("1.37", "1.36", replace(_POOLED, to_config=_OFF), [BACK], []),
}


@contextmanager
def _kubelets(*releases: str) -> Iterator[list[Subject]]:
    with ExitStack() as open_ones:
        opened: list[Subject] = []
        for release in releases:
            found = [str(one.path) for one in cached() if one.version.startswith(f"{release}.")]
            if not found:
                lacking.skip("kubelet", f"one of {release}")
            opened.append(KubeletSubject.open(found[0]))
            open_ones.callback(opened[-1].close)
        yield opened


def _rehearsed(plan: Plan, old: Subject, new: Subject) -> Rehearsed:
    return with_drained(rehearse(old, new, plan), old, new, plan)


def _summary(found: Rehearsed) -> dict[str, Any]:
    return {
        "broken": [(one.leg, one.rule) for one in found.broken],
        "turns": [(one.leg, bool(one.refusal), one.recovered, one.moved) for one in found.turns],
        "drained": found.drained,
        "files": [layout_of(stage.files[STATE].left or "") for stage in found.stages],
    }


@pytest.mark.parametrize("fault", FAULTS)
def test_a_known_fault_is_shown_and_what_helps(fault: str) -> None:
    old, new, plan, broken, drained = FAULTS[fault]
    models = [ReferenceSubject(f"the model of {one}", release=one) for one in (old, new)]
    expected = _rehearsed(plan, *models)
    assert list(expected.harmed_legs) == broken
    assert list(expected.drained or ()) == drained
    with _kubelets(old, new) as kubelets:
        found = _rehearsed(plan, *kubelets)
    assert not found.silent
    assert _summary(found) == _summary(expected)


def test_the_state_file_that_is_in_the_way_is_named_and_removed() -> None:
    """1.37 starts without the file of 1.17."""
    old, new, plan, *_ = FAULTS["a file of 1.17"]
    models = [ReferenceSubject(f"the model of {one}", release=one) for one in (old, new)]
    (turn,) = _rehearsed(plan, *models).turns
    assert "cpu_manager_state" in turn.refusal
    assert turn.recovered
