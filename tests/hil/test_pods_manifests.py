"""Pods of ours: their manifests, what the kubelet says of them, and whether there is room; and what
an API server makes of them: other uids, and changes of admission."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import topologies
from conformance.kubelets.uids import renamed
from conformance.pods import best_effort, burstable, exclusive, guaranteed, guaranteed_of
from hil.apiserver.space import label_of
from hil.inspection import NodeFacts, kubelet_of
from hil.pods import Image, NoList, StaticPods, manifest, read_pods, refuse_if_crowded, text
from hil.pods.apiserver import node_name
from hil.pods.apiserver.sameness import changes
from hil.safety import RemoveFile, WriteFile
from hil.shell import NodeUnfit
from reference import CPUSet, Node
from reference.cpumanager.state.state_checkpoint import Checkpoint
from reference.steps import Apply, Kind, KubeletConfig, Pod, PodResources, Start

IMAGE = Image("registry.example/busybox:1")


def test_a_static_pod_carries_its_uid() -> None:
    """So its entry in the state file is known beforehand. Its name has it, too: a kubelet would let
    a second pod of one name wait until nothing is left of the first."""
    pod = guaranteed("a", 2)
    made = json.loads(text(pod, IMAGE))
    name = f"pinproof-a-{pod.uid[:8]}"
    assert made["metadata"] == {"name": name, "namespace": "default", "uid": pod.uid}
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "2", "memory": "64Mi"},
        "limits": {"cpu": "2", "memory": "64Mi"},
    }
    assert not {"nodeName", "activeDeadlineSeconds"} & {*made["spec"]}
    assert made["spec"]["terminationGracePeriodSeconds"] == 0


def test_a_pod_of_the_api_is_bound_to_its_node() -> None:
    """Past the scheduler; the API server gives it a uid of its own. It leaves by itself, with
    grace: with none, every deletion would be a forced one. After hours, by the kubelet's own clock:
    a runner that was killed comes for it no more."""
    made = manifest(guaranteed("a", 1), IMAGE, node_name="node7", namespace="pinproof")
    assert made["spec"]["nodeName"] == "node7"
    assert "uid" not in made["metadata"]
    assert made["metadata"]["namespace"] == "pinproof"
    assert made["spec"]["terminationGracePeriodSeconds"] == 2
    assert made["spec"]["activeDeadlineSeconds"] == 6 * 3600
    assert made["spec"]["automountServiceAccountToken"] is False


def test_static_pods_come_as_files() -> None:
    """As the journal of the node knows them; nothing is asked beside the runner."""
    pod_source = StaticPods("/etc/kubernetes/manifests/", IMAGE)
    pod = guaranteed("a", 1)
    path = "/etc/kubernetes/manifests/pinproof-a.yaml"
    assert pod_source.create(pod) == (pod, (WriteFile(path, text(pod, IMAGE).encode()),))
    assert pod_source.delete(pod, force=True) == (RemoveFile(path),)
    assert pod_source.listed("x") == pod_source.all_pods("x") == "x"
    config = KubeletConfig()
    assert pod_source.as_stated("y", config) == pod_source.as_given("y", config) == "y"
    assert pod_source.static


def several(name: str) -> Pod:
    """A pod with a container of each kind."""
    init, sidecar = exclusive("i", 1, kind=Kind.INIT), exclusive("s", 1, kind=Kind.SIDECAR)
    return guaranteed_of(name, [init, sidecar, exclusive("c", 2)])


def test_kinds_of_containers() -> None:
    """Init containers end, sidecars go on, best effort asks for nothing."""
    spec = manifest(several("p"), IMAGE)["spec"]
    first, second = spec["initContainers"]
    assert first["command"][-1] == "exit 0"
    assert "restartPolicy" not in first
    assert second["restartPolicy"] == "Always"
    assert [one["name"] for one in spec["containers"]] == ["c"]
    assert "resources" not in manifest(best_effort("b"), IMAGE)["spec"]["containers"][0]
    assert manifest(burstable("b", request="500m"), IMAGE)["spec"]["containers"][0]["resources"][
        "requests"
    ] == {"cpu": "500m", "memory": "64Mi"}


def _listed(*pods: tuple[str, str, str]) -> str:
    items = [
        {
            "metadata": {"uid": name, "name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            "status": {"phase": phase, "qosClass": "Burstable"},
        }
        for name, cpu, phase in pods
    ]
    return json.dumps({"kind": "PodList", "items": items})


def test_a_static_pod_is_refused_where_it_would_evict_others() -> None:
    """Others' pods count, ours and those that have ended do not. One that is not static evicts
    nobody: there is no room for it."""
    others = _listed(("web", "2500m", "Running"), ("done", "8", "Succeeded"))
    refuse_if_crowded(guaranteed("a", 1), others, 4000)
    with pytest.raises(NodeUnfit, match="requests 2000m of CPU and 1 pods of others hold 2500m"):
        refuse_if_crowded(guaranteed("a", 2), others, 4000)
    refuse_if_crowded(guaranteed("a", 4), _listed(("pinproof-b", "3", "Running")), 4000)
    with pytest.raises(NodeUnfit, match="the kubelet has no room for it"):
        refuse_if_crowded(guaranteed("a", 2), others, 4000, static=False)


def test_statuses() -> None:
    """An empty list is ``null`` in the answer."""
    assert read_pods('{"kind":"PodList","items":null}') == []
    (seen,) = read_pods(_listed(("web", "1", "Failed")))
    assert (seen.uid, seen.phase, seen.qos) == ("web", "Failed", "Burstable")


def test_container_ids_come_without_the_runtimes_name() -> None:
    statuses = [
        {"name": "c", "restartCount": 2, "containerID": "cri-o://abc"},
        {"name": "d", "restartCount": 0},
    ]
    metadata = {"uid": "u", "name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    item = {"metadata": metadata, "status": {"containerStatuses": statuses}}
    (seen,) = read_pods(json.dumps({"items": [item]}))
    assert seen.container_ids == {"c": "abc"}
    assert seen.restarts == {"c": 2, "d": 0}
    assert seen.leaving


@pytest.mark.parametrize("answer", ["", "<html>", "[]", '{"items":[1]}', '{"items":[{}]}', "null"])
def test_what_is_no_list_of_pods(answer: str) -> None:
    with pytest.raises(NoList):
        read_pods(answer)


# ---- through an API server ----------------------------------------------------------------------

ONE = "11111111-0000-4000-8000-000000000001"
TWO = "22222222-0000-4000-8000-000000000002"
NEW = "f3333333-0000-4000-8000-000000000003"
SWAPPED = {ONE: TWO, TWO: ONE}


def state_of(release: str, gates: dict[str, bool], *pods: Pod) -> str:
    """The state file of a kubelet that runs these."""
    config = KubeletConfig(reserved_system_cpus=CPUSet([0]), feature_gates=gates, policy_options={})
    tree = topologies.machine("1s-1n-8c-smt1").tree
    node = Node(lambda name: tree, "m", config, release=release)
    node.do(Start())
    for pod in pods:
        node.do(Apply(pod))
    made = node.view().state_file
    assert made is not None
    return made


@pytest.mark.parametrize("release", ["1.18", "1.26", "1.32", "1.36", "1.37"])
def test_a_state_file_under_other_uids_is_the_one_that_they_would_give(release: str) -> None:
    """To the byte: order and checksum too."""
    first, second = (replace(guaranteed(name, 2), uid=ONE) for name in "ab")
    second = replace(second, uid=TWO)
    text = state_of(release, {}, first, second)
    other = state_of(release, {}, replace(first, uid=NEW), replace(second, uid=TWO))
    assert ONE in text
    assert renamed(text, {ONE: NEW}, release=release) == other
    assert renamed(other, {NEW: ONE}, release=release) == text
    swapped = renamed(text, SWAPPED, release=release)
    assert swapped != text
    assert renamed(swapped, SWAPPED, release=release) == text
    Checkpoint.loads(swapped, release=release)


def test_entries_of_whole_pods_have_other_uids_too() -> None:
    """Versions 3 and 4 of the state file."""
    gates = {"PodLevelResources": True, "PodLevelResourceManagers": True}
    whole = PodResources("4", "4", "256Mi", "256Mi")
    pod = replace(guaranteed("a", 2), uid=ONE, resources=whole)
    text = state_of("1.37", gates, pod)
    other = state_of("1.37", gates, replace(pod, uid=NEW))
    assert renamed(text, {ONE: NEW}, release="1.37", feature_gates=gates) == other
    # The next kubelet may have another gate than the one that wrote the file.
    assert renamed(text, {ONE: NEW}, release="1.37") == other


def test_a_file_of_another_release_that_is_named_keeps_its_own_form() -> None:
    """As after an upgrade, before and after the new kubelet has written it."""
    pod = replace(guaranteed("a", 2), uid=ONE)
    for release in ("1.36", "1.37"):
        text, other = state_of(release, {}, pod), state_of(release, {}, replace(pod, uid=NEW))
        assert renamed(text, {ONE: NEW}, release="1.36", also=["1.37"]) == other
    assert renamed(text, {ONE: NEW}, release="1.36") != other


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1],
        lambda text: text + " ",
        lambda text: text.replace('"checksum":', '"checksum":1'),
        lambda text: "{" + text,
    ],
)
def test_a_file_that_no_kubelet_wrote_keeps_its_bytes(spoil: Callable[[str], str]) -> None:
    text = spoil(state_of("1.36", {}, replace(guaranteed("a", 2), uid=ONE)))
    assert renamed(text, {ONE: NEW}, release="1.36") == text.replace(ONE, NEW)


def test_two_uids_that_change_places_in_a_broken_file() -> None:
    """One after the other would make them one."""
    broken = f'{{"{ONE}" "{TWO}"'
    assert renamed(broken, SWAPPED, release="1.36") == f'{{"{TWO}" "{ONE}"'


def test_a_file_without_our_pods_is_left_alone() -> None:
    text = state_of("1.36", {})
    assert renamed(text, {ONE: NEW}, release="1.36") is text
    assert renamed(text, {}, release="1.36") is text


# ---- admission ----------------------------------------------------------------------------------


def given() -> dict[str, Any]:
    return manifest(several("p"), IMAGE, node_name="node7", namespace="ns")


def test_what_a_server_fills_in_is_no_change() -> None:
    """Defaults, other spellings of a quantity, requests that follow from limits."""
    ours = given()
    theirs = copy.deepcopy(ours)
    theirs["spec"] |= {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
    theirs["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "2000m"
    theirs["spec"]["containers"][0]["terminationMessagePath"] = "/dev/termination-log"
    del ours["spec"]["containers"][0]["resources"]["requests"]
    assert changes(ours, theirs) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda spec: spec["containers"].append({"name": "proxy"}),
            "containers are c, proxy, not c",
        ),
        (
            lambda spec: spec["containers"][0]["resources"]["limits"].update(cpu="1500m"),
            "cpu limit of container c is 1500m, not 2",
        ),
        (lambda spec: spec.update(nodeName="node8"), "nodeName is 'node8', not 'node7'"),
        (
            lambda spec: spec["initContainers"][1].pop("restartPolicy"),
            "restartPolicy of container s is None",
        ),
        (
            lambda spec: spec.update(resources={"limits": {"cpu": "8"}}),
            "cpu limit of the pod is 8, not none",
        ),
    ],
    ids=["a container more", "less CPU", "another node", "no sidecar", "a pod's limit"],
)
def test_what_admission_changes_is_named(
    change: Callable[[dict[str, Any]], object], expected: str
) -> None:
    theirs = given()
    change(theirs["spec"])
    assert expected in changes(given(), theirs)


def test_resources_of_the_pod_that_a_server_drops() -> None:
    """One without the feature takes them away without a word; what it fills in is no change."""
    pod = Pod("w", guaranteed("w", 2).containers, resources=PodResources("4", "4"))
    ours = manifest(pod, IMAGE, node_name="node7")
    theirs = copy.deepcopy(ours)
    theirs["spec"]["resources"]["requests"]["memory"] = "64Mi"
    assert changes(ours, theirs) == []
    del theirs["spec"]["resources"]
    assert "cpu limit of the pod is none, not 4" in changes(ours, theirs)


# ---- names --------------------------------------------------------------------------------------


def test_the_nodes_name_in_the_cluster(described: NodeFacts) -> None:
    assert node_name("Named.example", described) == "Named.example"
    assert node_name("", replace(described, hostname="Node7\n")) == "node7"
    located = replace(kubelet_of(described), flags={"hostname-override": "n7.example"})
    assert node_name("", replace(described, kubelet=located)) == "n7.example"


def test_a_long_name_is_a_label_too() -> None:
    """Names of nodes may have 253 characters, values of labels 63."""
    assert label_of("node7.example") == "node7.example"
    long = f"{'a' * 60}.{'b' * 60}"
    assert len(label_of(long)) <= 63
    assert label_of(long) != label_of(f"{long}c")
