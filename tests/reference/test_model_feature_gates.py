"""Feature gates by release, as ``kube_features.go`` of 1.37 has them."""

from __future__ import annotations

import pytest

from reference.feature_gates import GATES, Maturity, enabled, stage_of

#: (gate, minor, maturity, default), where a stage begins.
STAGES = [
    ("CPUManagerPolicyAlphaOptions", 23, "ALPHA", False),
    ("CPUManagerPolicyBetaOptions", 23, "BETA", True),
    ("CPUManagerPolicyOptions", 22, "ALPHA", False),
    ("CPUManagerPolicyOptions", 23, "BETA", True),
    ("CPUManagerPolicyOptions", 33, "GA", True),
    ("DisableCPUQuotaWithExclusiveCPUs", 33, "BETA", True),
    ("DisableCPUQuotaWithExclusiveCPUs", 36, "DEPRECATED", True),
    ("InPlacePodVerticalScalingExclusiveCPUs", 32, "ALPHA", False),
    ("KubeletInUserNamespace", 22, "ALPHA", False),
    ("KubeletInUserNamespace", 37, "BETA", True),
    ("PodLevelResourceManagers", 36, "ALPHA", False),
    ("PodLevelResourceManagers", 37, "BETA", False),
    ("PodLevelResources", 32, "ALPHA", False),
    ("PodLevelResources", 34, "BETA", True),
    ("TopologyManagerPolicyAlphaOptions", 26, "ALPHA", False),
    ("TopologyManagerPolicyBetaOptions", 26, "BETA", False),
    ("TopologyManagerPolicyBetaOptions", 28, "BETA", True),
    ("TopologyManagerPolicyOptions", 26, "ALPHA", False),
    ("TopologyManagerPolicyOptions", 28, "BETA", True),
    ("TopologyManagerPolicyOptions", 32, "GA", True),
]


@pytest.mark.parametrize(("gate", "minor", "maturity", "default"), STAGES)
def test_a_stage_begins_where_the_sources_say(
    gate: str, minor: int, maturity: str, default: bool
) -> None:
    stage, before = stage_of(gate, f"1.{minor}"), stage_of(gate, f"1.{minor - 1}")
    assert stage is not None
    assert (stage.maturity.value, stage.default) == (maturity, default)
    assert stage != before
    assert (before is None) == (STAGES[[row[0] for row in STAGES].index(gate)][1] == minor)


@pytest.mark.parametrize("gate", GATES)
def test_a_gate_that_is_ga_is_on_and_an_unknown_one_off(gate: str) -> None:
    for minor in range(8, 38):
        release = f"1.{minor}"
        stage = stage_of(gate, release)
        for value in (False, True):
            on = enabled(gate, {gate: value}, release=release)
            if stage is None:
                assert not on
            else:
                assert on is (stage.maturity is Maturity.GA or value)
        assert enabled(gate, release=release) is (stage is not None and stage.default)


def test_a_fork_may_have_a_gate_on_by_default_sooner() -> None:
    assert not enabled("CPUManagerPolicyOptions", release="1.22")
    assert enabled("CPUManagerPolicyOptions", release="1.22+options-gate-on")


def test_a_fork_without_a_gate_has_none_of_its_stages() -> None:
    """The one that a later minor brings would make no difference of what was taken out."""
    gate, without = "DisableCPUQuotaWithExclusiveCPUs", "1.36+no-quota-on-exclusive-cpus=off"
    assert enabled(gate, release="1.36")
    assert stage_of(gate, without) is None
    assert not enabled(gate, release=without)
