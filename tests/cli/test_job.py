"""Jobs before a real API server and job controller, and the commands of their pods in a shell.

There is no kubelet: the tests say how a pod ended, and run its command themselves. On a booted node
a hunt's Job runs in tests/hil/test_lab_job.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
import yaml

from conformance.kubelets.control_plane import CONTROLLER_MANAGERS, SCHEDULERS, find
from conformance.results import Result
from conformance.results import read as read_stream
from hunting import campaign
from tests.cli.running import Done, here, ran
from tests.support import lacking
from tests.support.cluster import Cluster
from tests.support.until import until

T = TypeVar("T")

_SMALL: Final = ["--release", "1.37", "--machine", "1s-1n-2c-smt2", "--depth", "1"]
_IMAGE: Final = ("--image", "example.com/pinproof:1")
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_PATIENCE: Final = 120.0


@pytest.fixture(scope="module")
def batch(cluster: Cluster) -> Any:
    from kubernetes import client

    return client.BatchV1Api(cluster.admin.api_client)


@pytest.fixture(scope="module")
def job_controller(cluster: Cluster) -> None:
    """Runs before the API server, and no other controller does."""
    program = find(CONTROLLER_MANAGERS)
    if program is None:
        lacking.skip("controller manager")
    # Another controller would make it; without it the API server refuses pods.
    cluster.admin.create_namespaced_service_account("default", {"metadata": {"name": "default"}})
    cluster.control(program, "job-controller")


@cache
def _job(command: str, *words: str) -> dict[str, Any]:
    """What ``pinproof job`` prints."""
    shards = () if command == "certify" or "--shards" in words else ("--shards", "2")
    printed = here("job", command, *shards, *_IMAGE, *words, status=0).stdout
    return dict(yaml.safe_load(printed))


def _command(job: dict[str, Any]) -> list[str]:
    """That of a Job's pods."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return list(container["command"])


@pytest.mark.parametrize("command", ["hunt", "run"])
def test_a_real_api_server_takes_the_job(batch: Any, command: str) -> None:
    """Each field of it, with a volume claim and without: unknown ones are refused."""
    for words in ([], ["--claim", "kept", "--at-once", "2", "--namespace", "default"]):
        job = _job(command, "--shards", "50", *words)
        made = batch.create_namespaced_job("default", job, field_validation="Strict", dry_run="All")
        assert made.spec.completion_mode == "Indexed"
        assert made.spec.backoff_limit_per_index == 2
        assert made.spec.parallelism == (2 if words else 50)


def test_pod_security_admits_what_needs_no_sandbox(cluster: Cluster) -> None:
    """In a namespace of the restricted standard; a kubelet's sandbox needs a privileged one."""
    from kubernetes.client import ApiException

    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    name = "restricted"
    cluster.admin.create_namespace({"metadata": {"name": name, "labels": labels}})
    cluster.admin.create_namespaced_service_account(name, {"metadata": {"name": "default"}})

    def created(manifest: dict[str, Any]) -> None:
        pod = {"metadata": {"generateName": "p-"}, "spec": manifest["spec"]["template"]["spec"]}
        cluster.admin.create_namespaced_pod(name, pod, field_validation="Strict", dry_run="All")

    for words in (["hunt"], ["run"], ["run", "--subject", "exec:/driver"]):
        created(_job(*words))
    with pytest.raises(ApiException, match="violates PodSecurity"):
        created(_job("run", "--subject", "kubelet:/usr/local/bin/kubelet"))


def test_a_real_job_controller_has_each_shard_searched(
    cluster: Cluster, batch: Any, job_controller: None, tmp_path: Path
) -> None:
    """All at once, a pod for each shard; a failed one has a successor, which searches the same
    shard; the Job is complete once each index has a pod that succeeded."""
    batch.create_namespaced_job("default", _job("hunt", "--shards", "5", "--depth", "4"))
    _program(tmp_path, 'for last; do :; done; echo "$@" >$last/hunt.jsonl')

    def pods() -> list[Any]:
        return [pod for pod in _pods(cluster, "hunt-pinproof") if pod.status.phase == "Pending"]

    first = _awaited(pods, lambda found: len(found) == 5)
    assert [_index(pod) for pod in first] == [0, 1, 2, 3, 4]
    assert [_run(pod, tmp_path).stdout for pod in first] == [
        f"hunt --depth 4 --shard {k}/5 --report {k}\n" for k in (1, 2, 3, 4, 5)
    ]

    _end(cluster, first[2], 3)
    (second,) = _awaited(lambda: [pod for pod in pods() if _index(pod) == 2], bool)
    assert second.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] == "1"
    assert _run(second, tmp_path).stdout == "hunt --depth 4 --shard 3/5 --resume 3\n"

    def state() -> Any:
        return batch.read_namespaced_job("hunt-pinproof", "default").status

    _awaited(state, lambda status: (status.failed, status.active) == (1, 5))
    for pod in pods():
        _end(cluster, pod, 0)
    ended = _awaited(state, lambda status: status.completion_time is not None)
    assert (ended.succeeded, ended.completed_indexes, ended.failed) == (5, "0-4", 1)
    assert {one.type for one in ended.conditions if one.status == "True"} >= {"Complete"}


