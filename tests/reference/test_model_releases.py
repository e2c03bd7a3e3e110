"""The table of named behaviours, the questions asked of it, and feature gates by release, as
``kube_features.go`` of 1.37 has them."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from reference.behaviours import Behaviour
from reference.errors import NotModelled
from reference.feature_gates import GATES, Maturity, enabled, stage_of
from reference.releases import ANNOUNCED, OLDEST, Release, behaviours, changes, has, newest_known

MINORS = [Release(minor) for minor in range(OLDEST, ANNOUNCED + 1)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1.36", "1.36"),
        ("v1.36.3", "1.36.3"),
        ("1.36+distribution-ends", "1.36+distribution-ends"),
        ("1.36+true-sizes=on+distribution-ends=off", "1.36+distribution-ends=off+true-sizes"),
    ],
)
def test_a_release_is_read_and_written(text: str, shown: str) -> None:
    assert str(Release.parse(text)) == shown
    assert Release.parse(shown) == Release.parse(text)


@pytest.mark.parametrize(
    "text", ["", "1", "2.36", "1.36.3.1", "1.36+", "1.36+nothing", "1.36+true-sizes=maybe", "+x"]
)
def test_what_is_no_release(text: str) -> None:
    with pytest.raises(ValueError, match=r"release|behaviour"):
        Release.parse(text)


def test_a_release_outside_the_table_is_not_modelled() -> None:
    for text in ("1.7", "1.39"):
        with pytest.raises(NotModelled, match=r"the model knows 1\.8 to 1\.38"):
            behaviours(text)


def test_an_announced_release_is_known_by_its_changelog() -> None:
    """It has what 1.37 has, and the fixes that were announced."""
    announced = Release.parse("1.38")
    assert announced.known
    assert announced.announced
    assert not Release.parse("1.37.1").announced
    gained = {change.behaviour.title for change in changes("1.37", "1.38") if change.gained}
    assert {"true-sizes", "distribution-ends", "pod-pool-kept", "pod-memory-kept"} <= gained
    assert all(change.gained for change in changes("1.37", "1.38"))


def test_a_newer_release_is_judged_by_the_newest_known() -> None:
    """With what the user says of it."""
    assert str(newest_known(Release.parse("1.99.3+true-sizes=off"))) == "1.38+true-sizes=off"
    assert str(newest_known(Release.parse("1.36.4"))) == "1.36.4"


def test_a_behaviour_may_end() -> None:
    """LAST_ADMITTED_STAYS: 1.22 to 1.31."""
    kept = [one.minor for one in MINORS if has(one, Behaviour.LAST_ADMITTED_STAYS)]
    assert kept == list(range(22, 32))


def test_changes_lead_from_one_release_to_the_other() -> None:
    for before in MINORS:
        for after in (MINORS[0], MINORS[-1]):
            walked = set(behaviours(before))
            for change in changes(before, after):
                (walked.add if change.gained else walked.remove)(change.behaviour)
            assert walked == behaviours(after)


@pytest.mark.parametrize("behaviour", Behaviour, ids=lambda one: one.title)
def test_every_behaviour_can_be_looked_up(behaviour: Behaviour) -> None:
    """Each says one thing, in sentences, with a source, and is really told apart: some release
    has it and another has not, or only forks have it."""
    known = behaviour.value
    assert known.says.endswith(".")
    assert urlsplit(known.source).scheme == "https"
    assert Behaviour.named(behaviour.title) is behaviour
    for text in (known.since, known.until, *known.backports):
        assert text is None or Release.parse(text).known
    only_forks = known.since is None
    assert {has(one, behaviour) for one in MINORS} == ({False} if only_forks else {True, False})


# -- feature gates ---------------------------------------------------------------------------------


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
    for minor in range(OLDEST, ANNOUNCED):
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
