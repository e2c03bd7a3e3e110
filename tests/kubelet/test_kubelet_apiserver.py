"""Kubelets before an API server: pods, resizes and ephemeral containers that come through it, and
what is said where it is absent or breaks."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import topologies
from conformance.kubelets import apiservers
from conformance.pods import burstable, exclusive, guaranteed, guaranteed_of
from conformance.subject import Capability, SubjectLostError, SubjectSetupError
from conformance.subjects.kubelet.apiserver import APIServer
from conformance.subjects.kubelet.apiserver.pods import _restarting, _restarts_all, _shows
from conformance.subjects.kubelet.endpoint import NOT_SEEN
from conformance.subjects.kubelet.node import KubeletNode, _with_resize
from conformance.subjects.kubelet.process import FIRST_LIST
from reference import Checkpoint, CPUSet
from reference.steps import (
    AddEphemeral,
    Apply,
    AskPodResources,
    Configure,
    Delete,
    Device,
    KubeletConfig,
    Pod,
    RegisterDevices,
    Resize,
    Start,
    Stop,
    WriteState,
)
from reference.view import Phase, View
from tests.cli.running import here
from tests.kubelet.conftest import CONFIG, MACHINE, NodeMaker, Open, applied, do, running

IN_CLUSTER = replace(CONFIG, api_server=True)


@pytest.fixture
def node(needs_api_server: None, make_node: NodeMaker) -> KubeletNode:
    made = make_node(IN_CLUSTER)
    made.do(Start())
    return made


def test_a_pod_comes_through_the_api_server(node: KubeletNode, make_node: NodeMaker) -> None:
    """With a uid of the server's; the state file is shown under the uid that it was stated with.
    Two nodes of one server have pods of one name."""
    other, pod = make_node(IN_CLUSTER), guaranteed("a", 2)
    do(other, Start(), Apply(guaranteed("a", 3)))
    node.do(Apply(pod))
    assert len(other.settle(running("a")).assignments["a"]["c"]) == 3
    view = node.settle(running("a"))
    assert view.pods["a"].phase is Phase.RUNNING
    assert len(view.assignments["a"]["c"]) == 2
    assert view.cpusets["a"]["c"] == view.assignments["a"]["c"]
    assert view.state_file is not None
    assert pod.uid in view.state_file
    assert pod.uid not in (node.sandbox.path("/var/lib/kubelet/cpu_manager_state")).read_text()
    node.do(Delete("a"))
    view = node.settle(lambda view: not view.assignments)
    assert (view.assignments, view.pods) == ({}, {})


def test_an_error_names_a_pod_by_the_uid_that_it_was_stated_with(node: KubeletNode) -> None:
    pod = guaranteed("a", 2)
    held = applied(node, pod).assignments["a"]["c"]
    overlapping = Checkpoint("static", held | CPUSet([0, 16]), {pod.uid: {"c": held}})
    do(node, Stop(), WriteState(overlapping.dumps(release="1.36")), Start())
    error = node.settle(lambda view: not view.running and bool(view.error)).error
    assert f'pod: {pod.uid}, container: c cpuset: "{held}" overlaps' in error


def test_a_resize_is_pending_until_the_kubelet_has_heard_of_it(node: KubeletNode) -> None:
    """Then it is granted, and the container's cgroup follows a moment later."""
    applied(node, burstable("b", request="1", limit="2"))
    node.do(Resize(burstable("b", request="1500m", limit="2")))
    assert node._api is not None
    (status,) = node._process.pods()
    asked = node._api.asked[status.uid]
    old = replace(status, resize="", resources={"c": {"requests": {"cpu": "1"}}})
    assert _with_resize(node._api, old).resize == NOT_SEEN
    assert _with_resize(node._api, replace(old, resources=asked)).resize == ""
    view = node.settle(lambda view: view.cfs["b"]["c"].shares == 1536 and not view.pods["b"].resize)
    assert view.cfs["b"]["c"].shares == 1536
    assert view.pods["b"].resize == ""


