"""Pods of pinproof on a booted node: Jobs of a hunt, of a run on a kubelet and of a certificate of
the node; and a pod of the plugin of Sonobuoy, which certifies the node.

API server, scheduler, controllers, kubelet and containerd are real, and the image is the one that
``pinproof build image`` makes.

``PINPROOF_IMAGE`` names an archive to use instead of making one.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from conformance.kubelets.control_plane import CONTROLLER_MANAGERS, SCHEDULERS, find
from hil.lab import Node
from hil.lab.names import NODE_NAME
from hil.lab.recipe import WORKLOAD_IMAGE as WORKLOAD
from hil.shell import Shell
from hil.transport import connected
from hil.transport import nodes as read_inventory
from hunting import campaign
from pinproof.image.contents import KUBELET
from reports.certificate import read
from tests.cli.running import pinproof
from tests.support import lacking
from tests.support.cluster import Cluster
from tests.support.lab_cluster import await_node, joined
from tests.support.node_runs import results
from tests.support.until import until

pytestmark = [pytest.mark.needs("lab"), pytest.mark.needs("mmdebstrap")]

NAME: Final = "jobs-hunt"
IMAGE: Final = "pinproof.local/pinproof:kubelet"
#: Of the restricted and of the privileged Pod Security Standard.
NAMESPACE, PRIVILEGED = "hunting", "running"
SONOBUOY: Final = "sonobuoy"
KEPT: Final = "/var/lib/hunt-pinproof"
HUNT: Final = ("--release", "1.37", "--machine", "1s-1n-2c-smt2", "--depth", "3")
SHARDS: Final = 4
SCENARIOS: Final = ("qos/whole-cpus-are-exclusive", "pool/deletion-returns-cpus")
ALL_FREE: Final = "admission/all-free-cpus-are-assigned"
CERTIFY: Final = ("--allow", "static-pods", "--allow", "foreign-workloads", "-k", SCENARIOS[0])
RUN: Final = ("--machine", "1s-1n-4c-smt2", "-k", " or ".join(SCENARIOS))
CONTROLLERS: Final = (
    "job-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "serviceaccount-controller",
)
_PATIENCE: Final = 1500.0


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, kubelet_path: str) -> Path:
    """Of an image with a kubelet."""
    if made := os.environ.get("PINPROOF_IMAGE"):
        return Path(made)
    path = tmp_path_factory.mktemp("image") / "image.tar"
    words = ["--kubelet", kubelet_path, "--name", IMAGE, "-o", str(path)]
    pinproof("build", "image", *words, status=0)
    return path


@pytest.fixture(scope="module")
def shell(node: Node, cluster: Cluster, archive: Path) -> Iterator[Shell]:
    """Of the node, which belongs to the cluster and has the image and a folder for the claim."""
    controllers, scheduler = find(CONTROLLER_MANAGERS), find(SCHEDULERS)
    if controllers is None:
        lacking.skip("controller manager")
    if scheduler is None:
        lacking.skip("scheduler")
    cluster.control(controllers, *CONTROLLERS)
    cluster.schedule(scheduler)
    _import(node, archive)
    for name, standard in ((NAMESPACE, "restricted"), (PRIVILEGED, "privileged")):
        labels = {"pod-security.kubernetes.io/enforce": standard}
        cluster.admin.create_namespace({"metadata": {"name": name, "labels": labels}})
    with joined(node, cluster) as inventory, connected(read_inventory(str(inventory))[0]) as shell:
        assert shell.run(f"mkdir {KEPT} && chmod 1777 {KEPT}").status == 0
        _claim(cluster)
        await_node(cluster, ready=True)
        yield shell


def _import(node: Node, archive: Path) -> None:
    words = "cat >/root/i && ctr -n k8s.io images import /root/i && rm /root/i"
    with archive.open("rb") as file:
        subprocess.run(
            ["pinproof", "lab", "ssh", node.name, "--", words], stdin=file, check=True, timeout=900
        )


def _claim(cluster: Cluster) -> None:
    """A folder of the node is a volume, and the claim ``kept`` is bound to it."""
    size = {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    cluster.admin.create_persistent_volume(
        {
            "metadata": {"name": "kept"},
            "spec": {
                **common,
                "capacity": size,
                "hostPath": {"path": KEPT},
                "claimRef": {"namespace": NAMESPACE, "name": "kept"},
            },
        }
    )
    claim = {"volumeName": "kept", "resources": {"requests": size}, **common}
    cluster.admin.create_namespaced_persistent_volume_claim(
        NAMESPACE, {"metadata": {"name": "kept"}, "spec": claim}
    )


def test_a_hunt_of_four_shards_finds_what_one_process_finds(
    shell: Shell, cluster: Cluster, tmp_path: Path
) -> None:
    """In a namespace of the restricted Pod Security Standard. A pod that is killed has a successor,
    which keeps what the killed one had searched, and goes on."""
    words = ["--shards", str(SHARDS), "--image", IMAGE, "--claim", "kept", *HUNT]
    manifest = yaml.safe_load(pinproof("job", "hunt", *words, status=0).stdout)
    status = _started(cluster, NAMESPACE, manifest)
    before = _awaited(lambda: _kept(shell, 2), lambda lines: len(lines) > 3, cluster)
    (victim,) = _pods(cluster, index=1)
    cluster.admin.delete_namespaced_pod(victim.metadata.name, NAMESPACE)

    ended = _awaited(status, lambda seen: seen.completion_time is not None, cluster)
    assert (ended.succeeded, ended.completed_indexes, ended.failed) == (SHARDS, "0-3", 1)
    assert victim.metadata.name not in [pod.metadata.name for pod in _pods(cluster, index=1)]
    after = _kept(shell, 2)
    assert after[: len(before)] == before
    assert len(after) > len(before)

    folders = []
    for number in range(1, SHARDS + 1):
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
        (folders[-1] / campaign.FILE).write_text("".join(_kept(shell, number)))
    pinproof("hunt", *HUNT, "--report", str(tmp_path / "alone"), status=1)
    pinproof("hunt", "merge", *map(str, folders), "--report", str(tmp_path / "joined"), status=0)
    assert _found(tmp_path / "joined") == _found(tmp_path / "alone")
    (pod,) = _pods(cluster, index=0)
    assert _log(shell, pod.metadata.uid) == _kept(shell, 1)


def test_a_run_of_two_shards_judges_the_kubelet_of_the_image(
    shell: Shell, cluster: Cluster, tmp_path: Path
) -> None:
    """Its pods are privileged, because they make a sandbox. Their logs are one report."""
    words = ["--shards", "2", "--image", IMAGE, "--subject", f"kubelet:{KUBELET}", *RUN]
    manifest = yaml.safe_load(pinproof("job", "run", *words, status=0).stdout)
    status = _started(cluster, PRIVILEGED, manifest)
    ended = _awaited(status, lambda seen: seen.active == 0 or seen.conditions, cluster)
    pods = [_pods(cluster, index=index, namespace=PRIVILEGED)[0] for index in (0, 1)]
    logs = ["".join(_log(shell, pod.metadata.uid)) for pod in pods]
    assert ended.succeeded == 2, logs
    for number, log in enumerate(logs):
        (tmp_path / f"{number}.jsonl").write_text(log)
    streams = sorted(tmp_path.glob("*.jsonl"))
    pinproof("report", *map(str, streams), "--gate", status=0)
    judged = results(*streams)
    assert {one.scenario: one.verdict for one in judged} == dict.fromkeys(SCENARIOS, "pass")


def test_a_node_certifies_itself_by_a_pod(shell: Shell, cluster: Cluster, tmp_path: Path) -> None:
    """Through the host of its container; the pod's log is the stream of the node."""
    words = [NODE_NAME, "--image", IMAGE, "--workload-image", WORKLOAD, *CERTIFY]
    (manifest,) = yaml.safe_load(pinproof("job", "certify", *words, status=0).stdout)["items"]
    status = _started(cluster, PRIVILEGED, manifest)
    ended = _awaited(status, lambda seen: seen.conditions, cluster)
    label = f"job-name={manifest['metadata']['name']}"
    pods = cluster.admin.list_namespaced_pod(PRIVILEGED, label_selector=label).items
    logs = ["".join(_log(shell, pod.metadata.uid)) for pod in pods]
    assert ended.succeeded == 1, logs
    assert len(logs) == 1
    stream = tmp_path / "result.jsonl"
    stream.write_text(logs[0])
    assert {one.scenario: one.verdict for one in results(stream)} == {SCENARIOS[0]: "pass"}
    assert not shell.run("ls -d /var/lib/pinproof 2>/dev/null || :").text


