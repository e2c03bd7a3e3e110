"""The fake runtime, asked over gRPC as a kubelet asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from conformance.kubelets.manifests import EXIT_IMAGE, PAUSE_IMAGE
from conformance.subjects.kubelet.bell import Bell
from conformance.subjects.kubelet.cri import cri_pb2 as pb
from conformance.subjects.kubelet.cri.regenerate import regenerate
from conformance.subjects.kubelet.devices import device_plugin_pb2, dra_pb2
from conformance.subjects.kubelet.runtime import FakeRuntime
from reference.cpuset import CPUSet
from reference.kubelet.runtime import container_id
from tests.kubelet.conftest import call
from tests.support import lacking

EMPTY = pb.Empty()
Ask = Callable[..., Any]


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def runtime(tmp_path: Path, bell: Bell) -> Iterator[FakeRuntime]:
    made = FakeRuntime(tmp_path / "cri.sock", bell)
    yield made
    made.close()


@pytest.fixture
def ask(runtime: FakeRuntime, tmp_path: Path) -> Iterator[Ask]:
    """Calls a method and reads the answer as the given message."""
    with grpc.insecure_channel(f"unix:{tmp_path / 'cri.sock'}") as channel:

        def asked(
            method: str,
            request: Message = EMPTY,
            answer: type[Message] = pb.Empty,
            service: str = "runtime.v1.RuntimeService",
        ) -> Any:
            return call(channel, f"/{service}/{method}", request, answer)

        yield asked


def run_pod(ask: Ask, name: str = "p") -> str:
    options = pb.NamespaceOption(network=pb.NamespaceMode.NODE, target_id="t")
    config = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=name, uid=f"uid-{name}"),
        labels={"pod": name},
        linux=pb.LinuxPodSandboxConfig(
            security_context=pb.LinuxSandboxSecurityContext(namespace_options=options)
        ),
    )
    made = ask("RunPodSandbox", pb.RunPodSandboxRequest(config=config), pb.PodSandboxId)
    return str(made.pod_sandbox_id)


def create(ask: Ask, sandbox: str, name: str, cpuset: str = "", image: str = PAUSE_IMAGE) -> str:
    resources = pb.LinuxContainerResources(cpu_shares=2048, cpuset_cpus=cpuset)
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=name),
        image=pb.ImageSpec(image=image),
        labels={"name": name},
        linux=pb.LinuxContainerConfig(resources=resources),
    )
    request = pb.CreateContainerRequest(pod_sandbox_id=sandbox, config=config)
    return str(ask("CreateContainer", request, pb.ContainerId).container_id)


def start(ask: Ask, container: str) -> None:
    ask("StartContainer", pb.ContainerId(container_id=container))


def run(ask: Ask, cpuset: str = "", pod: str = "p") -> str:
    """The sandbox of a pod whose container runs with this cpuset."""
    sandbox = run_pod(ask, pod)
    start(ask, create(ask, sandbox, "c", cpuset))
    return sandbox


def status(ask: Ask, container: str) -> pb.ContainerStatus:
    request = pb.ContainerId(container_id=container)
    answer: pb.ContainerStatusResponse = ask("ContainerStatus", request, pb.ContainerStatusResponse)
    return answer.status


@pytest.mark.parametrize("version", ["v1", "v1alpha2"])
def test_it_speaks_the_version_it_is_asked_in(ask: Ask, version: str) -> None:
    service = f"runtime.{version}.RuntimeService"
    answer = ask("Version", pb.Empty(), pb.VersionResponse, service)
    assert (answer.runtime_name, answer.runtime_api_version) == ("pinproof", version)


def test_it_is_ready_and_has_every_image(ask: Ask) -> None:
    conditions = ask("Status", pb.Empty(), pb.StatusResponse).status.conditions
    ready = {each.type: each.status for each in conditions}
    assert ready == {"RuntimeReady": True, "NetworkReady": True}
    request = pb.ImageRequest(image=pb.ImageSpec(image="any/thing:1"))
    answer = ask("ImageStatus", request, pb.ImageStatusResponse, "runtime.v1.ImageService")
    assert answer.image.id == "any/thing:1"


def test_a_sandbox_has_the_namespaces_it_was_asked_for(ask: Ask) -> None:
    sandbox = run_pod(ask)
    request = pb.PodSandboxId(pod_sandbox_id=sandbox)
    seen = ask("PodSandboxStatus", request, pb.PodSandboxStatusResponse).status
    assert seen.linux.namespaces.options.network == pb.NamespaceMode.NODE
    assert seen.linux.namespaces.options.target_id == "t"
    assert seen.state == pb.PodSandboxState.SANDBOX_READY


def test_a_container_has_ended_until_another_of_its_name_runs(
    ask: Ask, runtime: FakeRuntime
) -> None:
    """Such a one is in a kubelet's back-off from the moment that it is started again."""
    sandbox = run(ask)
    assert runtime.ended() == set()
    assert runtime.end_container("uid-p", "c", 0)
    assert runtime.ended() == {("uid-p", "c")}
    start(ask, create(ask, sandbox, "c"))
    assert runtime.ended() == set()


