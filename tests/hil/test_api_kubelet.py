"""An unmodified kubelet that belongs to a real API server: pods that come through it are pinned,
rejected and taken away as the model says, under the uids that the server gave them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import topologies
from conformance.kubelets import configuration as kubelet_config
from conformance.kubelets.releases import Minor
from conformance.oracle import ModelOracle
from conformance.pods import best_effort, guaranteed
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.inside import AREA
from conformance.subjects.kubelet.node import KubeletNode
from hil.apiserver import Server
from hil.pods import ServerPods
from hil.pods.apiserver import ClusterPods
from reference import CPUSet
from reference.steps import Apply, Delete, KubeletConfig, Pod, Start, Step, Stop
from reference.view import View
from tests.support.carrying import accepting, carry
from tests.support.cluster import Cluster, gone
from tests.support.until import until

MACHINE = "2s-4n-16c-smt2"
CONFIG = KubeletConfig(
    reserved_system_cpus=CPUSet([0, 16]), policy_options={"full-pcpus-only": "true"}
)
INSIDE = f"{AREA}/kubeconfig"


@contextlib.contextmanager
def bridged(listener: socket.socket, port: int) -> Iterator[None]:
    """Connections to this port of a sandbox's loopback are carried to the host's."""

    def carried(inside: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", port)) as outside:
            carry(inside, outside)

    with listener:
        listener.bind(("127.0.0.1", port))
        listener.listen()
        with accepting(listener, carried):
            yield


@pytest.fixture(scope="module")
def subject(kubelet_path: str) -> Iterator[KubeletSubject]:
    with contextlib.closing(KubeletSubject.open(kubelet_path)) as opened:
        yield opened


@pytest.fixture
def node(
    shared_cluster: Cluster, subject: KubeletSubject, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubeletNode]:
    """A kubelet that has joined; its pods come from the server alone."""
    own = kubelet_config.arguments

    def joined(release: Minor, binary: str, *, node_in_cluster: str = "") -> list[str]:
        assert node_in_cluster == "", "pinproof's own API server is for subjects alone"
        return [*own(release, binary), f"--kubeconfig={INSIDE}"]

    monkeypatch.setattr(kubelet_config, "arguments", joined)
    made = subject.node(topologies.machine(MACHINE), CONFIG)
    with (
        bridged(made.sandbox.socket(), urlsplit(shared_cluster.url).port or 0),
        contextlib.closing(made),
    ):
        _put(shared_cluster, made)
        made.do(Start())
        yield made


def _put(cluster: Cluster, node: KubeletNode) -> None:
    """Certificates and kubeconfig, side by side in the sandbox."""
    source = cluster.admin_kubeconfig
    for name in ("authority.crt", "admin.crt", "admin.key"):
        content = (source.parent / name).read_bytes()
        node.sandbox.path(str(Path(INSIDE).with_name(name))).write_bytes(content)
    node.sandbox.path(INSIDE).write_text(source.read_text())


class Both:
    """Pods on the kubelet through the server, and the model that says what is right."""

    def __init__(self, node: KubeletNode, pods: ClusterPods, release: str) -> None:
        machine = topologies.machine(MACHINE)
        self.node, self.pods, self.release = node, pods, release
        self.model = ModelOracle(machine, CONFIG, machines=topologies.machine, release=release)
        self.model.after(Start())

    def expected(self, step: Step) -> View:
        view = self.model.after(step)
        assert view is not None
        return view

    def state(self) -> str | None:
        """The state file, under the uids that the model knows."""
        text = self.node.view().state_file
        return ServerPods(self.pods, self.release).as_stated(text, CONFIG)

    def comes_to(self, view: View) -> None:
        """Its state file, in time."""
        assert until(lambda: self.state() == view.state_file, 60), self.state()

    def create(self, pod: Pod) -> tuple[Pod, View]:
        there = self.pods.create(pod)
        assert self.pods.await_settled(there, seconds=60)
        return there, self.expected(Apply(pod))


@pytest.fixture
def both(shared_cluster: Cluster, subject: KubeletSubject, node: KubeletNode) -> Iterator[Both]:
    def registered() -> bool:
        return "pinproof" in {one.metadata.name for one in shared_cluster.admin.list_node().items}

    assert until(registered, 60), node.evidence()
    with (
        contextlib.closing(Server.of(shared_cluster.admin_kubeconfig)) as server,
        ClusterPods.on(server, "pinproof", patience=30) as pods,
    ):
        yield Both(node, pods, subject.info.release)


def test_pods_through_the_server_are_pinned_as_the_model_says(both: Both) -> None:
    one, view = both.create(guaranteed("a", 2))
    assert both.state() == view.state_file
    assert both.node.view().state_file != view.state_file  # under the server's uids, that is
    seen = both.pods.statuses()[one.uid]
    assert (seen.phase, seen.qos) == ("Running", "Guaranteed")
    assert until(lambda: len(both.pods.statuses()[one.uid].container_ids) == 1, 20)
    (running,) = both.pods.statuses()[one.uid].container_ids.values()
    assert running in both.node.runtime.running_ids()

    two, view = both.create(guaranteed("b", 4))
    assert both.state() == view.state_file
    both.create(best_effort("s"))

    odd, view = both.create(guaranteed("odd", 3))
    rejected, right = both.pods.statuses()[odd.uid], view.pods["odd"]
    assert rejected.phase == "Failed"
    assert (rejected.reason, rejected.message) == (right.reason, right.message)
    assert right.reason == "SMTAlignmentError"

    both.pods.delete(one)
    assert gone(both.pods, one, seconds=60)
    both.comes_to(both.expected(Delete("a")))

    both.pods.delete(two, force=True)
    assert gone(both.pods, two, seconds=0)
    both.comes_to(both.expected(Delete("b", force=True)))


def test_a_deletion_while_the_kubelet_is_down(both: Both) -> None:
    """By force it is gone for everybody, and the kubelet that starts forgets it. An ordinary one
    waits for the kubelet, which then confirms it."""
    one, two, three = (both.create(guaranteed(name, 2))[0] for name in "abc")
    both.node.do(Stop())
    both.expected(Stop())
    both.pods.delete(one, force=True)
    both.pods.delete(two)
    assert set(both.pods.statuses()) == {two.uid, three.uid}
    assert both.pods.statuses()[two.uid].leaving
    both.node.do(Start())
    for name in "ab":
        both.expected(Delete(name))
    view = both.expected(Start())
    assert gone(both.pods, one, two, seconds=60)
    both.comes_to(view)
    assert both.pods.statuses()[three.uid].phase == "Running"
