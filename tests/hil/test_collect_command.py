"""``pinproof capture --node``: a node made of files becomes one file, which stands where a machine
can."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import topologies
from conformance.kept_files import FILES
from hil.inspection.script import LARGEST
from pinproof.files import documents
from pinproof.inputs import pods_given
from pinproof.manifests import MIRROR
from pinproof.node_archive import collected
from pinproof.whole_node import static_pods
from tests.hil.conftest import Says
from tests.support.fakenode import PINNED, FakeNode

WEB = f"""\
apiVersion: v1
kind: List
items:
- kind: Pod
  metadata:
    name: web
    namespace: prod
    uid: {PINNED}
    labels: {{customer: LABEL}}
    annotations: {{note: ANNOTATION}}
  spec:
    nodeName: THE-NODE
    volumes: [{{name: v, secret: {{secretName: VOLUME}}}}]
    containers:
    - name: main
      image: registry.example/IMAGE
      args: [--password=ARGUMENT]
      env: [{{name: TOKEN, value: ENVIRONMENT}}]
      resources:
        requests: {{cpu: 2, memory: 1Gi}}
        limits: {{cpu: 2, memory: 1Gi}}
"""
HIDDEN = ("LABEL", "ANNOTATION", "VOLUME", "IMAGE", "ARGUMENT", "ENVIRONMENT", "THE-NODE")


@pytest.fixture(autouse=True)
def _here(reachable: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _collected(says: Says, *words: str) -> str:
    status, out, err = says("capture", "ssh://root@node7", "--node", "-o", "node7.tar.xz", *words)
    assert (status, out) == (0, "node7.tar.xz\n"), err
    return err


def _members() -> dict[str, str]:
    """What is in the archive beside the machine, by the last part of each name."""
    with tarfile.open("node7.tar.xz") as found:
        return {
            PurePosixPath(one.name).name: stream.read().decode()
            for one in found
            if "/pinproof/" in one.name and (stream := found.extractfile(one))
        }


def _simulated(says: Says, *words: str) -> dict[str, Any]:
    status, out, err = says("simulate", "--machine", "node7.tar.xz", "--json", *words)
    assert status == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_it_writes_nothing_on_the_node_and_stands_for_its_machine(
    says: Says, fake: FakeNode
) -> None:
    with fake.unchanged():
        _collected(says)
    assert len(topologies.machine("node7.tar.xz").tree) > 100
    status, out, _ = says("draw", "node7.tar.xz")
    assert status == 0
    assert f"{PINNED}/main: 2-3" in out
    status, out, err = says("upgrade", "1.35", "1.36", "--model", "--machine", "node7.tar.xz")
    assert status == 0, err
    assert "Kept" in out


def test_simulate_takes_settings_state_pods_and_release_from_it(says: Says, tmp_path: Path) -> None:
    (tmp_path / "pods.yaml").write_text(WEB)
    assert "no manifest" not in _collected(says, "--pods", "pods.yaml")
    found = _simulated(says)
    assert found["kubelet"]["settings"] == "policy static, reservedSystemCPUs 0,16"
    assert found["kubelet"]["release"] == "1.36"
    assert found["pods"]["web"]["exclusive"] == {"main": "2-3"}
    found = _simulated(says, "--pods", "4", "--release", "1.35")
    assert found["kubelet"]["release"] == "1.35"
    assert found["pods"]["pod1"]["phase"] == "running"
    assert found["pods"][PINNED]["exclusive"] == {"main": "2-3"}
    status, _, err = says("simulate", "--pods", "2", "--state", "node7.tar.xz/pinproof/absent")
    assert (status, err) == (2, "pinproof: node7.tar.xz/pinproof/absent: Not a directory\n")


def test_what_leaves_the_node_are_settings_files_of_managers_and_what_decides_cpus(
    says: Says, fake: FakeNode, tmp_path: Path
) -> None:
    for name in FILES[1:]:
        fake.file(f"/var/lib/kubelet/{name}", f"of {name}", 0o600)
    (tmp_path / "pods.yaml").write_text(WEB)
    _collected(says, "--pods", "pods.yaml")
    members = _members()
    own = {"cpu_manager_state", "kubelet.json", "node.json", "pods.json"}
    assert {*members} == {*own, *(PurePosixPath(name).name for name in FILES)}
    checkpoint = "device-plugins/kubelet_internal_checkpoint"
    assert collected("node7.tar.xz").files[checkpoint] == f"of {checkpoint}"
    whole = "\n".join(members.values())
    assert '"web"' in whole
    assert not [word for word in HIDDEN if word in whole]


@pytest.mark.parametrize("node", ["fake", "node7.example"])
def test_static_pods_keep_the_uid_that_the_kubelet_gave_them(
    says: Says, fake: FakeNode, node: str
) -> None:
    """Whose manifests have none. They go by the name that the kubelet has for its node, which is
    not always the host's."""
    flags = f'KUBELET_KUBEADM_ARGS="--hostname-override={node}"\n' if node != "fake" else ""
    fake.file("/var/lib/kubelet/kubeadm-flags.env", flags)
    logs = fake.root / "var/log/pods"
    (logs / f"kube-system_pinned_{PINNED}").rename(logs / f"prod_web-{node}_{PINNED}")
    item = WEB.partition("items:\n- ")[2].replace("\n  ", "\n").replace(f"uid: {PINNED}", "uid: ''")
    fake.file("/etc/kubernetes/manifests/own.yaml", item)
    assert "no manifest" not in _collected(says)
    (pod,) = json.loads(_members()["pods.json"])["items"]
    assert (pod["metadata"]["name"], pod["metadata"]["uid"]) == ("web", PINNED)
    assert _static() == {PINNED}


