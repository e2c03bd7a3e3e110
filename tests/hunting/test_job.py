"""The Job of a campaign: before a real API server and job controller, and its command in a shell.

There is no kubelet: the tests say how a pod ended, and run its command themselves.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
import yaml

from conformance.kubelets.control_plane import CONTROLLER_MANAGERS, find
from hunting import campaign
from hunting.job import job
from tests.cli.running import pinproof
from tests.support import lacking
from tests.support.cluster import Cluster, NoCluster

T = TypeVar("T")

_SMALL: Final = ["--release", "1.37", "--machine", "1s-1n-2c-smt2", "--depth", "1"]
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_PATIENCE: Final = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1")
        try:
            made = Cluster(tmp_path_factory.mktemp("cluster"))
        except NoCluster as error:
            lacking.skip("api server", error)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def batch(cluster: Cluster) -> Any:
    from kubernetes import client

    return client.BatchV1Api(cluster.admin.api_client)


@pytest.fixture
def job_controller(cluster: Cluster) -> None:
    """Runs before the API server, and no other controller does."""
    program = find(CONTROLLER_MANAGERS)
    if program is None:
        lacking.skip("controller manager")
    # Another controller would make it; without it the API server refuses pods.
    cluster.admin.create_namespaced_service_account("default", {"metadata": {"name": "default"}})
    cluster.control(program, "job-controller")


def test_a_real_api_server_takes_the_job(batch: Any) -> None:
    """Each field of it, with a volume claim and without: unknown ones are refused."""
    for name, claim in (("plain", ""), ("kept", "hunt")):
        manifest = job(500, "example.com/pinproof:1", ["--depth", "4"], name=name, claim=claim)
        made = batch.create_namespaced_job(
            "default", manifest, field_validation="Strict", dry_run="All"
        )
        assert made.spec.completion_mode == "Indexed"
        assert made.spec.backoff_limit_per_index == 2


def test_a_real_job_controller_has_each_shard_searched(
    cluster: Cluster, batch: Any, job_controller: None, tmp_path: Path
) -> None:
    """All at once, a pod for each shard; a failed one has a successor, which searches the same
    shard; the Job is complete once each index has a pod that succeeded."""
    printed = pinproof("hunt", "job", "--shards", "5", "--image", "example", status=0).stdout
    batch.create_namespaced_job("default", yaml.safe_load(printed))
    _program(tmp_path, 'echo "$@"')

    def pods(of: Callable[[Any], bool] = lambda pod: pod.status.phase == "Pending") -> list[Any]:
        found = filter(of, cluster.admin.list_namespaced_pod("default").items)
        return sorted(found, key=_index)

    first = _awaited(pods, lambda found: len(found) == 5)
    assert [_index(pod) for pod in first] == [0, 1, 2, 3, 4]
    assert [_run(pod, tmp_path).stdout for pod in first] == [
        f"hunt --depth 4 --shard {k}/5 --report {k}\n" for k in (1, 2, 3, 4, 5)
    ]

    _end(cluster, first[2], "Failed")
    (second,) = _awaited(
        lambda: pods(lambda pod: _index(pod) == 2 and pod.status.phase == "Pending"), bool
    )
    assert second.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] == "1"
    assert _run(second, tmp_path).stdout == "hunt --depth 4 --shard 3/5 --report 3\n"

    def state() -> Any:
        return batch.read_namespaced_job("pinproof-hunt", "default").status

    _awaited(state, lambda status: (status.failed, status.active) == (1, 5))
    for pod in pods():
        _end(cluster, pod, "Succeeded")
    ended = _awaited(state, lambda status: status.completion_time is not None)
    assert (ended.succeeded, ended.completed_indexes, ended.failed) == (5, "0-4", 1)
    assert {one.type for one in ended.conditions if one.status == "True"} >= {"Complete"}


def test_a_pod_that_is_tried_again_goes_on_with_its_shard(tmp_path: Path) -> None:
    """With the folder of a volume claim, which outlives the first pod."""
    _program(tmp_path, f'exec "{sys.executable}" -m pinproof "$@"')
    command = _container(job(2, "example", _SMALL))["command"]
    kept = tmp_path / "2" / campaign.FILE
    lines = []
    for _ in range(2):
        done = _shell(command, "1", tmp_path)
        assert done.returncode == 0, done.stderr
        lines.append(campaign.read(kept))
    assert lines[0] == lines[1]
    header, searched, _ = lines[0]
    assert header.shards == 2
    assert searched
    assert all(one.task % 2 == 1 for one in searched)


@pytest.mark.parametrize(("status", "pod"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1)])
def test_a_pod_with_a_find_succeeds(tmp_path: Path, status: int, pod: int) -> None:
    _program(tmp_path, f"exit {status}")
    command = _container(job(2, "example", []))["command"]
    assert _shell(command, "0", tmp_path).returncode == pod


def test_an_option_reaches_the_hunt_as_it_was_written(tmp_path: Path) -> None:
    """The shell of the pod sees no pattern in it, and no second word."""
    (tmp_path / "2s-file").touch()
    _program(tmp_path, 'printf "%s\\n" "$@"')
    command = _container(job(2, "example", ["--machine", "2s-*", "--confirm", "kubelet:/a b"]))
    said = _shell(command["command"], "0", tmp_path).stdout.splitlines()
    assert said[1:5] == ["--machine", "2s-*", "--confirm", "kubelet:/a b"]


def _container(manifest: dict[str, Any]) -> dict[str, Any]:
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    return dict(container)


def _index(pod: Any) -> int:
    return int(pod.metadata.labels[_INDEX])


def _program(folder: Path, body: str) -> None:
    """Makes the ``pinproof`` of :func:`_shell`."""
    path = folder / "pinproof"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def _shell(command: list[str], index: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a pod's command where ``folder`` is its working directory."""
    path = f"{folder}:{os.environ['PATH']}"
    environment = dict(os.environ) | {"PATH": path, "JOB_COMPLETION_INDEX": index}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def _run(pod: Any, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a pod's command with the index that the controller gave it, as a kubelet reads it."""
    (container,) = pod.spec.containers
    (variable,) = container.env
    assert variable.name == "JOB_COMPLETION_INDEX"
    field = re.fullmatch(
        r"metadata\.(labels|annotations)\['(.+)'\]", variable.value_from.field_ref.field_path
    )
    assert field is not None
    index = getattr(pod.metadata, field[1])[field[2]]
    return _shell(container.command, index, folder)


def _end(cluster: Cluster, pod: Any, phase: str) -> None:
    """A kubelet says how a pod ended. Its end is long ago: the controller has an index wait for 10
    seconds after a failure."""
    terminated = {"exitCode": int(phase == "Failed"), "finishedAt": "2026-01-01T00:00:00Z"}
    container = {
        "name": pod.spec.containers[0].name,
        "image": pod.spec.containers[0].image,
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": terminated},
    }
    cluster.report("default", pod.metadata.name, {"phase": phase, "containerStatuses": [container]})


def _awaited(look: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """What is seen once it holds, or when patience ends."""
    until = time.monotonic() + _PATIENCE
    while not holds(seen := look()) and time.monotonic() < until:
        time.sleep(0.2)
    assert holds(seen), seen
    return seen
