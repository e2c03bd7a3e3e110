"""Pods through a real API server: kube-apiserver and etcd on this host, nothing behind them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from conformance.pods import best_effort, guaranteed
from hil.apiserver import Refused, Server, space
from hil.inspection import NodeFacts
from hil.pods import Image, StaticPods, read_pods
from hil.pods.apiserver import ClusterPods, sweep
from hil.pods.apiserver.opening import pod_source_for, swept
from hil.safety import NodeBusy, NotRestored, Risk
from hil.session.leasing import LeasedNode, lease_node
from hil.shell import NodeError, NodeUnfit, NodeUnreachable, NodeUsageError
from hil.transport import NodeAddress
from reference.steps import KubeletConfig, Pod, PodResources
from tests.hil.test_pods_manifests import several
from tests.support.cluster import Authority, Cluster, gone, kubeconfig
from tests.support.fakenode import FakeNode

BOOT = "0b00b007-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def cluster(shared_cluster: Cluster) -> Cluster:
    shared_cluster.add_node("node7", BOOT)
    shared_cluster.add_node("node8")
    return shared_cluster


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> Iterator[Server]:
    with closing(Server.of(cluster.admin_kubeconfig)) as opened:
        yield opened


@pytest.fixture
def pods(server: Server) -> Iterator[ClusterPods]:
    with ClusterPods.on(server, "node7", boot_id=f"{BOOT}\n", patience=1.0) as made:
        yield made


def refusal(action: Callable[[], object], kind: type[NodeError] = Refused) -> str:
    with pytest.raises(NodeError) as caught:
        action()
    assert type(caught.value) is kind
    message = str(caught.value)
    assert message.isprintable()
    return message


def namespaces(cluster: Cluster) -> set[str]:
    return {one.metadata.name for one in cluster.admin.list_namespace().items}


def test_a_pod_is_bound_to_its_node(cluster: Cluster, pods: ClusterPods) -> None:
    """Past the scheduler, with a uid of the server's, in a namespace that is labelled."""
    stated = guaranteed("a", 2)
    there = pods.create(stated)
    assert there.uid != stated.uid
    assert pods.uids == {stated.uid: there.uid}
    (seen,) = pods.statuses().values()
    assert (seen.uid, seen.name, seen.phase) == (there.uid, "pinproof-a", "Pending")
    assert (seen.qos, seen.leaving, seen.namespace) == ("Guaranteed", False, pods.namespace)
    made = cluster.admin.read_namespaced_pod("pinproof-a", pods.namespace)
    assert (made.spec.node_name, made.spec.service_account_name) == ("node7", "pinproof")
    assert "app.kubernetes.io/managed-by" in made.metadata.labels
    labels = cluster.admin.read_namespace(pods.namespace).metadata.labels
    assert labels["pinproof/node"] == "node7"
    # Any taint is tolerated, whatever its key and effect.
    ours = [one for one in made.spec.tolerations if one.operator == "Exists" and not one.key]
    assert [one.effect for one in ours] == [None]


def test_many_pods_are_read_in_one_request(
    cluster: Cluster, server: Server, pods: ClusterPods
) -> None:
    there = {name: pods.create(guaranteed(name, 1)) for name in "abc"}
    message = "Allocate failed due to not enough cpus available to satisfy request"
    failed = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
    cluster.report(pods.namespace, "pinproof-a", failed)
    container = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 3}
    running = {**container, "containerID": "containerd://0123abc", "state": {"running": {}}}
    status = {"phase": "Running", "containerStatuses": [running]}
    cluster.report(pods.namespace, "pinproof-b", status)
    before = server.requests
    seen = pods.statuses()
    assert server.requests == before + 1
    rejected, runs, waits = (seen[there[name].uid] for name in "abc")
    assert (rejected.phase, rejected.reason) == ("Failed", "UnexpectedAdmissionError")
    assert rejected.message == message
    assert (runs.phase, runs.restarts) == ("Running", {"c": 3})
    assert runs.container_ids == {"c": "0123abc"}
    assert (waits.phase, waits.container_ids) == ("Pending", {})
    assert pods.await_settled(there["a"], there["b"], seconds=0)
    assert not pods.await_settled(there["a"], there["c"], seconds=0)


def test_everybody_on_the_node_is_seen(cluster: Cluster, pods: ClusterPods) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "pinproof"}
    for node in ("node7", "node8"):
        body = {"metadata": {"name": f"other-{node}"}, "spec": {**spec, "nodeName": node}}
        cluster.admin.create_namespaced_pod(pods.namespace, body)
    pods.create(guaranteed("a", 1))
    assert {one.name for one in read_pods(pods.on_node())} == {"other-node7", "pinproof-a"}
    assert {one.name for one in pods.statuses().values()} == {"pinproof-a"}


