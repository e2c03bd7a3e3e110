"""The pod that is the way to a node: a real API server, whose kubelet's part is played by hand."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from hil.apiserver import Server
from hil.shell import NodeError, NodeTimeout, NodeUnfit, NodeUnreachable, NodeUsageError
from hil.transport import NodeAddress, connect, nodes
from hil.transport.kube import KubeShell
from hil.transport.kube import pod as pods
from tests.hil.conftest import Says
from tests.support.cluster import Cluster
from tests.support.until import until

NODE = "node7.example"
READY = {"type": "Ready", "status": "True"}
#: What an image without a shell comes to, as containerd 2.1 and the kubelet of 1.36 have it.
NO_SHELL = (
    'failed to create containerd task: failed to start: exec: "sh": executable file not found in '
    "$PATH"
)


@pytest.fixture(scope="module")
def cluster(shared_cluster: Cluster) -> Cluster:
    shared_cluster.add_node(NODE)
    _condition(shared_cluster, READY)
    return shared_cluster


@pytest.fixture(scope="module", autouse=True)
def node(cluster: Cluster) -> Iterator[None]:
    """Its kubelet confirms at once that a pod which is deleted has ended."""
    over = threading.Event()

    def confirm() -> None:
        while not over.wait(0.1):
            for one in cluster.admin.list_pod_for_all_namespaces().items:
                if one.metadata.deletion_timestamp:
                    with contextlib.suppress(ApiException):  # it is gone already
                        cluster.confirm(one.metadata.namespace, one.metadata.name)

    thread = threading.Thread(target=confirm, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


def _condition(cluster: Cluster, condition: dict[str, str]) -> None:
    cluster.admin.patch_node_status(NODE, {"status": {"conditions": [condition]}})


@pytest.fixture
def address(cluster: Cluster) -> NodeAddress:
    (found,) = nodes(f"kube://{NODE}")
    return replace(found, kubeconfig=cluster.admin_kubeconfig)


@pytest.fixture(autouse=True)
def nothing_stays(cluster: Cluster) -> Iterator[None]:
    yield

    def names() -> list[str]:
        found = [one.metadata.name for one in cluster.admin.list_namespace().items]
        return [one for one in found if one.startswith("pinproof")]

    assert until(lambda: not names(), 10), names()


def _refused(address: NodeAddress, kind: type[NodeError], said: str) -> str:
    with pytest.raises(kind, match=re.escape(said)) as caught:
        connect(address)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"url": "kube://node9"}, "the cluster has no node 'node9'"), ({"context": "lab9"}, "lab9")],
)
def test_what_the_cluster_or_the_kubeconfig_lacks_is_wrong_usage(
    address: NodeAddress, changed: dict[str, Any], said: str
) -> None:
    _refused(replace(address, **changed), NodeUsageError, said)


@pytest.mark.parametrize(
    "words",
    [
        "probe kube://node9",
        "certify kube://node9",
        "certify kube://node9 --dry-run",
        "run --subject node:kube://node9 -n 0",
        "explore node:kube://node9 --max-risk reboot",
        "capture kube://node9 --node",
        "restore kube://node9",
    ],
)
def test_every_command_on_nodes_takes_it(
    words: str,
    cluster: Cluster,
    says: Says,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    kubeconfig = str(cluster.admin_kubeconfig)
    status, _, err = says(*words.split(), "--kubeconfig", kubeconfig, "--transport-image", "i")
    assert status == 2
    assert err.splitlines()[-1].endswith(f"{cluster.url}: the cluster has no node 'node9'")


def test_a_node_that_is_not_ready(address: NodeAddress, cluster: Cluster) -> None:
    _condition(cluster, {**READY, "status": "Unknown", "message": "Kubelet stopped posting status"})
    said = _refused(address, NodeUnreachable, "the node is not Ready")
    assert said.endswith(": Kubelet stopped posting status")
    _condition(cluster, READY)


def test_a_user_without_rights(address: NodeAddress, cluster: Cluster) -> None:
    nobody = replace(address, kubeconfig=cluster.kubeconfig("nobody"))
    _refused(nobody, NodeError, 'User "nobody" cannot get resource "nodes"')


def test_a_cluster_that_admits_no_privileged_pod(
    address: NodeAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its namespaces are not labelled by who makes them."""
    unbound = {"pod-security.kubernetes.io/enforce": "baseline"}
    monkeypatch.setattr("hil.apiserver.space._UNBOUND", unbound)
    _refused(address, NodeError, "violates PodSecurity")