def test_a_container_has_the_cpuset_it_was_created_with(ask: Ask, runtime: FakeRuntime) -> None:
    container = create(ask, run_pod(ask), "c", "2-3")
    assert runtime.cpusets() == {}
    start(ask, container)
    assert runtime.cpusets() == {"uid-p": {"c": CPUSet([2, 3])}}
    run(ask, pod="anywhere")
    assert runtime.cpusets()["uid-anywhere"] == {"c": None}


def test_calls_wait_until_they_are_let_go(ask: Ask, runtime: FakeRuntime, bell: Bell) -> None:
    """As many as were to, and each in a thread of its own."""
    sandbox = run_pod(ask)
    first, second, third = (create(ask, sandbox, name) for name in "abc")
    runtime.held.hold("StartContainer", most=1)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(start, ask, first)
        assert bell.until(lambda: runtime.held.wait("StartContainer"), 10)
        start(ask, second)
        assert set(runtime.cpusets()["uid-p"]) == {"b"}
        runtime.held.end("StartContainer")
        waiting.result(10)
    assert set(runtime.cpusets()["uid-p"]) == {"a", "b"}
    assert not runtime.held.wait("StartContainer")
    start(ask, third)
    assert set(runtime.cpusets()["uid-p"]) == {"a", "b", "c"}


def test_an_update_changes_what_it_names_and_nothing_else(ask: Ask, runtime: FakeRuntime) -> None:
    container = create(ask, run_pod(ask), "c", "0-7")
    start(ask, container)
    resources = pb.LinuxContainerResources(cpuset_cpus="4-7")
    request = pb.UpdateContainerResourcesRequest(container_id=container, linux=resources)
    ask("UpdateContainerResources", request)
    assert runtime.cpusets() == {"uid-p": {"c": CPUSet([4, 5, 6, 7])}}
    assert status(ask, container).resources.linux.cpu_shares == 2048
    assert str(runtime.recent_calls(1)[0]) == "UpdateContainerResources p/c cpuset 4-7"
    ask("UpdateContainerResources", pb.UpdateContainerResourcesRequest(container_id=container))
    asked = runtime.asked("1.37")["uid-p"]["c"]
    assert (asked.updates, asked.sent) == (1, (CPUSet([4, 5, 6, 7]),))


@pytest.mark.parametrize("name", ["", "c"])
def test_updates_are_refused_so_often_and_of_one_name_alone(
    ask: Ask, runtime: FakeRuntime, name: str
) -> None:
    sandbox = run_pod(ask)
    ids = {one: create(ask, sandbox, one, "0-7") for one in ("c", "other")}
    for container in ids.values():
        start(ask, container)

    def update(one: str) -> None:
        resources = pb.LinuxContainerResources(cpuset_cpus="4")
        wanted = pb.UpdateContainerResourcesRequest(container_id=ids[one], linux=resources)
        ask("UpdateContainerResources", wanted)

    runtime.refuse_updates(2, name)
    refused = ["c", "c"] if name else ["c", "other"]
    for one in refused:
        with pytest.raises(grpc.RpcError, match="device or resource busy"):
            update(one)
        if name:
            update("other")
    update("c")
    assert runtime.cpusets()["uid-p"]["c"] == CPUSet([4])


@pytest.mark.parametrize(("sent", "quota"), [(0, None), (-1, None), (150_000, 150_000)])
def test_it_keeps_the_quota_of_a_sandbox(
    ask: Ask, runtime: FakeRuntime, sent: int, quota: int | None
) -> None:
    config = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name="p", uid="uid-p"),
        linux=pb.LinuxPodSandboxConfig(resources=pb.LinuxContainerResources(cpu_quota=sent)),
    )
    ask("RunPodSandbox", pb.RunPodSandboxRequest(config=config), pb.PodSandboxId)
    assert runtime.sandboxes(ready=True)["uid-p"].quota == quota


def test_it_keeps_the_most_that_the_quotas_of_a_pod_came_to(ask: Ask, runtime: FakeRuntime) -> None:
    """A container counts while it runs, and one without a quota as 0."""
    sandbox = run_pod(ask)
    first, second = (create(ask, sandbox, name) for name in ("first", "second"))
    for container, quota in ((first, 50), (second, 100), (second, -1), (first, 120), (first, 10)):
        start(ask, container)
        resources = pb.LinuxContainerResources(cpu_quota=quota)
        request = pb.UpdateContainerResourcesRequest(container_id=container, linux=resources)
        ask("UpdateContainerResources", request)
    assert runtime.sandboxes(ready=True)["uid-p"].peak_quota == 150