def _static() -> set[str]:
    """The uids of the static pods that have none in their manifest."""
    return static_pods(collected("node7.tar.xz"))


def test_settings_are_those_of_file_drop_ins_and_flags_together(says: Says, fake: FakeNode) -> None:
    flags = '"--config-dir=/etc/kubelet.d --topology-manager-policy=restricted"'
    fake.file("/var/lib/kubelet/kubeadm-flags.env", f"KUBELET_KUBEADM_ARGS={flags}\n")
    dropped = "topologyManagerPolicy: best-effort\nreservedSystemCPUs: 0-1,16-17\n"
    memory = "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n"
    fake.file("/etc/kubelet.d/10-own.conf", dropped + memory)
    _collected(says)
    place = collected("node7.tar.xz").config
    assert place is not None
    (found,) = documents(place)
    assert found == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0-1,16-17",
        "topologyManagerPolicy": "restricted",
        "memoryManagerPolicy": "Static",
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
    }


def test_a_file_of_a_manager_that_is_cut_off_is_left_out(says: Says, fake: FakeNode) -> None:
    fake.file("/var/lib/kubelet/allocated_pods_state", "x" * (LARGEST + 1))
    fake.file("/var/lib/kubelet/memory_manager_state", "{}")
    err = _collected(says)
    assert "left out: allocated_pods_state: larger than 1 MiB" in err
    assert collected("node7.tar.xz").files == {"memory_manager_state": "{}"}


def test_collect_is_the_same_by_its_old_name(says: Says) -> None:
    _collected(says)
    Path("old").mkdir()
    assert says("collect", "ssh://root@node7", "-o", "old/node7.tar.xz")[0] == 0
    assert Path("old/node7.tar.xz").read_bytes() == Path("node7.tar.xz").read_bytes()


def test_the_api_server_is_asked_from_the_node(says: Says, fake: FakeNode) -> None:
    """With the kubelet's own credentials, for the pods of this node."""
    _serve(fake, _pod("from-the-server"))
    _collected(says)
    assert "from-the-server" in _members()["pods.json"]
    assert "--field-selector spec.nodeName=fake " in (fake.root / "fake/asked").read_text()


def test_a_static_pod_whose_manifest_has_its_uid_is_one_that_keeps_it(
    says: Says, fake: FakeNode
) -> None:
    """The API server shows both kinds as mirror pods, with uids of their own."""
    stated, made = ({"annotations": {MIRROR: uid}} for uid in ("stated", "made"))
    _serve(fake, _pod("one", "uid-2", **stated), _pod("two", "uid-3", **made))
    fake.file("/etc/kubernetes/manifests/own.yaml", json.dumps(_pod("one", uid="stated")))
    _collected(says, "--force")
    assert _static() == {"made"}
    pods = pods_given("node7.tar.xz/pinproof/pods.json").pods
    assert {pod.name: pod.uid for pod in pods} == {"one": "stated", "two": "made"}


def _serve(fake: FakeNode, *pods: object) -> None:
    """An API server that the node can ask has these pods."""
    folder = fake.root / "fake"
    fake.file("/etc/kubernetes/kubelet.conf", "")
    fake.file("/fake/pods.json", json.dumps({"kind": "List", "items": pods}))
    answer = f'#!/bin/sh\necho "$@" >{folder}/asked\ncat {folder}/pods.json\n'
    fake.file("/fake/bin/kubectl", answer, 0o755)


def _pod(name: str, uid: str = "uid-1", **metadata: object) -> dict[str, object]:
    spec = {"containers": [{"name": "main", "env": [{"name": "A", "value": "ENVIRONMENT"}]}]}
    return {"kind": "Pod", "metadata": {"name": name, "uid": uid, **metadata}, "spec": spec}


def test_what_cannot_be_rehearsed_is_counted(says: Says, fake: FakeNode) -> None:
    (fake.root / "var/lib/kubelet/pods/another").mkdir()
    err = _collected(says)
    assert "of 1 pods that hold CPUs there is no manifest" in err
    assert "of 1 more pods there is no manifest, so they cannot be rehearsed" in err
    assert "own.yaml" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "node7.zip"], "node7.zip: its name must end in .tar.xz, .tar.gz or .tar"),
        (["-o", "there.tar.xz"], "there.tar.xz: it is there already; --force replaces it"),
        (["-o", "a.tar.xz", "--pods", "absent"], "absent: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line_before_the_node_is_asked(
    says: Says, tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "there.tar.xz").touch()
    status, out, err = says("capture", "ssh://root@node7", "--node", *words)
    assert (status, out, err) == (2, "", f"pinproof: {said}\n")
