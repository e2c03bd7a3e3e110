"""The plugin of Sonobuoy: its definition and results as Sonobuoy's own code takes them, and the
script of its pods in a shell."""

from __future__ import annotations

import os
import signal
import subprocess
import tarfile
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from conformance.verdict import ExitStatus
from hil.transport import nodes
from hil.transport.inventory import HOST
from reports.junit import document
from tests.cli.running import here
from tests.support.certificates import result, run
from tests.support.cluster import Cluster
from tests.support.sonobuoy import judged
from tests.support.until import until

_IMAGE: Final = ("--image", "example.com/pinproof:1")
#: Stands for ``pinproof certify``, which gets the inventory and writes to the folder ``out``.
_CERTIFIES: Final = """
echo "$@" >words; cp "$2" inventory.toml; mkdir -p out/node7
echo '<testsuites/>' >out/node7/junit.xml; exit 1"""


@cache
def definition(*words: str) -> dict[str, Any]:
    """What ``pinproof job sonobuoy`` prints."""
    return dict(yaml.safe_load(here("job", "sonobuoy", *_IMAGE, *words, status=0).stdout))


# -- Sonobuoy's own code -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the definition."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "pinproof.yaml").write_text(here("job", "sonobuoy", *_IMAGE, status=0).stdout)
    return folder


def reported(folder: Path, node: str, *verdicts: str) -> None:
    """What a node's pod sent, as Sonobuoy unpacks it."""
    place = folder / "plugins/pinproof/results" / node
    (place / node).mkdir(parents=True)
    (place / "log").write_text("pinproof ended with exit status 0\n")
    if verdicts:
        results = [result(scenario=f"area/{n}", verdict=one) for n, one in enumerate(verdicts)]
        (place / node / "junit.xml").write_text(document(run(*results)))


def test_sonobuoy_takes_the_verdict_of_each_node(plugin: Path, tmp_path: Path) -> None:
    reported(tmp_path, "node1", "pass", "skip")
    reported(tmp_path, "node2", "pass", "fail")
    reported(tmp_path, "node3")
    made = judged(plugin, tmp_path)
    assert (made["plugin"], made["driver"]) == ("pinproof", "*daemonset.Plugin")
    whole = made["results"]
    each = {one["name"]: one["status"] for one in whole["items"]}
    assert each == {"node1": "passed", "node2": "failed", "node3": "unknown"}
    assert whole["status"] == "failed"
    (report,) = whole["items"][0]["items"]
    cases = [case for suite in report["items"] for case in suite["items"]]
    assert [case["status"] for case in cases] == ["passed", "skipped"]


def test_sonobuoy_knows_a_cluster_whose_nodes_all_pass(plugin: Path, tmp_path: Path) -> None:
    reported(tmp_path, "node1", "pass")
    reported(tmp_path, "node2", "pass")
    assert judged(plugin, tmp_path)["results"]["status"] == "passed"


def test_sonobuoy_creates_the_pods_of_the_plugin(
    plugin: Path, tmp_path: Path, cluster: Cluster
) -> None:
    """Its driver makes a DaemonSet of the definition, and a real API server takes it."""
    from kubernetes import client

    for name in ("default", "sonobuoy-serviceaccount"):
        cluster.admin.create_namespaced_service_account("default", {"metadata": {"name": name}})
    judged(plugin, tmp_path, cluster.admin_kubeconfig)
    apps = client.AppsV1Api(cluster.admin.api_client)
    (made,) = apps.list_namespaced_daemon_set("default").items
    created: Any = made
    pod = created.spec.template.spec
    ours, worker = pod.containers
    assert (pod.host_pid, ours.security_context.privileged) == (True, True)
    assert (ours.name, worker.name) == ("plugin", "sonobuoy-worker")
    (shared,) = {mount.name for one in pod.containers for mount in one.volume_mounts}
    assert [volume.name for volume in pod.volumes] == [shared]
    variables = {one.name: one.value for one in ours.env}
    places = {one.volume_mounts[0].mount_path for one in pod.containers}
    assert places == {variables["SONOBUOY_RESULTS_DIR"]}


# -- the script of a pod -------------------------------------------------------------------------


def started(folder: Path, body: str, *words: str) -> subprocess.Popen[bytes]:
    """A pod's command, where ``body`` is its pinproof. Its wait at the end is over at once."""
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    for name, text in (("pinproof", body), ("sleep", f"echo $1 >>{programs}/slept")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "NODE_NAME": "node7.example",
        "SONOBUOY_RESULTS_DIR": str(folder),
    }
    return subprocess.Popen(definition(*words)["spec"]["command"], env=environment)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "results"
    made.mkdir()
    return made


def handed_over(folder: Path) -> tuple[set[str], list[str]]:
    """The names of the files that a pod hands to Sonobuoy, and the lines of its log."""
    with tarfile.open((folder / "done").read_text().strip()) as archive:
        log = archive.extractfile("./log")
        assert log is not None
        return {*archive.getnames()}, log.read().decode().splitlines()


def test_a_pod_certifies_its_node_and_hands_over_what_came_out(folder: Path) -> None:
    """Its options, and those of pytest, go on to ``pinproof certify``."""
    options = ("--allow", "static-pods", "--workload-image", "busybox", "--level", "extended")
    assert started(folder, _CERTIFIES, *options, "-k", "static").wait(30) == 0
    assert (folder / "words").read_text() == (
        "certify out/node.toml --image busybox --level extended -k static --report out\n"
    )
    (address,) = nodes(str(folder / "inventory.toml"))
    assert (address.name, address.url) == ("node7.example", HOST)
    assert [one.value for one in address.allow] == ["static-pods"]
    names, log = handed_over(folder)
    assert log == ["pinproof ended with exit status 1"]
    assert {"./node7/junit.xml", "./node.toml"} <= names


def test_a_node_that_is_not_judged_hands_over_why(folder: Path) -> None:
    assert started(folder, "echo pinproof: node7: no kubelet >&2; exit 3").wait(30) == 0
    names, log = handed_over(folder)
    assert not [name for name in names if name.endswith(".xml")]
    assert log == ["pinproof: node7: no kubelet", "pinproof ended with exit status 3"]


def test_a_container_that_is_started_again_certifies_no_second_time(folder: Path) -> None:
    started(folder, _CERTIFIES).wait(30)
    done = (folder / "results.tar.gz").stat().st_mtime_ns
    (folder / "words").unlink()
    assert started(folder, _CERTIFIES).wait(30) == 0
    assert not (folder / "words").exists()
    assert (folder / "results.tar.gz").stat().st_mtime_ns == done
    assert (folder.parent / "programs/slept").read_text() == "infinity\ninfinity\n"


def test_a_pod_that_is_deleted_lets_pinproof_restore_the_node(folder: Path) -> None:
    body = f"""trap 'echo restored >{folder}/restored; exit 3' TERM
touch {folder}/began; while :; do /bin/sleep 0.1; done"""
    process = started(folder, body)
    assert until((folder / "began").exists, 30)
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    assert (folder / "restored").read_text() == "restored\n"
    assert not (folder / "done").exists()


# -- wrong usage -----------------------------------------------------------------------------------


def test_an_option_that_certify_refuses_prints_no_plugin() -> None:
    done = here("job", "sonobuoy", *_IMAGE, "--valid", "0", status=ExitStatus.USAGE)
    assert done.stdout == ""
    assert "--valid" in done.stderr