def test_a_real_job_controller_does_not_try_a_wrong_option_again(
    cluster: Cluster, batch: Any, job_controller: None
) -> None:
    batch.create_namespaced_job("default", _job("run", "--name", "wrong"))

    first, second = _awaited(lambda: _pods(cluster, "wrong"), lambda found: len(found) == 2)
    _end(cluster, first, 2)
    _end(cluster, second, 0)

    def state() -> Any:
        return batch.read_namespaced_job("wrong", "default").status

    _awaited(state, lambda status: (status.failed_indexes, status.failed) == ("0", 1))
    _awaited(state, lambda status: status.completed_indexes == "1")
    assert len(_pods(cluster, "wrong")) == 2


NODES: Final = ("node-a", "node-b", "node-c", "node-d")


@pytest.fixture
def scheduled(cluster: Cluster, job_controller: None) -> None:
    """A real scheduler, and four nodes with taints that nobody tolerates by chance."""
    program = find(SCHEDULERS)
    if program is None:
        lacking.skip("scheduler")
    cluster.schedule(program)
    room = {"cpu": "4", "memory": "8Gi", "pods": "9"}
    for name in NODES:
        cluster.add_node(name)
        labels = {"kubernetes.io/os": "linux"}
        taints = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
        cluster.admin.patch_node(name, {"metadata": {"labels": labels}, "spec": {"taints": taints}})
        cluster.admin.patch_node_status(name, {"status": {"allocatable": room, "capacity": room}})


def test_a_real_scheduler_has_no_more_nodes_certified_than_may_be_unavailable(
    cluster: Cluster, batch: Any, scheduled: None
) -> None:
    """Each pod is on its own node. A lane's next pod comes once the one before has ended."""
    words = [*NODES, "--max-unavailable", "2", "--namespace", "default"]
    for one in _job("certify", *words)["items"]:
        batch.create_namespaced_job("default", one, field_validation="Strict")

    def pods() -> dict[str, Any]:
        label = "app.kubernetes.io/part-of=certify-pinproof"
        found = cluster.admin.list_namespaced_pod("default", label_selector=label).items
        return {pod.metadata.labels["job-name"]: pod for pod in found}

    def on() -> dict[str, str]:
        placed = {name: pod.spec.node_name for name, pod in pods().items()}
        return {name: node for name, node in placed.items() if node}

    names = {f"certify-pinproof-{number}": node for number, node in enumerate(NODES)}
    # Of each lane one pod, whichever the scheduler saw first.
    first = _awaited(on, lambda found: len(found) == 2 and len(pods()) == 4)
    assert first.items() <= names.items()
    assert {int(name[-1]) % 2 for name in first} == {0, 1}
    time.sleep(3)  # no other pod comes while they run
    assert on() == first
    one, other = sorted(first)
    _end(cluster, pods()[one], 0)
    second = _awaited(on, lambda found: len(found) == 3)
    (new,) = second.keys() - first.keys()
    assert int(new[-1]) % 2 == int(one[-1]) % 2
    time.sleep(3)
    assert on() == second
    _end(cluster, pods()[other], 0)
    _end(cluster, pods()[new], 0)
    assert _awaited(on, lambda found: len(found) == 4) == names