def test_an_ordinary_deletion_takes_the_kubelets_word(cluster: Cluster, pods: ClusterPods) -> None:
    """Until then the pod is there, on its way out. By force it is gone at once."""
    one, two = pods.create(guaranteed("a", 1)), pods.create(guaranteed("b", 1))
    pods.delete(one)
    pods.delete(two, force=True)
    assert gone(pods, two, seconds=0)
    assert not gone(pods, one, seconds=0)
    assert pods.statuses()[one.uid].leaving
    cluster.confirm(pods.namespace, "pinproof-a")
    assert gone(pods, one, two, seconds=5)
    pods.delete(one)  # gone already: no error
    pods.delete(two, force=True)


def test_only_the_pod_that_was_meant_is_deleted(pods: ClusterPods) -> None:
    """Another one may have its name by now."""
    old = pods.create(guaranteed("a", 1))
    pods.delete(old, force=True)
    new = pods.create(guaranteed("a", 2))
    pods.delete(old, force=True)
    assert set(pods.statuses()) == {new.uid}


def test_a_name_that_is_taken(cluster: Cluster, pods: ClusterPods) -> None:
    one = pods.create(guaranteed("a", 1))
    message = refusal(lambda: pods.create(guaranteed("a", 1)))
    assert message.endswith('cannot create pod pinproof-a: pods "pinproof-a" already exists')
    pods.delete(one)
    confirming = threading.Timer(0.3, cluster.confirm, (pods.namespace, "pinproof-a"))
    confirming.start()
    assert pods.create(guaranteed("a", 1)).uid != one.uid
    confirming.join()


def test_all_kinds_of_pods_go_through_unchanged(pods: ClusterPods) -> None:
    """Init containers, sidecars, resources of the pod as a whole."""
    pods.create(several("a"))
    pods.create(best_effort("b"))
    whole = PodResources("4", "4", "128Mi", "128Mi")
    pods.create(Pod("w", guaranteed("w", 2).containers, resources=whole))
    assert len(pods.statuses()) == 3


def test_a_pod_that_admission_has_changed_is_refused(cluster: Cluster, pods: ClusterPods) -> None:
    """The kubelet would do right by another pod than the one that is judged."""
    limits = {"limits": [{"type": "Container", "default": {"cpu": "700m"}}]}
    body = {"metadata": {"name": "l"}, "spec": limits}
    cluster.admin.create_namespaced_limit_range(pods.namespace, body)
    message = refusal(lambda: pods.create(best_effort("a")), NodeUnfit)
    assert "admission changed pod pinproof-a: " in message
    assert "cpu limit of container c is 700m, not none" in message
    assert pods.statuses() == {}


def _create_until_refused(pods: ClusterPods) -> None:
    """Admission reads labels and quotas from a cache, which is a moment behind."""
    for number in range(100):
        pods.create(guaranteed(f"b{number}", 1))
        time.sleep(0.2)


def test_a_quota_refuses_in_one_line(cluster: Cluster, pods: ClusterPods) -> None:
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    cluster.admin.create_namespaced_resource_quota(pods.namespace, body)
    full = {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
    cluster.admin.patch_namespaced_resource_quota_status("q", pods.namespace, full)
    message = refusal(lambda: _create_until_refused(pods))
    assert "cannot create pod pinproof-b" in message
    assert "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0" in message


def test_pod_security_is_met_by_a_label(cluster: Cluster, pods: ClusterPods) -> None:
    """Ours says privileged, because pods need the host's network; a stricter one refuses them."""
    pods.create(guaranteed("a", 1))
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    cluster.admin.patch_namespace(pods.namespace, label)
    message = refusal(lambda: _create_until_refused(pods))
    assert 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)' in message


def test_what_a_killed_run_left_is_swept(cluster: Cluster, server: Server) -> None:
    dead = ClusterPods.on(server, "node7", patience=1.0)
    dead.create(guaranteed("a", 1))
    other = ClusterPods.on(server, "node8", patience=1.0)
    other.create(guaranteed("a", 1))
    lines: list[str] = []
    with ClusterPods.on(server, "node7", patience=4.0, say=lines.append) as alive:
        assert lines == [f"node7: removed namespace {dead.namespace}, which a run had left"]
        assert space.await_removed(server, dead.namespace, seconds=10)
        assert alive.namespace in namespaces(cluster)
        assert len(other.statuses()) == 1
    assert alive.namespace not in namespaces(cluster)
    assert other.close()
    assert other.close()
    assert sweep(server, "node7") == sweep(server, "node8") == []