@pytest.mark.parametrize("cpuset", ["3-1", "a", "0,,1", "0-99999999999"])
def test_no_runtime_takes_a_cpuset_that_is_none(ask: Ask, cpuset: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        create(ask, run_pod(ask), "c", cpuset)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_an_init_container_is_done_at_once(ask: Ask, runtime: FakeRuntime) -> None:
    container = create(ask, run_pod(ask), "setup", "1", EXIT_IMAGE)
    start(ask, container)
    seen = status(ask, container)
    assert (seen.state, seen.exit_code) == (pb.ContainerState.CONTAINER_EXITED, 0)
    assert seen.reason == "Completed"
    assert seen.finished_at >= seen.started_at > 0
    assert runtime.cpusets() == {}


def test_stopping_the_sandbox_stops_its_containers(ask: Ask, runtime: FakeRuntime) -> None:
    sandbox = run(ask, "1", "one")
    run(ask, "1", "other")
    ask("StopPodSandbox", pb.PodSandboxId(pod_sandbox_id=sandbox))
    assert runtime.cpusets() == {"uid-other": {"c": CPUSet([1])}}


def test_lists_are_filtered(ask: Ask) -> None:
    one, other = run_pod(ask, "one"), run_pod(ask, "other")
    first, second = create(ask, one, "a"), create(ask, other, "b")
    start(ask, second)
    running = pb.ContainerStateValue(state=pb.ContainerState.CONTAINER_RUNNING)

    def listed(**fields: Any) -> set[str]:
        request = pb.ListContainersRequest(filter=pb.ContainerFilter(**fields))
        answer = ask("ListContainers", request, pb.ListContainersResponse)
        return {each.id for each in answer.containers}

    assert listed() == {first, second}
    assert listed(id=first) == {first}
    assert listed(pod_sandbox_id=other) == {second}
    assert listed(state=running) == {second}
    assert listed(label_selector={"name": "a"}) == {first}
    assert listed(label_selector={"name": "a"}, id=second) == set()
    sandboxes = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(label_selector={"pod": "one"}))
    found = ask("ListPodSandbox", sandboxes, pb.ListPodSandboxResponse)
    assert [each.id for each in found.items] == [one]


def test_removing_is_no_error_when_repeated(ask: Ask, runtime: FakeRuntime) -> None:
    sandbox = run(ask, "1")
    for _ in range(2):
        ask("RemovePodSandbox", pb.PodSandboxId(pod_sandbox_id=sandbox))
    assert runtime.cpusets() == {}


@pytest.mark.parametrize("method", ["ContainerStatus", "StartContainer", "StopContainer"])
def test_an_unknown_container_is_not_found(ask: Ask, method: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        ask(method, pb.ContainerId(container_id="none"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_what_is_not_served_is_remembered(ask: Ask, runtime: FakeRuntime) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        ask("Version", service="runtime.v2.RuntimeService")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert runtime.not_served_paths == {"/runtime.v2.RuntimeService/Version"}
    assert not runtime.called


def test_tampering_goes_unnoticed_by_the_calls(ask: Ask, runtime: FakeRuntime) -> None:
    run(ask, "1")
    calls = runtime.recent_calls(10)
    assert runtime.set_cpuset("uid-p", "c", CPUSet([5]))
    assert runtime.cpusets() == {"uid-p": {"c": CPUSet([5])}}
    assert runtime.recent_calls(10) == calls
    assert not runtime.set_cpuset("uid-p", "other", CPUSet([5]))


def test_a_reboot_drops_everything(ask: Ask, runtime: FakeRuntime) -> None:
    run(ask, "1")
    runtime.drop_everything()
    assert runtime.cpusets() == {}
    assert not ask("ListPodSandbox", pb.Empty(), pb.ListPodSandboxResponse).items


def test_changes_ring_and_questions_do_not(ask: Ask, bell: Bell) -> None:
    ask("Status", pb.Empty(), pb.StatusResponse)
    before = bell.rings
    run_pod(ask)
    assert bell.rings == before + 1


@pytest.mark.parametrize("messages", [pb, device_plugin_pb2, dra_pb2])
def test_the_committed_messages_are_those_of_the_proto_file(
    messages: ModuleType, tmp_path: Path
) -> None:
    lacking.module("grpc_tools")
    committed = Path(str(messages.__file__))
    regenerate(tmp_path, committed.with_name(committed.name.replace("_pb2.py", ".proto")))
    for one in (committed, committed.with_suffix(".pyi")):
        assert (tmp_path / one.name).read_text() == one.read_text(), one.name


def test_ids_are_those_that_the_model_expects(ask: Ask, runtime: FakeRuntime) -> None:
    """A second container of one name has another; whose one was is known when it is gone."""
    sandbox = run_pod(ask)
    first, second = create(ask, sandbox, "c"), create(ask, sandbox, "c")
    owner = runtime.owner(first)
    assert owner is not None
    assert [first, second] == [container_id(*owner, 1), container_id(*owner, 2)]
    runtime.drop_everything()
    assert runtime.owner(first) == owner
    assert runtime.owner("unknown") is None