def test_a_node_is_certified_by_its_own_pod(tmp_path: Path) -> None:
    """Through the host of its container; the log is the stream, or what went wrong."""
    body = """cat node-a.toml; echo "$@"; mkdir node-a; echo stream >node-a/result.jsonl"""
    words = ["node-a", "--allow", "static-pods", "--max-risk", "kubelet-restart"]
    (item,) = _job("certify", *words, "--claim", "kept")["items"]
    (volume, *_) = item["spec"]["template"]["spec"]["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "kept"}
    for status, said in ((0, "stream\n"), (1, "stream\n"), (4, "stream\n"), (3, None)):
        folder = tmp_path / str(status)
        folder.mkdir()
        _program(folder, f"{body}; exit {status}")
        done = _shell(_command(item), "0", folder)
        assert done.returncode == (0 if said else status)
        log = (folder / "node-a.log").read_text()
        assert done.stdout == (said or log)
        assert 'url = "host:"\nallow = ["static-pods"]' in log
        assert "certify node-a.toml --max-risk kubelet-restart --report ." in log


def test_a_pod_that_is_deleted_lets_pinproof_restore_its_node(tmp_path: Path) -> None:
    """The shell hands SIGTERM on, and waits."""
    _program(tmp_path, "trap 'echo restored; exit 3' TERM; touch there; sleep 60 & wait")
    (item,) = _job("certify", "node-a")["items"]
    environment = dict(os.environ) | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for _ in range(10):  # whether pinproof has ended as the shell hears of it is chance
        with subprocess.Popen(
            _command(item), cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
        ) as pod:
            assert until((tmp_path / "there").exists)
            pod.terminate()
            said, _ = pod.communicate(timeout=60)
        assert (said, pod.returncode) == ("restored\n", 3)
        for name in ("there", "node-a.log"):
            (tmp_path / name).unlink()


def test_a_pod_that_is_tried_again_goes_on_with_its_shard(tmp_path: Path) -> None:
    """With the folder of a volume claim, which outlives the first pod; its log is the stream."""
    _program(tmp_path, f'exec "{sys.executable}" -m pinproof "$@"')
    command = _command(_job("hunt", *_SMALL))
    kept = tmp_path / "2" / campaign.FILE
    lines = []
    for _ in range(2):
        done = _shell(command, "1", tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == kept.read_text()
        lines.append(campaign.read(kept))
    assert lines[0] == lines[1]
    header, searched, _ = lines[0]
    assert header.shards == 2
    assert searched
    assert all(one.task % 2 == 1 for one in searched)


def test_the_logs_of_a_runs_pods_are_one_report(tmp_path: Path) -> None:
    """Joined they have the verdicts of a run without shards, also of a pod that is run again."""
    _program(tmp_path, f'exec "{sys.executable}" -m pinproof "$@"')
    words = ["--machine", "1s-1n-2c-smt2", "-k", "pool/"]
    command = _command(_job("run", *words))
    for index in ("0", "1", "0"):
        done = _shell(command, index, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        (tmp_path / f"{index}.jsonl").write_text(done.stdout)
    here("run", *words, "--report", str(tmp_path / "whole"), status=0)
    whole = _verdicts(tmp_path / "whole" / "result.jsonl")
    assert whole
    assert _verdicts(*(tmp_path / f"{index}.jsonl" for index in "01")) == whole


def _verdicts(*streams: Path) -> dict[str, str]:
    here("report", *map(str, streams), "--gate", status=0)
    return {
        f"{one.scenario}@{one.machine.name}": one.verdict
        for stream in streams
        for one in read_stream(stream)
        if isinstance(one, Result)
    }


_STREAM: Final = "echo said; echo stream | tee 1/hunt.jsonl >1/result.jsonl"


@pytest.mark.parametrize(
    ("body", "of_hunt", "of_run"),
    [
        (f"{_STREAM}; exit 0", 0, 0),
        (f"{_STREAM}; exit 1", 0, 0),
        (f"{_STREAM}; exit 2", 2, 2),
        (f"{_STREAM}; exit 3", 3, 3),
        (f"{_STREAM}; exit 4", 4, 0),
        (f"{_STREAM}; exit 137", 137, 137),
        # Python ends with 1 where a library is missing, which is no broken promise.
        ("echo said; exit 1", 3, 3),
    ],
)
def test_a_pod_succeeds_where_its_shard_is_done(
    tmp_path: Path, body: str, of_hunt: int, of_run: int
) -> None:
    """A find and a broken promise are results, and so is that no case of a shard applies; without a
    stream it fails."""
    for command, ends in (("hunt", of_hunt), ("run", of_run)):
        folder = tmp_path / command
        folder.mkdir()
        _program(folder, body)
        done = _shell(_command(_job(command)), "0", folder)
        assert (done.returncode, done.stdout) == (ends, "said\n" if ends else "stream\n")


def test_an_option_reaches_the_run_as_it_was_written(tmp_path: Path) -> None:
    """The shell of the pod sees no pattern in it, and no second word."""
    (tmp_path / "2s-file").touch()
    _program(tmp_path, 'printf "%s\\n" "$@" >1/result.jsonl')
    job = _job("run", "--machine", "2s-*", "--subject", "kubelet:/a b")
    said = _shell(_command(job), "0", tmp_path).stdout.splitlines()
    assert said[1:5] == ["--machine", "2s-*", "--subject", "kubelet:/a b"]


_CERTIFY: Final = ("certify", "--image", "i")
_HUNT: Final = ("hunt", "--image", "i", "--shards", "2")
_RUN: Final = ("run", "--image", "i", "--shards", "2")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*_HUNT, "--machine", "9z"], "pinproof: there is no machine '9z'"),
        ([*_RUN, "--machine", "9z"], "pinproof: there is no machine '9z'"),
        ([*_HUNT, "--release", "0.9"], "pinproof: --release"),
        ([*_HUNT, "--deep", "4"], "No such option: --deep"),
        ([*_RUN, "--deep"], "pinproof: no such option: --deep"),
        ([*_RUN, "-k", "qoss"], "pinproof: unknown scenario 'qoss'"),
        ([*_HUNT, "--shard", "1/2"], "pinproof: --shard: not an option of a Job's pods"),
        ([*_RUN, "--report=x"], "pinproof: --report: not an option of a Job's pods"),
        ([*_RUN, "--subject", "node:ssh://a"], "a real node has no shards"),
        ([*_HUNT, "--shards", "0"], "Invalid value for '--shards'"),
        ([*_HUNT, "--shards", "57", *_SMALL], "--shards 57: number of searches to share: 56"),
        ([*_RUN, "--shards", "2", "-k", "pool/deletion-returns-cpus",
          "--machine", "1s-1n-2c-smt2"], "--shards 2: number of cases to share: 1"),
        ([*_CERTIFY, "A_node"], "pinproof: NODE 'A_node': a name has small letters"),
        ([*_CERTIFY], "Missing argument"),
        ([*_CERTIFY, "n", "--max-unavailable", "0"], "Invalid value for '--max-unavailable'"),
        ([*_CERTIFY, "n", "--max-risk", "reboot"], "it would end the pod that certifies the node"),
        ([*_CERTIFY, "n", "--max-risk", "all"], "pinproof: --max-risk 'all'"),
        ([*_CERTIFY, "n", "--allow", "reboot"], "pinproof: --allow 'reboot': it is one of "),
        ([*_CERTIFY, "n", "--kubeconfig", "x"], "pinproof: --kubeconfig: not an option of a"),
        ([*_HUNT, "--image", "No Image"], "pinproof: --image 'No Image': not the name of an image"),
        ([*_HUNT, "--namespace", "a_b"], "pinproof: --namespace 'a_b': a name has small letters"),
        ([*_HUNT, "--name", "x" * 62], "has at most 61 characters here"),
        ([*_HUNT, "--name", "pinproof-x"], "pinproof: --name 'pinproof-x': on a node that is "),
        ([*_HUNT, "--claim", "A"], "pinproof: --claim 'A': a name has small letters"),
    ],
)  # fmt: skip
def test_what_no_cluster_could_run_is_not_printed(words: list[str], said: str) -> None:
    done = here("job", *words, status=2, COLUMNS="200")
    assert done.stdout == ""
    assert said in done.stderr
    if done.stderr.startswith("pinproof: "):
        assert done.stderr.count("\n") == 1