def test_devices_are_registered_once_the_server_has_them_again(node: KubeletNode) -> None:
    """A kubelet that starts tells the server that the devices are away, where their plugin is late.
    A busy one was seen to refuse the next pod: "Node didn't have enough resource … capacity: 0"."""
    devices = RegisterDevices("pinproof.invalid/device", (Device("d0"), Device("d1")))
    node.do(devices)
    assert node._api is not None
    offers = partial(node._api.offers, devices.resource)
    assert node.sandbox.bell.until(lambda: offers() == (2, 2), 20)
    do(node, Stop(), Start())
    assert node.sandbox.bell.until(lambda: offers() == (0, 0), 20)
    node.do(devices)
    assert offers() == (2, 2)


def test_a_start_lasts_until_the_pods_of_the_server_are_admitted(
    node: KubeletNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the server has them as they were: what will be refused seemed to run on, so a
    restart that refuses it was taken for one that does not."""
    monkeypatch.setattr("conformance.subjects.kubelet.node.FIRST_ADMISSIONS", 6.0)  # busy hosts
    applied(node, burstable("b", request="2", limit="2"))
    few = KubeletConfig(system_reserved="31", api_server=True)
    do(node, Stop(), Configure(few), Start())
    seen: list[Phase] = []

    def refused(view: View) -> bool:
        seen.append(view.pods["b"].phase)
        return seen[-1] is Phase.REJECTED

    assert node.settle(refused).pods["b"].reason == "OutOfcpu"
    assert Phase.RUNNING not in seen


def test_a_pod_that_is_applied_after_a_start_comes_after_the_first_list(node: KubeletNode) -> None:
    """With the first list it would be admitted while the device of the pod that is gone is held."""
    devices = RegisterDevices("pinproof.invalid/device", (Device("d0"), Device("d1")))

    def with_device(name: str) -> Pod:
        one = replace(exclusive("c", 1), devices=((devices.resource, 1),))
        return guaranteed_of(name, [one])

    node.do(devices)
    applied(node, with_device("a"))
    do(node, Delete("a", force=True), Stop(), Start(), devices)
    applied(node, with_device("b"))
    node.do(AskPodResources())
    assert [one.id for one in node.view().devices["b"]["c"]] == ["d0"]


def test_a_kubelet_that_does_not_say_what_it_lists_is_waited_for_a_while(
    make_node: NodeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_node()
    made.do(Start())
    assert made.sandbox.bell.until(lambda: made._process.has_listed("file"), 20)
    monkeypatch.setattr(made._process, "_started", time.monotonic())
    assert not made._process.has_listed("nowhere")
    monkeypatch.setattr(made._process, "_started", time.monotonic() - FIRST_LIST - 1)
    assert made._process.has_listed("nowhere")


def test_a_pod_is_applied_once_the_server_knows_of_a_resize(
    node: KubeletNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet counts what the server says that containers have, as it admits the next pod. An
    idle host was seen to refuse one that has room. A resize that never comes about is waited for
    once, and another one again."""
    answers = iter([False, False, True])
    with monkeypatch.context() as patch:
        patch.setattr(node._api, "shows_resizes", lambda: next(answers))
        node.do(Apply(guaranteed("e", 2)))
    assert list(answers) == []
    looks: list[object] = []

    def never(*looked_at: object) -> bool:
        looks.append(looked_at)
        return False

    monkeypatch.setattr("conformance.subjects.kubelet.apiserver.pods._shows", never)
    monkeypatch.setattr("conformance.subjects.kubelet.node.RESIZE_STATUS", 0.2)
    applied(node, burstable("b", request="1", limit="2"))
    assert not looks
    do(node, Resize(burstable("b", request="1500m", limit="2")), Apply(guaranteed("a", 1)))
    assert looks
    looks.clear()
    do(node, Apply(guaranteed("c", 1)))
    assert not looks
    do(node, Resize(burstable("b", request="1", limit="2")), Apply(guaranteed("d", 1)))
    assert looks


def _status(**status: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "u"}, "status": status}


PENDING = {"type": "PodResizePending"}


def _with_cpu(cpu: str) -> dict[str, Any]:
    return {"name": "c", "state": {"running": {}}, "resources": {"requests": {"cpu": cpu}}}


