"""The driver of Dynamic Resource Allocation of kubelets in the loop: what it answers, and what goes
wrong with it. The test stands in for the kubelet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from conformance.subject import SubjectLostError
from conformance.subjects.kubelet.devices import dra_pb2 as pb
from conformance.subjects.kubelet.devices.dra import DRADriver
from reference.steps import Device
from tests.kubelet.conftest import call
from tests.support.until import until

NAME = "nic.example.com"
REGISTRATION = f"plugins_registry/{NAME}-reg.sock"
ENDPOINT = f"/var/lib/kubelet/plugins/{NAME}/dra.sock"
PREPARE = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
UNPREPARE = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources"
NOTIFY = "/pluginregistration.Registration/NotifyRegistrationStatus"


class Server:
    """An API server with one claim, ``given``; what was made there is in ``made``."""

    def __init__(self) -> None:
        self.made: dict[str, list[dict[str, Any]]] = {"deviceclasses": [], "resourceslices": []}

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        kind, name = path.split("/")[-2:]
        if kind == "resourceclaims":
            if name != "given":
                raise SubjectLostError(f"the API server refuses {method} {path}: not found")
            mine = {"driver": NAME, "request": "nic", "pool": "node1", "device": "d001"}
            results = [mine, mine | {"driver": "other.example.com"}]
            return {"status": {"allocation": {"devices": {"results": results}}}}
        if method == "POST":
            self.made[name].append(body)
        return {"items": self.made[name]}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def driver(folder: Path, server: Server) -> Iterator[DRADriver]:
    devices = (Device("d000", (0,)), Device("d001", (1,)))
    made = DRADriver(NAME, "node1", devices, lambda inside: Path(f"{folder}{inside}"), server.ask)
    yield made
    made.close()
    made.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("dra-driver")]


def _call(socket: Path, method: str, request: Message, answer: type[Message]) -> Any:
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        return call(channel, method, request, answer)


def _notify(folder: Path, *, registered: bool, error: str = "") -> None:
    status = pb.RegistrationStatus(plugin_registered=registered, error=error)
    _call(folder / "var/lib/kubelet" / REGISTRATION, NOTIFY, status, pb.Nothing)


def test_a_kubelet_learns_where_claims_are_prepared(folder: Path, driver: DRADriver) -> None:
    registry = folder / "var/lib/kubelet" / REGISTRATION
    method = "/pluginregistration.Registration/GetInfo"
    info = _call(registry, method, pb.Nothing(), pb.PluginInfo)
    assert (info.type, info.name, info.endpoint) == ("DRAPlugin", NAME, ENDPOINT)
    assert list(info.supported_versions) == ["v1.DRAPlugin"]
    _notify(folder, registered=True)
    driver.await_kubelet(until, 1)


def test_every_kubelet_is_waited_for(folder: Path, driver: DRADriver) -> None:
    """That the one before has registered the driver does not count."""
    _notify(folder, registered=True)
    driver.expect_kubelet()
    with pytest.raises(SubjectLostError, match=r"did not register the driver .* in 0.05 s"):
        driver.await_kubelet(until, 0.05)


def test_what_a_kubelet_refuses_is_told(folder: Path, driver: DRADriver) -> None:
    _notify(folder, registered=False, error="no such version")
    with pytest.raises(SubjectLostError, match=r"refuses the driver .*: no such version"):
        driver.await_kubelet(until, 1)


def test_what_was_allocated_is_prepared(folder: Path, driver: DRADriver) -> None:
    """Of this driver's devices; a claim without allocation is an error of its own."""
    claims = [pb.Claim(namespace="default", uid=name, name=name) for name in ("given", "none")]
    asked, socket = pb.Claims(claims=claims), Path(f"{folder}{ENDPOINT}")
    answers = _call(socket, PREPARE, asked, pb.NodePrepareResourcesResponse).claims
    (device,) = answers["given"].devices
    assert (device.pool_name, device.device_name) == ("node1", "d001")
    assert list(device.request_names) == ["nic"]
    assert "not found" in answers["none"].error
    ended = _call(socket, UNPREPARE, asked, pb.NodeUnprepareResourcesResponse).claims
    assert {name: one.error for name, one in ended.items()} == {"given": "", "none": ""}


def test_devices_are_published_once(driver: DRADriver, server: Server) -> None:
    """With their NUMA nodes; again where a kubelet has removed them."""
    driver.publish()
    driver.publish()
    (kept,) = server.made["resourceslices"]
    assert [one["attributes"] for one in kept["spec"]["devices"]] == [
        {"numaNode": {"int": 0}},
        {"numaNode": {"int": 1}},
    ]
    server.made["resourceslices"].clear()
    driver.publish()
    assert len(server.made["resourceslices"]) == len(server.made["deviceclasses"]) == 1


def test_a_folder_that_cannot_be_is_an_error(server: Server, folder: Path) -> None:
    (folder / "var").touch()
    with pytest.raises(OSError, match="var"):
        DRADriver(NAME, "node1", (), lambda inside: Path(f"{folder}{inside}"), server.ask)