def test_a_pod_of_the_plugin_certifies_its_node(
    shell: Shell, cluster: Cluster, tmp_path: Path
) -> None:
    """As Sonobuoy makes it of the definition, without the container that sends the results. There
    is no aggregator of Sonobuoy."""
    words = ["--image", IMAGE, "--workload-image", WORKLOAD, "-k", ALL_FREE]
    plugin: Any = yaml.safe_load(pinproof("job", "sonobuoy", *words, status=0).stdout)
    cluster.admin.create_namespace({"metadata": {"name": SONOBUOY}})
    account = {"metadata": {"name": "sonobuoy-serviceaccount"}}
    cluster.admin.create_namespaced_service_account(SONOBUOY, account)
    (node,) = cluster.admin.list_node().items
    spec = {
        **plugin["podSpec"],
        "nodeName": node.metadata.name,
        "containers": [plugin["spec"]],
        "volumes": [{"name": "results", "emptyDir": {}}],
    }
    pod = {"metadata": {"name": "sonobuoy-pinproof"}, "spec": spec}
    made = cluster.admin.create_namespaced_pod(SONOBUOY, pod, field_validation="Strict")
    place = f"/var/lib/kubelet/pods/{made.metadata.uid}/volumes/kubernetes.io~empty-dir/results"
    done = until(lambda: shell.run(f"test -e {place}/done").status == 0, _PATIENCE)
    log = shell.run(f"cat {place}/out/log; cat /var/log/pods/*_{made.metadata.uid}/*/*.log").text
    assert done, log
    assert "pinproof ended with exit status 4" in log  # partial: one scenario of many
    tarball = shell.run(f"cat {place}/results.tar.gz", limit=1 << 24).stdout
    with tarfile.open(fileobj=io.BytesIO(tarball)) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / node.metadata.name
    (judged,) = results(folder / "result.jsonl")
    assert (judged.scenario, judged.verdict) == (ALL_FREE, "pass"), judged.explanation
    assert ALL_FREE in (folder / "junit.xml").read_text()
    facts = read((folder / "certificate.json").read_bytes()).facts
    assert facts.system is not None
    assert facts.system.emulated == "QEMU"
    assert facts.configuration is not None


