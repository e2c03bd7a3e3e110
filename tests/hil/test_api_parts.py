"""What of pods through an API server needs no server: manifests, uids, what admission changes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

import topologies
from conformance.kubelets.uids import renamed
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from hil.inspection import NodeFacts
from hil.pods import Image, StaticPods, manifest, read_pods, refuse_if_crowded, text
from hil.pods.apiserver import node_name
from hil.pods.apiserver.sameness import changes
from hil.pods.apiserver.space import label_of
from hil.safety import RemoveFile, WriteFile
from hil.shell import NodeUnfit, NodeUsageError
from hil.transport import nodes
from pinproof.subjects import node_options
from reference import CPUSet, Node
from reference.cpumanager.state.state_checkpoint import Checkpoint
from reference.steps import Apply, Kind, KubeletConfig, Pod, PodResources, Start

IMAGE = Image("busybox")
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
    """All but the uids: it must stay as wrong as it was."""
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
    pod = guaranteed_of(
        "p",
        [
            exclusive("i", 1, kind=Kind.INIT),
            exclusive("s", 1, kind=Kind.SIDECAR),
            exclusive("c", 2),
        ],
    )
    return manifest(pod, IMAGE, node_name="node7", namespace="ns")


def test_what_a_server_fills_in_is_no_change() -> None:
    """Defaults, other spellings of a quantity, requests that follow from limits."""
    ours = given()
    theirs = copy.deepcopy(ours)
    theirs["spec"] |= {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
    theirs["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "2000m"
    theirs["spec"]["containers"][0]["terminationMessagePath"] = "/dev/termination-log"
    del ours["spec"]["containers"][0]["resources"]["requests"]
    assert changes(ours, theirs) == []


def _injected(spec: dict[str, Any]) -> None:
    spec["containers"].append({"name": "proxy"})


def _shrunk(spec: dict[str, Any]) -> None:
    spec["containers"][0]["resources"]["limits"]["cpu"] = "1500m"


def _moved(spec: dict[str, Any]) -> None:
    spec["nodeName"] = "node8"


def _ended(spec: dict[str, Any]) -> None:
    del spec["initContainers"][1]["restartPolicy"]


def _whole(spec: dict[str, Any]) -> None:
    spec["resources"] = {"limits": {"cpu": "8"}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_injected, "containers are c, proxy, not c"),
        (_shrunk, "cpu limit of container c is 1500m, not 2"),
        (_moved, "nodeName is 'node8', not 'node7'"),
        (_ended, "restartPolicy of container s is None"),
        (_whole, "cpu limit of the pod is 8, not none"),
    ],
)
def test_what_admission_changes_is_named(
    change: Callable[[dict[str, Any]], None], expected: str
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


# ---- manifests, statuses, room ------------------------------------------------------------------


def test_a_pod_of_an_api_server_leaves_by_itself() -> None:
    """With grace: with none, every deletion would be a forced one. After hours, by the kubelet's
    own clock: a runner that was killed comes for it no more."""
    spec = manifest(best_effort("a"), IMAGE, node_name="node7")["spec"]
    assert spec["terminationGracePeriodSeconds"] == 2
    assert spec["activeDeadlineSeconds"] == 6 * 3600
    assert spec["automountServiceAccountToken"] is False
    static = manifest(best_effort("a"), IMAGE)["spec"]
    assert "activeDeadlineSeconds" not in static
    assert static["terminationGracePeriodSeconds"] == 0


def test_container_ids_come_without_the_runtimes_name() -> None:
    item = {
        "metadata": {"uid": ONE, "name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "status": {
            "containerStatuses": [
                {"name": "c", "restartCount": 2, "containerID": "cri-o://abc"},
                {"name": "d", "restartCount": 0},
            ]
        },
    }
    (seen,) = read_pods(json.dumps({"items": [item]}))
    assert seen.container_ids == {"c": "abc"}
    assert seen.restarts == {"c": 2, "d": 0}
    assert seen.leaving


def test_a_pod_that_is_not_static_evicts_nobody() -> None:
    other = {
        "metadata": {"uid": ONE, "name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
    }
    listed = json.dumps({"items": [other]})
    with pytest.raises(NodeUnfit, match="the kubelet has no room for it"):
        refuse_if_crowded(guaranteed("a", 2), listed, 4000, static=False)


def test_static_pods_come_as_files() -> None:
    """As the journal of the node knows them; nothing is asked beside the runner."""
    pod_source = StaticPods("/etc/kubernetes/manifests/", IMAGE)
    pod = guaranteed("a", 1)
    there, brought = pod_source.create(pod)
    path = "/etc/kubernetes/manifests/pinproof-a.yaml"
    assert there is pod
    assert brought == (WriteFile(path, text(pod, IMAGE).encode()),)
    assert pod_source.delete(there, force=True) == (RemoveFile(path),)
    assert pod_source.listed("x") == pod_source.all_pods("x") == "x"
    assert (
        pod_source.as_stated("y", KubeletConfig())
        == pod_source.as_given("y", KubeletConfig())
        == "y"
    )
    assert pod_source.static


# ---- names --------------------------------------------------------------------------------------


def test_the_nodes_name_in_the_cluster(facts: NodeFacts) -> None:
    """As the inventory has it, else the kubelet's flag, else the host's name in lower case."""
    assert node_name("Named.example", facts) == "Named.example"
    assert node_name("", replace(facts, hostname="Node7\n")) == "node7"
    assert facts.kubelet is not None
    located = replace(facts.kubelet, flags={"hostname-override": "n7.example"})
    assert node_name("", replace(facts, kubelet=located)) == "n7.example"


def test_a_long_name_is_a_label_too() -> None:
    """Names of nodes may have 253 characters, values of labels 63."""
    assert label_of("node7.example") == "node7.example"
    long = f"{'a' * 60}.{'b' * 60}"
    assert len(label_of(long)) <= 63
    assert label_of(long) != label_of(f"{long}c")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('namespace = "Upper"', ":3: namespace: 'Upper' is not a valid name in Kubernetes"),
        ('namespace = "a.b"', ":3: namespace: 'a.b' is not a"),
        (f'namespace = "{"a" * 64}"', ":3: namespace: "),
        ('node = "n7/../x"', ":3: node: 'n7/../x' is not a"),
        ("context = 3", ":3: context: 3 is not a text"),
    ],
)
def test_a_mistake_in_the_inventory(tmp_path: Path, line: str, expected: str) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(f'[[node]]\nurl = "ssh://a"\n{line}\n')
    with pytest.raises(NodeUsageError) as caught:
        nodes(str(path))
    assert expected in str(caught.value)


def test_the_keys_of_the_inventory(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(
        '[[node]]\nurl = "ssh://a"\nkubeconfig = "c"\ncontext = "Lab x"\n'
        'namespace = "pinproof-a"\nnode = "a.example"\n'
    )
    (one,) = nodes(str(path))
    assert one.kubeconfig == tmp_path / "c"
    assert (one.context, one.namespace, one.node) == ("Lab x", "pinproof-a", "a.example")


def test_options_of_the_command_line_reach_the_subject() -> None:
    """A path may have any character in it."""
    given = node_options("pods", Path("/a b/c&d?.conf"), "r.io/b:1")
    assert dict(parse_qsl(given)) == {
        "max-risk": "pods",
        "image": "r.io/b:1",
        "kubeconfig": "/a b/c&d?.conf",
    }
    assert node_options("", None) == ""
