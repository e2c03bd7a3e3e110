"""What a kubelet would do with pods, settings and a state file, and why.

The transcripts of README and docs/how-to/simulate.md, which tests/test_docs.py types, show the
usual cases.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topologies
from conformance import strategies
from conformance.pods import best_effort, burstable, exclusive, guaranteed
from conformance.subject import SubjectUsageError
from pinproof.simulation import Answer, Kept, KubeletRefuses, StateFile, answer, reserved_of
from reference import Checkpoint, CPUSet, discover
from reference.kubelet.reasons import Rule
from reference.pods.pod import NODE_CRITICAL
from reference.steps import Container, Kind, KubeletConfig, Pod, PodResources

SMALL: Final = topologies.machine("1s-1n-4c-smt2")
LARGE: Final = topologies.machine("4s-4n-48c-smt2")
CONFIG: Final = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]))


def asked(
    *pods: Pod, config: KubeletConfig = CONFIG, state: str | None = None, release: str = "1.36"
) -> Answer:
    file = None if state is None else StateFile("state", state)
    return answer(SMALL, config, pods, state=file, release=release)


def said(found: Answer) -> dict[str, tuple[str, str]]:
    """Verdict and CPUs by container."""
    return {
        f"{one.pod}/{one.container}": (one.kept.value, str(one.cpus)) for one in found.verdicts()
    }


def state(default: str, entries: dict[str, dict[str, str]]) -> str:
    """A state file; no kubelet compares a checksum of 0."""
    return json.dumps(
        {"policyName": "static", "defaultCpuSet": default, "entries": entries, "checksum": 0}
    )


def test_an_init_container_whose_cpus_went_on() -> None:
    init = exclusive("i", 2, kind=Kind.INIT)
    found = asked(Pod("a", (init, exclusive("c", 1), exclusive("d", 2))))
    first, *_ = found.verdicts()
    assert (first.kept, first.reason.rule) == (Kept.EXCLUSIVE, Rule.INIT_CPUS)
    assert first.reason.text == "its CPUs 1 were given to c afterwards"


def test_in_1_14_an_init_container_has_given_its_cpus_back() -> None:
    pod = Pod("a", (exclusive("i", 2, kind=Kind.INIT), exclusive("c", 2)))
    config = KubeletConfig(system_reserved="2")
    first, second = asked(pod, config=config, release="1.14").verdicts()
    assert (first.kept, first.reason.rule) == (Kept.ENDED, Rule.INIT_CPUS)
    assert second.kept is Kept.EXCLUSIVE


def test_policy_none_pins_nobody() -> None:
    (one,) = asked(guaranteed("a", 2), config=KubeletConfig("none")).verdicts()
    assert (one.kept, one.cpus, one.reason.rule) == (Kept.UNPINNED, None, Rule.POLICY_NONE)


def test_a_pool_of_the_pods_own() -> None:
    config = replace(
        CONFIG,
        feature_gates={"PodLevelResourceManagers": True},
        topology_manager_policy="best-effort",
        topology_manager_scope="pod",
    )
    resources = PodResources("4", "4", "1Gi", "1Gi")
    pod = replace(burstable("a"), resources=resources)
    (one,) = asked(pod, config=config).verdicts()
    assert (one.kept, one.cpus) == (Kept.POOL_OF_POD, CPUSet([1, 2, 5, 6]))


def test_up_to_1_21_the_answer_is_one_of_several() -> None:
    note = (
        "up to 1.21 the kubelet's choice depends on Go's map order: this is one of the possible "
        "answers"
    )
    assert asked(guaranteed("a", 2), release="1.20").notes == (note,)
    assert asked(guaranteed("a", 2), release="1.22").notes == ()
    assert asked(guaranteed("a", 2), config=KubeletConfig("none"), release="1.20").notes == ()


def test_amounts_reserve_the_cpus_that_the_kubelet_chooses() -> None:
    topology = discover(SMALL.tree).cpu_topology()
    config = KubeletConfig(kube_reserved="500m", system_reserved="1")
    assert reserved_of(topology, config, "1.36") == CPUSet([0, 4])
    assert asked(config=config).held["reserved"] == CPUSet([0, 4])
    assert reserved_of(topology, replace(config, system_reserved="9"), "1.36") == CPUSet()
    assert reserved_of(topology, KubeletConfig(), "1.36") == CPUSet()


# -- over a state file -------------------------------------------------------------------------


def test_pods_that_the_state_file_knows_keep_their_cpus() -> None:
    """By their uid; the others get what is left."""
    known, new = replace(guaranteed("a", 2), uid="uid-1"), guaranteed("b", 2)
    found = asked(new, known, state=state("0-2,4-6", {"uid-1": {"c": "3,7"}}))
    assert said(found) == {"a/c": ("exclusive", "3,7"), "b/c": ("exclusive", "1,5")}
    assert found.notes == ()


def test_an_init_container_of_an_unknown_pod_is_no_second_holder() -> None:
    """The node has 4 CPUs to give, and the pod holds 4 of them, 2 of these twice."""
    entries = {"uid-1": {"init": "1,5", "app": "1,5", "other": "2,6"}}
    found = asked(state=state("0,3-4,7", entries))
    assert {owner: str(cpus) for owner, cpus in found.held.items()} == {
        "uid-1/app": "1,5", "uid-1/init": "1,5", "uid-1/other": "2,6",
        "reserved": "0,4", "shared pool": "3,7",
    }  # fmt: skip


def test_what_the_state_file_holds_wins_over_the_manifest() -> None:
    pod = replace(burstable("a", request="1"), uid="uid-1")
    (one,) = asked(pod, state=state("0,2-4,6-7", {"uid-1": {"c": "1,5"}})).verdicts()
    assert (one.kept, one.reason.rule) == (Kept.EXCLUSIVE, Rule.STATE_FILE)
    assert one.reason.text.startswith("held by the state file, though the pod is Burstable: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "unexpected end of JSON input"),
        ("\x1b[2J", "invalid character"),
        ('{"policyName":"none","defaultCpuSet":"","checksum":0}', "configured policy"),
        ('{"policyName":"static","defaultCpuSet":"0-7","checksum":1}', "checkpoint is corrupted"),
    ],
)
def test_a_state_file_that_cannot_be_restored(text: str, words: str) -> None:
    with pytest.raises(KubeletRefuses, match=words) as caught:
        asked(state=text)
    assert caught.value.way_out
    assert str(caught.value).isprintable()


def test_settings_at_fault_are_told_from_the_state_file() -> None:
    """Removing the file would not help."""
    bad = replace(CONFIG, policy_options={"no-such": "true"})
    for text in (None, state("0-7", {})):
        with pytest.raises(KubeletRefuses, match="unknown CPU Manager Policy option") as caught:
            asked(config=bad, state=text)
        assert caught.value.way_out == ""


def test_state_files_of_up_to_1_17_are_refused() -> None:
    with pytest.raises(SubjectUsageError, match=r"^state: a state file of 1.17 names containers"):
        asked(state="{}", release="1.17")


def test_bytes_that_are_no_text() -> None:
    """As a state file may have after a crash."""
    with pytest.raises(KubeletRefuses):
        asked(state='{"policyName":"static\udcff"}')
    with pytest.raises(SubjectUsageError, match=r"^state: a pod's uid is not a string"):
        asked(state=state("0,2-7", {"uid-\udcff": {"c": "1"}}))


@pytest.mark.parametrize("again", [True, False])
@given(st.lists(strategies.guaranteed_pods(max_cpus=3), max_size=5, unique_by=lambda p: p.name))
def test_the_kubelet_goes_on_where_it_was(again: bool, pods: list[Pod]) -> None:
    """Its state file leads to the same assignments, whether manifests are given again or not."""
    before = answer(LARGE, CONFIG, pods, release="1.36")
    text = before.view.state_file
    assert text is not None
    known = [pod for pod in pods if pod.uid in Checkpoint.loads(text).entries]
    after = answer(
        LARGE, CONFIG, known if again else [], state=StateFile("s", text), release="1.36"
    )
    assert sorted(map(str, after.held.values())) == sorted(map(str, before.held.values()))
    assert Checkpoint.loads(after.view.state_file or "") == Checkpoint.loads(text)


def test_a_full_node_is_answered_soon() -> None:
    """Of more pods than a kubelet runs by default, which is 110."""
    pods = [best_effort(f"p{number}") for number in range(500)]
    begin = time.process_time()
    answer(LARGE, CONFIG, pods, release="1.36")
    assert time.process_time() - begin < 20


def test_pods_come_from_an_api_server() -> None:
    """One that requests too much is no static pod, in whose favour others would be looked for."""
    first, second = asked(burstable("a", request="5"), burstable("b", request="2")).verdicts()
    assert (first.kept, second.kept) == (Kept.SHARED, Kept.REFUSED)
    assert second.reason.rule is Rule.NODE_CPUS


def test_a_critical_pod_puts_another_out() -> None:
    critical = replace(burstable("critical", request="2"), priority=NODE_CRITICAL)
    found = asked(guaranteed("a", 6), critical)
    first, second = found.verdicts()
    assert (first.kept, first.reason.rule) == (Kept.ENDED, Rule.CRITICAL_PODS)
    assert found.view.pods["a"].reason == "Preempting"
    assert (second.kept, str(second.cpus)) == (Kept.SHARED, "0-7")


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_requests_of_a_whole_pod_are_filled_in(release: str) -> None:
    """By the API server, from its limits."""
    resources = PodResources(cpu_limit="3", memory_limit="1Gi")
    found = asked(Pod("a", (Container("c"),), resources=resources), release=release)
    assert found.pods[0].resources == PodResources("3", "3", "1Gi", "1Gi")