def test_leaving_removes_all_of_it(cluster: Cluster, server: Server) -> None:
    """When a scenario breaks, too."""
    with suppress(ZeroDivisionError), ClusterPods.on(server, "node7", patience=2.0) as pods:
        pods.create(guaranteed("a", 1))
        raise ZeroDivisionError
    assert pods.namespace not in namespaces(cluster)


def test_a_namespace_of_somebody_else(cluster: Cluster, server: Server) -> None:
    """Is not touched; one of ours for this node is used again."""
    cluster.admin.create_namespace({"metadata": {"name": "theirs"}})
    message = refusal(lambda: ClusterPods.on(server, "node7", namespace="theirs"), NodeUsageError)
    assert message.endswith("namespace theirs is there already, and not pinproof's")
    with ClusterPods.on(server, "node8", namespace="mine", patience=1.0):
        message = refusal(lambda: ClusterPods.on(server, "node7", namespace="mine"), NodeUsageError)
        assert message.endswith("namespace mine belongs to a run on node8")
    with ClusterPods.on(server, "node8", namespace="mine", patience=5.0) as again:
        assert again.namespace == "mine"
    assert {"theirs", "default", "kube-system"} <= namespaces(cluster)


def test_a_node_that_is_another_machine_or_not_there(server: Server, cluster: Cluster) -> None:
    """Pods would run where nobody looks. Nothing is made."""
    before = namespaces(cluster)
    message = refusal(lambda: ClusterPods.on(server, "node9"), NodeUsageError)
    assert message.endswith("there is no node 'node9' in the cluster")
    message = refusal(lambda: ClusterPods.on(server, "node7", boot_id="another"), NodeUsageError)
    assert f"its node node7 is another machine: it booted as {BOOT}" in message
    assert namespaces(cluster) == before


def test_the_inventory_decides_how_pods_come(cluster: Cluster, described: NodeFacts) -> None:
    """With a kubeconfig through its server, under other uids; without, as files."""
    image = Image("busybox")
    address = NodeAddress("fake", "local:")
    assert isinstance(pod_source_for(address, described, image), StaticPods)
    named = replace(address, kubeconfig=cluster.admin_kubeconfig, node="node8", namespace="own")
    lines: list[str] = []
    pod_source = pod_source_for(named, replace(described, boot_id=""), image, say=lines.append)
    pod = guaranteed("a", 1)
    there, brought = pod_source.create(pod)
    assert not pod_source.static
    assert brought == ()
    assert there.uid != pod.uid
    pod_source.await_settled([])
    listed, everybody = pod_source.listed(None), pod_source.all_pods(None)
    assert [one.uid for one in read_pods(listed or "")] == [there.uid]
    assert there.uid in {one.uid for one in read_pods(everybody or "")}
    config = KubeletConfig()
    assert pod_source.as_stated(f"{{{there.uid}", config) == f"{{{pod.uid}"
    assert pod_source.as_given(f"{{{pod.uid}", config) == f"{{{there.uid}"
    assert pod_source.as_stated(None, config) is None
    assert pod_source.delete(there, force=True) == ()
    pod_source.close()
    pod_source.close()
    assert "own" not in namespaces(cluster)


def test_what_is_left_can_be_swept_without_a_run(
    cluster: Cluster, server: Server, described: NodeFacts
) -> None:
    """As restoring a node does; nothing of another node's, and nothing without a kubeconfig."""
    left = ClusterPods.on(server, "node8", patience=1.0)
    address = NodeAddress("fake", "local:", kubeconfig=cluster.admin_kubeconfig, node="node7")
    assert swept(address, described) == []
    assert swept(NodeAddress("fake", "local:", node="node8"), described) == []
    assert swept(replace(address, node="node8"), described) == [left.namespace]
    assert space.await_removed(server, left.namespace, seconds=10)


def taken(cluster: Cluster, fake: FakeNode, facts: NodeFacts, node: str = "node7") -> LeasedNode:
    address = NodeAddress(
        "fake", "local:", kubeconfig=cluster.admin_kubeconfig, node=node, namespace="taken"
    )
    facts = replace(facts, boot_id=BOOT)
    return lease_node(address, fake.shell(), facts, risk=Risk.PODS, image=Image("busybox"))


