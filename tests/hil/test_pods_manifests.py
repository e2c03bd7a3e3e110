"""Pods of ours: their manifests, what the kubelet says of them, and whether there is room."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from conformance.pods import best_effort, burstable, exclusive, guaranteed, guaranteed_of
from hil.pods import Image, NoList, manifest, read_pods, refuse_if_crowded, text
from hil.shell import NodeUnfit
from reference.steps import Kind

IMAGE = Image("registry.example/busybox:1")


def test_a_static_pod_carries_its_uid() -> None:
    """So its entry in the state file is known beforehand."""
    pod = guaranteed("a", 2)
    made = json.loads(text(pod, IMAGE))
    name = f"pinproof-a-{pod.uid[:8]}"
    assert made["metadata"] == {"name": name, "namespace": "default", "uid": pod.uid}
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "2", "memory": "64Mi"},
        "limits": {"cpu": "2", "memory": "64Mi"},
    }
    assert "nodeName" not in made["spec"]


def test_static_pods_of_one_name_have_names_of_their_own() -> None:
    """A kubelet would let the second wait until nothing is left of the first."""
    one, other = guaranteed("a", 2), replace(guaranteed("a", 2), uid="0" * 32)
    names = {manifest(pod, IMAGE)["metadata"]["name"] for pod in (one, other)}
    assert len(names) == 2


def test_a_pod_of_the_api_is_bound_to_its_node() -> None:
    """Past the scheduler; the API server gives it a uid of its own."""
    made = manifest(guaranteed("a", 1), IMAGE, node_name="node7", namespace="pinproof")
    assert made["spec"]["nodeName"] == "node7"
    assert "uid" not in made["metadata"]
    assert made["metadata"]["namespace"] == "pinproof"


def test_kinds_of_containers() -> None:
    """Init containers end, sidecars go on, best effort asks for nothing."""
    pod = guaranteed_of(
        "p",
        [
            exclusive("i", 1, kind=Kind.INIT),
            exclusive("s", 1, kind=Kind.SIDECAR),
            exclusive("c", 1),
        ],
    )
    spec = manifest(pod, IMAGE)["spec"]
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
    """Others' pods count, ours and those that have ended do not."""
    others = _listed(("web", "2500m", "Running"), ("done", "8", "Succeeded"))
    refuse_if_crowded(guaranteed("a", 1), others, 4000)
    with pytest.raises(NodeUnfit, match="requests 2000m of CPU and 1 pods of others hold 2500m"):
        refuse_if_crowded(guaranteed("a", 2), others, 4000)
    refuse_if_crowded(guaranteed("a", 4), _listed(("pinproof-b", "3", "Running")), 4000)


def test_statuses() -> None:
    """An empty list is ``null`` in the answer."""
    assert read_pods('{"kind":"PodList","items":null}') == []
    (seen,) = read_pods(_listed(("web", "1", "Failed")))
    assert (seen.uid, seen.phase, seen.qos) == ("web", "Failed", "Burstable")


@pytest.mark.parametrize("answer", ["", "<html>", "[]", '{"items":[1]}', '{"items":[{}]}', "null"])
def test_what_is_no_list_of_pods(answer: str) -> None:
    """One error for all of it."""
    with pytest.raises(NoList):
        read_pods(answer)