@pytest.mark.parametrize(
    ("pod", "shows"),
    [
        (_status(containerStatuses=[_with_cpu("4")]), False),
        (_status(containerStatuses=[_with_cpu("3")]), True),
        (_status(initContainerStatuses=[_with_cpu("4")]), False),
        (_status(containerStatuses=[_with_cpu("4") | {"state": {"terminated": {}}}]), True),
        (_status(containerStatuses=[_with_cpu("4") | {"name": "other"}]), True),
        (_status(containerStatuses=[{"name": "c", "state": {"running": {}}}]), True),
        (_status(conditions=[PENDING], containerStatuses=[_with_cpu("4")]), True),
        (_status(), True),
    ],
    ids=[
        "as it was", "as it was asked for", "a sidecar as it was", "it ended", "another container",
        "a release that shows no sizes", "it is not granted", "not started",
    ],
)  # fmt: skip
def test_when_a_resize_is_known_to_the_server(pod: dict[str, Any], shows: bool) -> None:
    assert _shows(pod, {"c": {"requests": {"cpu": "3"}}}, {}) is shows


RESTARTING = {"type": "AllContainersRestarting", "status": "True"}
ON_42 = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]


def _exited(code: int) -> list[dict[str, Any]]:
    return [{"name": "c", "state": {"terminated": {"exitCode": code}}}]


@pytest.mark.parametrize(
    ("status", "restarts"),
    [
        ({"conditions": [RESTARTING]}, True),
        ({"conditions": [RESTARTING | {"status": "False"}]}, False),
        ({"containerStatuses": _exited(42)}, True),
        ({"containerStatuses": _exited(137)}, False),
        ({"containerStatuses": [{"name": "c", "state": {"running": {}}}]}, False),
        ({}, False),
    ],
    ids=["it says so", "it has ended", "by its rule", "by another code", "running", "unknown"],
)
def test_when_a_kubelet_that_starts_would_restart_all_containers(
    status: dict[str, Any], restarts: bool
) -> None:
    spec = {"containers": [{"name": "c", "restartPolicyRules": ON_42}, {"name": "d"}]}
    assert _restarts_all({"spec": spec, "status": status}) is restarts


def test_a_kubelet_stops_once_the_server_knows_that_all_containers_were_restarted(
    monkeypatch: pytest.MonkeyPatch, node: KubeletNode
) -> None:
    """Else the next kubelet would restart them once more. Seen on a busy host."""
    applied(node, guaranteed_of("a", [replace(exclusive("c", 1), restarts_all_on=(42,))]))
    (uid,) = (pod.uid for pod in node._applied.values())
    answers = iter([{uid}, {uid}, set[str]()])
    monkeypatch.setattr(node._api, "restarting_all", lambda: next(answers))
    node.do(Stop())
    assert list(answers) == []


@pytest.mark.parametrize(
    ("policy", "memory", "again"),
    [
        ([{"resourceName": "memory", "restartPolicy": "RestartContainer"}], "2Mi", True),
        ([{"resourceName": "memory", "restartPolicy": "RestartContainer"}], "1Mi", False),
        ([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}], "2Mi", False),
        ([{"resourceName": "memory", "restartPolicy": "NotRequired"}], "2Mi", False),
    ],
)
def test_a_container_that_a_resize_starts_again_is_waited_for(
    policy: list[dict[str, str]], memory: str, again: bool
) -> None:
    """Its CPUs may be shown before."""
    want = {"requests": {"cpu": "3", "memory": memory}}
    have = {"requests": {"cpu": "3", "memory": "1Mi"}}
    spec = {"containers": [{"name": "c", "resources": want, "resizePolicy": policy}]}
    status = {"name": "c", "state": {"running": {}}, "resources": have, "containerID": "x://1"}
    pod = {"spec": spec, "status": {"containerStatuses": [status]}}
    before = _restarting(pod)
    assert before == ({"c": "x://1"} if again else {})
    assert _shows(pod, {"c": want}, before) is not again
    status["containerID"] = "x://2"
    assert _shows(pod, {"c": want}, before)