def _pods(cluster: Cluster, job: str) -> list[Any]:
    """Those of a Job, by index."""
    found = cluster.admin.list_namespaced_pod("default", label_selector=f"job-name={job}").items
    return sorted(found, key=_index)


def _index(pod: Any) -> int:
    return int(pod.metadata.labels[_INDEX])


def _program(folder: Path, body: str) -> None:
    """Makes the ``pinproof`` of :func:`_shell`."""
    path = folder / "pinproof"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def _shell(command: list[str], index: str, folder: Path) -> Done:
    """Runs a pod's command where ``folder`` is its working directory."""
    path = f"{folder}:{os.environ['PATH']}"
    return ran(
        *command, cwd=folder, env={**os.environ, "PATH": path, "JOB_COMPLETION_INDEX": index}
    )


def _run(pod: Any, folder: Path) -> Done:
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


def _end(cluster: Cluster, pod: Any, status: int) -> None:
    """A kubelet says with which exit status a pod ended. Its end is long ago: the controller has an
    index wait for 10 seconds after a failure."""
    phase = "Failed" if status else "Succeeded"
    terminated = {"exitCode": status, "finishedAt": "2026-01-01T00:00:00Z"}
    (one,) = pod.spec.containers
    container = {"name": one.name, "image": one.image, "imageID": "", "ready": False}
    container |= {"restartCount": 0, "state": {"terminated": terminated}}
    cluster.report("default", pod.metadata.name, {"phase": phase, "containerStatuses": [container]})


def _awaited(look: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """What is seen once it holds, or when patience ends."""
    until = time.monotonic() + _PATIENCE
    while not holds(seen := look()) and time.monotonic() < until:
        time.sleep(0.2)
    assert holds(seen), seen
    return seen
