"""The device plugin of kubelets in the loop: registration, what goes wrong with it, and its end."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from conformance.subject import SubjectLostError
from conformance.subjects.kubelet.devices import device_plugin_pb2 as pb
from conformance.subjects.kubelet.devices.plugin import DevicePlugin, DevicePlugins
from reference.steps import (
    Apply,
    Container,
    Device,
    Pod,
    RegisterDevices,
    ReportDevices,
    Start,
    Stop,
)
from tests.kubelet.conftest import NodeMaker, call, do
from tests.support.until import until

NIC = "pinproof.invalid/nic"
DEVICES = (Device("d0", (0,)), Device("d1", (1,)), Device("d2"))
OF_PLUGIN = "device-plugin"


class FakeKubelet(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Answers registrations in a folder, and writes such a checkpoint (``None``: none)."""

    def __init__(self, folder: Path, *, refuses: str = "", checkpoint: object = None) -> None:
        self.asked: list[pb.RegisterRequest] = []
        self._folder, self._refuses, self._checkpoint = folder, refuses, checkpoint
        self.server = grpc.server(ThreadPoolExecutor(2), handlers=[self])
        self.server.add_insecure_port(f"unix:{folder}/kubelet.sock")
        self.server.start()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        def register(request: pb.RegisterRequest, context: grpc.ServicerContext) -> pb.Empty:
            self.asked.append(request)
            if self._refuses:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, self._refuses)
            if self._checkpoint is not None:
                file = self._folder / "kubelet_internal_checkpoint"
                file.write_text(json.dumps(self._checkpoint))
            return pb.Empty()

        if details.method != "/v1beta1.Registration/Register":
            return None
        return grpc.unary_unary_rpc_method_handler(
            register, pb.RegisterRequest.FromString, lambda answer: answer.SerializeToString()
        )


def registered(folder: Path, seconds: float = 0.3) -> None:
    plugins = DevicePlugins(lambda: folder, until, seconds)
    try:
        plugins.register(RegisterDevices(NIC, DEVICES))
    finally:
        plugins.close()
        assert not plugin_threads()


def plugin_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith(OF_PLUGIN)]


def data(*ids: str) -> object:
    return {"Data": {"RegisteredDevices": {NIC: list(ids)}}, "Checksum": 1}


def test_a_kubelet_that_notes_the_devices_down_has_them(folder: Path) -> None:
    kubelet = FakeKubelet(folder, checkpoint=data("d2", "d0", "d1"))
    registered(folder)
    (request,) = kubelet.asked
    assert (request.version, request.resource_name) == ("v1beta1", NIC)
    assert request.options.get_preferred_allocation_available
    kubelet.server.stop(None).wait()


@pytest.mark.parametrize(
    "checkpoint", [None, data("d0"), {"Data": {}}, {"Data": 7}, [], "text"], ids=str
)
def test_devices_that_the_kubelet_never_notes_down_are_lost(
    folder: Path, checkpoint: object
) -> None:
    """Also where an earlier checkpoint has them."""
    (folder / "kubelet_internal_checkpoint").write_text(json.dumps(data("d0", "d1", "d2")))
    kubelet = FakeKubelet(folder, checkpoint=checkpoint)
    with pytest.raises(SubjectLostError, match=r"did not take up the devices of .*/nic in 0\.3 s"):
        registered(folder)
    kubelet.server.stop(None).wait()


def test_a_registration_that_nobody_takes_is_lost(folder: Path) -> None:
    with pytest.raises(SubjectLostError, match="no device plugin"):
        registered(folder / "missing")
    with pytest.raises(SubjectLostError, match="did not register the device plugin of"):
        registered(folder)
    kubelet = FakeKubelet(folder, refuses="no such name")
    with pytest.raises(SubjectLostError, match=r"did not register .*no such"):
        registered(folder)
    kubelet.server.stop(None).wait()