def test_what_the_server_refuses_is_lost(needs_api_server: None, make_node: NodeMaker) -> None:
    """And its own words are passed on, in one line."""
    node = make_node(IN_CLUSTER)
    with pytest.raises(SubjectLostError, match='pods "none" not found') as caught:
        node.do(AddEphemeral("none", "debug"))
    assert "\n" not in str(caught.value)


def test_manifests_are_not_resized(make_node: NodeMaker) -> None:
    node = make_node()
    with pytest.raises(SubjectLostError, match="Resize: the pods of this node are manifests"):
        node.do(Resize(guaranteed("a", 2)))


def test_a_server_that_dies_is_no_verdict_and_is_started_again(
    kubelet_path: str, needs_api_server: None, open_kubelet: Open
) -> None:
    subject, machine = open_kubelet(kubelet_path), topologies.machine(MACHINE)
    node = subject.node(machine, IN_CLUSTER)
    server = subject.api_server
    assert server is not None
    assert server._sandbox is not None
    server._sandbox.kill()
    assert server._sandbox.bell.until(lambda: not server.running, 30)
    with pytest.raises(SubjectLostError, match="the API server does not answer"):
        node.do(Apply(guaranteed("a", 1)))
    node.close()
    again = subject.node(machine, IN_CLUSTER)
    again.do(Start())
    applied(again, guaranteed("a", 1))
    subject.close()
    assert not server.running


# -- what is absent ------------------------------------------------------------------------------


def programs(folder: Path, apiserver: str) -> apiservers.Programs:
    for name, text in (("etcd", "exec sleep 60"), ("apiserver", apiserver)):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return apiservers.Programs(folder / "etcd", folder / "apiserver")


@pytest.mark.needs("sandbox")
def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    said = 'E1122 20:11:43.994408       2 run.go:72] "command failed" err="no such flag"'
    server = APIServer(programs(tmp_path, f"echo '{said}'; exit 1"))
    with pytest.raises(SubjectSetupError, match="the API server does not start: no such flag"):
        server.start()
    assert not server.running


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both at once, and how to get them. A program that is named is taken."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PINPROOF_APISERVER", raising=False)
    with pytest.raises(SubjectSetupError) as caught:
        apiservers.find()
    assert str(caught.value) == (
        "etcd is not on PATH (Debian: etcd-server); "
        "there is no kube-apiserver (pinproof build apiserver 1.36, or PINPROOF_APISERVER)"
    )
    monkeypatch.setenv("PINPROOF_APISERVER", str(tmp_path / "none"))
    with pytest.raises(SubjectSetupError, match="/none cannot be executed"):
        apiservers.find()
    made = programs(tmp_path, "exit 1")
    monkeypatch.setenv("PINPROOF_APISERVER", str(made.apiserver))
    assert apiservers.find() == made


def test_without_a_server_the_subject_cannot_give_one(
    kubelet_path: str, open_kubelet: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    subject = open_kubelet(kubelet_path)
    assert Capability.API_SERVER not in subject.capabilities
    assert "etcd is not on PATH" in subject.lacking[Capability.API_SERVER]
    with pytest.raises(SubjectSetupError, match="there is no API server"):
        subject.node(topologies.machine(MACHINE), IN_CLUSTER)


def test_a_run_says_loudly_what_it_did_not_test(kubelet_path: str, tmp_path: Path) -> None:
    """One line; the other scenarios are judged, and the run is conformant."""
    keyword = "resize/exclusive-cpus-infeasible or ephemeral/in-a or qos/best-effort-shares"
    words = ("--subject", f"kubelet:{kubelet_path}", "--machine", "1s-1n-4c-smt2", "-k", keyword)
    run = here("run", *words, cwd=tmp_path, status=0, PATH=str(tmp_path))
    said = run.stdout + run.stderr
    (loud,) = [line for line in said.splitlines() if "NOT TESTED" in line]
    assert "2 scenarios that need to give the kubelet an API server: etcd is not on PATH" in loud
    assert loud.startswith("pinproof: ")
    assert "2 skipped" in said