def test_a_node_comes_with_a_namespace_and_goes_with_it(
    cluster: Cluster, fake: FakeNode, facts: NodeFacts
) -> None:
    """Made under the node's lease, gone before the lease is. A second run is told of the first by
    the node, and has not touched the cluster by then."""
    with fake.unchanged():
        held = taken(cluster, fake, facts)
        source = held.session.pod_source
        there, _ = source.create(guaranteed("a", 1))
        with pytest.raises(NodeBusy):
            taken(cluster, fake, facts)
        assert there.uid in {one.uid for one in read_pods(source.listed(None) or "")}
        confirming = threading.Timer(0.5, cluster.confirm, ("taken", "pinproof-a"))
        confirming.start()
        held.give_back()
        confirming.join()
    assert "taken" not in namespaces(cluster)


def test_pods_that_cannot_be_taken_back_are_told(
    cluster: Cluster, fake: FakeNode, facts: NodeFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node is restored all the same; what is left is swept by the next run."""

    def cut(self: Server, *words: object, **named: object) -> NoReturn:
        raise NodeUnreachable("cut off")

    with fake.unchanged(), monkeypatch.context() as patch:
        held = taken(cluster, fake, facts)
        patch.setattr(Server, "ask", cut)
        with pytest.raises(NotRestored, match="may be left in its cluster: cut off"):
            held.give_back()
    assert "taken" in namespaces(cluster)
    taken(cluster, fake, facts).give_back()
    assert "taken" not in namespaces(cluster)


def test_a_node_whose_cluster_refuses_is_let_go_of(
    cluster: Cluster, fake: FakeNode, facts: NodeFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was found. So are connections to the server and credentials, before the error goes
    on."""
    closed: list[str] = []
    really = Server.close

    def close(self: Server) -> None:
        closed.append(self.url)
        really(self)

    monkeypatch.setattr(Server, "close", close)
    with fake.unchanged():
        refusal(lambda: taken(cluster, fake, facts, "node9"), NodeUsageError)
    assert closed == [cluster.url]


@pytest.fixture
def user(cluster: Cluster) -> Iterator[Server]:
    """Somebody without any right."""
    with closing(Server.of(cluster.kubeconfig("nobody"))) as opened:
        yield opened


def test_a_user_without_rights(user: Server, server: Server) -> None:
    """Each right that lacks is named by the server."""
    message = refusal(lambda: ClusterPods.on(user, "node7"))
    assert 'cannot read node node7: nodes "node7" is forbidden: User "nobody"' in message
    message = refusal(lambda: sweep(user, "node7"))
    assert 'User "nobody" cannot list resource "namespaces"' in message
    with ClusterPods.on(server, "node7", patience=1.0) as made:
        theirs = ClusterPods(user, "node7", made.namespace, image=made._image)
        message = refusal(lambda: theirs.create(guaranteed("a", 1)))
        assert 'cannot create resource "pods"' in message


def test_a_user_of_another_authority(cluster: Cluster, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger").certify("admin", "system:masters")
    path = kubeconfig(tmp_path / "config", cluster.url, cluster.authority.path, stranger)
    with closing(Server.of(path)) as opened:
        message = refusal(lambda: sweep(opened, "node7"))
    assert "does not accept the kubeconfig's credentials (401 Unauthorized)" in message


def test_the_rights_that_the_page_names_suffice(cluster: Cluster) -> None:
    """docs/explanation/hil.md has a role: no less, or this fails; no more, or the next one does."""
    import yaml
    from kubernetes.client import RbacAuthorizationV1Api

    page = (Path(__file__).parents[2] / "docs/explanation/hil.md").read_text(encoding="utf-8")
    text = page.partition("kind: ClusterRole\n")[2].partition("```")[0]
    role: dict[str, Any] = yaml.safe_load(f"kind: ClusterRole\n{text}")
    rbac: Any = RbacAuthorizationV1Api(cluster.admin.api_client)
    group = "rbac.authorization.k8s.io"
    rbac.create_cluster_role({**role, "apiVersion": f"{group}/v1"})
    name = role["metadata"]["name"]
    binding = {
        "metadata": {"name": "pinproof"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "name": "pinproof"}],
    }
    rbac.create_cluster_role_binding(binding)
    with closing(Server.of(cluster.kubeconfig("pinproof"))) as opened:
        with ClusterPods.on(opened, "node7", boot_id=BOOT, patience=2.0) as pods:
            one = pods.create(guaranteed("a", 1))
            pods.on_node()
            pods.delete(one)
        assert pods.namespace not in namespaces(cluster)
        secrets = partial(opened.ask, "list_namespaced_secret", "list secrets")
        assert "forbidden" in refusal(lambda: secrets(namespace="kube-system"))