def test_the_plugin_tells_its_devices_and_prefers_the_lowest_ids(folder: Path) -> None:
    plugin = DevicePlugin(folder, RegisterDevices(NIC, DEVICES))
    with grpc.insecure_channel(f"unix:{folder}/pinproof-invalid-nic.sock") as channel:

        def ask(method: str, request: Any, answer: Any, kind: str = "unary_unary") -> Any:
            return call(channel, f"/v1beta1.DevicePlugin/{method}", request, answer, kind=kind)

        stream = ask("ListAndWatch", pb.Empty(), pb.ListAndWatchResponse, "unary_stream")
        listed = next(iter(stream)).devices
        told = {one.ID: [node.ID for node in one.topology.nodes] for one in listed}
        assert told == {"d0": [0], "d1": [1], "d2": []}
        assert {one.health for one in listed} == {"Healthy"}
        assert not listed[2].HasField("topology")
        wanted = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=["d2", "d1", "d0"], must_include_deviceIDs=["d2"], allocation_size=2
        )
        request = pb.PreferredAllocationRequest(container_requests=[wanted])
        preferred = ask("GetPreferredAllocation", request, pb.PreferredAllocationResponse)
        assert [list(one.deviceIDs) for one in preferred.container_responses] == [["d2", "d0"]]
        asked = pb.AllocateRequest(
            container_requests=[pb.ContainerAllocateRequest(devices_ids=["d0"])]
        )
        assert len(ask("Allocate", asked, pb.AllocateResponse).container_responses) == 1
        sick = replace(DEVICES[0], healthy=False)
        plugin.report((sick, DEVICES[1]), lambda *_: True, 1)
        health = {one.ID: one.health for one in next(iter(stream)).devices}
        assert health == {"d0": "Unhealthy", "d1": "Healthy"}
        plugin.close()
        with pytest.raises((grpc.RpcError, StopIteration)):
            next(iter(stream))
    plugin.close()
    assert not plugin_threads()


def test_allocations_fail_and_take_their_time_where_they_are_to(folder: Path) -> None:
    plugin = DevicePlugin(folder, RegisterDevices(NIC, DEVICES, failures=1, seconds=1))
    asked = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=["d0"])])
    with grpc.insecure_channel(f"unix:{folder}/pinproof-invalid-nic.sock") as channel:
        method = "/v1beta1.DevicePlugin/Allocate"
        began = time.monotonic()
        with pytest.raises(grpc.RpcError, match="the devices are not ready"):
            call(channel, method, asked, pb.AllocateResponse)
        assert time.monotonic() - began >= 1
        assert call(channel, method, asked, pb.AllocateResponse).container_responses
    plugin.close()


# ---- at a real kubelet ---------------------------------------------------------------------------


def test_nothing_of_a_plugin_is_left(make_node: NodeMaker) -> None:
    """It ends with the kubelet, and with the node. The next kubelet gets a plugin of its own. While
    the kubelet is down nothing is registered, and a resource without a domain never is."""
    node = make_node()
    with pytest.raises(SubjectLostError, match="the kubelet does not run"):
        node.do(RegisterDevices(NIC, DEVICES))
    assert not plugin_threads()
    node.do(Start())
    with pytest.raises(SubjectLostError, match="did not register the device plugin of nic"):
        node.do(RegisterDevices("nic", DEVICES))
    with pytest.raises(SubjectLostError, match=f"no device plugin of {NIC}"):
        node.do(ReportDevices(NIC, DEVICES))
    node.do(RegisterDevices(NIC, DEVICES))
    assert plugin_threads()
    node.do(Stop(kill=True))
    assert not plugin_threads()
    do(node, Start(), RegisterDevices(NIC, DEVICES), RegisterDevices(NIC, DEVICES[:1]))
    pod = Pod("a", (Container("c", "1", "1", "64Mi", "64Mi", devices=((NIC, 1),)),))
    node.do(Apply(pod))
    assert node.settle(lambda view: bool(view.cpusets.get("a"))).assignments["a"]
    node.close()
    assert not plugin_threads()
