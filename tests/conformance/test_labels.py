"""Pods with labels: what a release promises of them, and a fork that looks at one."""

from __future__ import annotations

from typing import Final

import pytest

from conformance.kubelets import manifests
from conformance.pods import guaranteed
from conformance.scenarios.labels import marked
from conformance.subjects.miniatures import miniature
from conformance.subjects.reference import ReferenceSubject
from reference.behaviours import Behaviour
from reference.pods.labels import PLATFORM
from reference.pods.qos import pod_text
from tests.conformance.judging import judged

FORK: Final = f"1.36+{Behaviour.PLATFORM_PODS_ON_RESERVED.title}"
MACHINE: Final = "2s-2n-16c-smt2"
OF_RELEASES: Final = (
    "labels/whole-cpus-are-exclusive-whatever-the-labels",
    "labels/burstable-shares-whatever-the-labels",
    "labels/best-effort-shares-whatever-the-labels",
)
OF_FORKS: Final = (
    "labels/platform-pod-runs-on-reserved-cpus",
    "labels/platform-pod-leaves-the-shared-pool",
    "labels/platform-pod-has-strictly-reserved-cpus",
)


@pytest.mark.parametrize("scenario", [*OF_RELEASES, *OF_FORKS])
@pytest.mark.parametrize("release", ["1.36", FORK])
def test_each_promise_is_that_of_a_release_or_of_a_fork(scenario: str, release: str) -> None:
    result = judged(scenario, MACHINE, release=release)
    applies = (scenario in OF_FORKS) == (release == FORK)
    assert result.verdict == ("pass" if applies else "skip"), result.explanation
    assert applies or "platform-pods-on-reserved" in result.reason


@pytest.mark.parametrize("scenario", OF_RELEASES)
def test_a_fork_breaks_the_promise_of_a_release(scenario: str) -> None:
    result = judged(scenario, MACHINE, ReferenceSubject(release=FORK), release="1.36")
    assert result.verdict == "fail"


@pytest.mark.parametrize("scenario", OF_FORKS)
def test_a_kubelet_that_reads_no_labels_breaks_the_promise_of_a_fork(scenario: str) -> None:
    for subject in (ReferenceSubject(release="1.36"), miniature("never-updates")):
        result = judged(scenario, MACHINE, subject, release=FORK)
        assert result.verdict == "fail"


def test_labels_reach_the_manifest_and_the_story() -> None:
    pod = marked(guaranteed("a", 2))
    metadata = manifests.manifest(pod)["metadata"]
    assert metadata["labels"] == dict([PLATFORM])
    assert list(metadata["annotations"]) == ["target.workload.openshift.io/management"]
    assert "labels" not in manifests.manifest(guaranteed("a", 2))["metadata"]
    assert "; label app.starlingx.io/component=platform; annotation target." in pod_text(pod)