def _started(cluster: Cluster, namespace: str, job: Any) -> Callable[[], Any]:
    """A Job is created; its status from then on."""
    from kubernetes import client

    batch = client.BatchV1Api(cluster.admin.api_client)
    batch.create_namespaced_job(namespace, job, field_validation="Strict")
    return lambda: batch.read_namespaced_job(job["metadata"]["name"], namespace).status


def _pods(cluster: Cluster, *, index: int, namespace: str = NAMESPACE) -> list[Any]:
    label = f"batch.kubernetes.io/job-completion-index={index}"
    return list(cluster.admin.list_namespaced_pod(namespace, label_selector=label).items)


def _kept(shell: Shell, number: int) -> list[str]:
    """The lines that a shard has in the claim."""
    said = shell.run(f"cat {KEPT}/{number}/{campaign.FILE} 2>/dev/null || :", deadline=60).text
    return said.splitlines(keepends=True)


def _log(shell: Shell, uid: str) -> list[str]:
    """Of a pod's container, without what the runtime writes before each line."""
    said = shell.run(f"cat /var/log/pods/*_{uid}/pinproof/0.log", deadline=60).text
    text = ""
    for line in said.splitlines():
        _time, _stream, tag, part = line.split(" ", 3)
        text += part + ("\n" if tag == "F" else "")
    return text.splitlines(keepends=True)


def _found(folder: Path) -> tuple[dict[int, tuple[int, int]], dict[str, int]]:
    """What each search took, and how often each find was met."""
    _, done, finds = campaign.read(folder / campaign.FILE)
    assert finds
    return (
        {one.task: (one.steps, one.states) for one in done},
        {find.key: find.met for find in finds},
    )


def _awaited(look: Callable[[], Any], holds: Callable[[Any], bool], cluster: Cluster) -> Any:
    """What is seen once it holds; without it, what the cluster says of the pods."""
    end = time.monotonic() + _PATIENCE
    while not holds(seen := look()):
        if time.monotonic() > end:
            events = cluster.admin.list_event_for_all_namespaces().items
            raise AssertionError([seen, *(f"{one.reason}: {one.message}" for one in events)])
        time.sleep(1)
    return seen