Reported = tuple[dict[str, Any], list[dict[str, Any]]]


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> Reported:
    """What a kubelet reports of each transport pod, once it is made; and the pods, as they were."""
    status: dict[str, Any] = {}
    seen: list[dict[str, Any]] = []
    create = pods.TransportPod._create

    def report(pod: pods.TransportPod) -> None:
        create(pod)
        seen.append(pod._read() or {})
        cluster.report(pod.namespace, pods.NAME, status)

    monkeypatch.setattr(pods.TransportPod, "_create", report)
    return status, seen


def _with_container(phase: str, **state: dict[str, Any]) -> dict[str, Any]:
    """The status of a pod whose container is in this state."""
    one = {"name": pods.NAME, "image": "i", "imageID": "", "restartCount": 0, "state": state}
    return {"phase": phase, "containerStatuses": [{**one, "ready": phase == "Running"}]}


@pytest.mark.parametrize(
    ("phase", "state", "why"),
    [
        ("Failed", "terminated", {"reason": "StartError", "message": NO_SHELL, "exitCode": 128}),
        ("Pending", "waiting", {"reason": "ErrImagePull", "message": "lookup docker.io: no host"}),
        ("Pending", "waiting", {"reason": "RunContainerError", "message": NO_SHELL}),
    ],
)
def test_an_image_that_cannot_run(
    phase: str, state: str, why: dict[str, Any], address: NodeAddress, reported: Reported
) -> None:
    reported[0].update(_with_container(phase, **{state: why}))
    said = _refused(address, NodeUnfit, "the transport pod cannot run the image")
    assert "--transport-image" in said
    assert said.endswith(f"{why['reason']}: {why['message']}")


def test_a_kubelet_that_rejects_the_pod(address: NodeAddress, reported: Reported) -> None:
    reported[0].update(phase="Failed", reason="OutOfpods", message="Node didn't have enough: pods")
    _refused(address, NodeUnfit, "its kubelet rejects the transport pod: OutOfpods")


def test_a_pod_that_never_starts(cluster: Cluster) -> None:
    server = Server.of(cluster.admin_kubeconfig)
    with (
        contextlib.closing(KubeShell("n", server, NODE, then=server.close, patience=1.0)) as shell,
        pytest.raises(NodeTimeout, match="the transport pod does not run after 1 s"),
    ):
        shell.connect()


def test_the_pod_names_its_owner_its_node_and_its_end(
    address: NodeAddress, reported: Reported
) -> None:
    """It runs; exec then ends at a node that is not there."""
    status, seen = reported
    status.update(_with_container("Running", running={"startedAt": "2026-01-01T00:00:00Z"}))
    _refused(address, NodeUnreachable, "run a command on")
    (pod,) = seen
    spec = pod["spec"]
    assert re.fullmatch(r"\S+@\S+, pid \d+: .*", pod["metadata"]["annotations"]["pinproof/owner"])
    assert (spec["nodeName"], spec["hostPID"]) == (NODE, True)
    assert {"operator": "Exists"} in spec["tolerations"]
    assert 0 < spec["activeDeadlineSeconds"] <= 6 * 3600
    assert pod["status"]["qosClass"] == "BestEffort"
    assert "resources" not in spec["containers"][0] or not spec["containers"][0]["resources"]
