"""A driver of Dynamic Resource Allocation for a kubelet in the loop.

A device has only a NUMA node. The driver is not a process: the runner serves it on two sockets in
the sandbox. A kubelet, also one that starts later, finds the first by itself, and prepares claims
at the second. Sources: k8s.io/kubelet, ``pkg/apis/pluginregistration/v1`` and ``pkg/apis/dra/v1``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from conformance.subject import SubjectLostError
from conformance.subjects.kubelet.devices import dra_pb2 as pb
from conformance.subjects.kubelet.devices.plugin import Wait
from conformance.subjects.kubelet.sandbox import STATE_DIR
from conformance.subjects.kubelet.serving import serve, unary
from reference.steps import Device

#: The oldest minor whose kubelet has ``dra.v1``, on by default.
SINCE: Final = 34
#: The attribute with a device's NUMA node, in the domain of its driver.
ATTRIBUTE: Final = "numaNode"
_API: Final = "/apis/resource.k8s.io/v1"
_TYPE: Final = "DRAPlugin"
_VERSION: Final = "v1.DRAPlugin"
_REGISTRATION: Final = "pluginregistration.Registration"
_SERVICE: Final = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"

#: Sends a request to the API server (method, path and body), and gives its answer. Raises
#: :class:`SubjectLostError`.
Ask = Callable[..., dict[str, Any]]


def device_class(driver: str) -> dict[str, Any]:
    """The DeviceClass of all devices of a driver, by its name."""
    chosen = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return {"metadata": {"name": driver}, "spec": {"selectors": [chosen]}}


def resource_slice(driver: str, node: str, devices: Sequence[Device]) -> dict[str, Any]:
    """The ResourceSlice of a node's devices, each with its NUMA node."""
    shown = [
        {"name": one.id, "attributes": {ATTRIBUTE: {"int": numa}}}
        for one in devices
        for numa in one.numa_nodes[:1]
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": shown}
    return {"metadata": {"name": f"{node}-{driver}"}, "spec": spec}


class DRADriver:
    """Serves the claims of a node's ``devices``, from now on until :meth:`close`. ``path`` maps a
    path of the node to the runner's, ``ask`` asks the API server. Raises ``OSError`` if it cannot
    listen."""

    def __init__(
        self,
        name: str,
        node: str,
        devices: Sequence[Device],
        path: Callable[[str], Path],
        ask: Ask,
    ) -> None:
        self._name = name
        self._slice = resource_slice(name, node, devices)
        self._ask = ask
        self._endpoint = f"{STATE_DIR}/plugins/{name}/dra.sock"
        self._said: pb.RegistrationStatus | None = None
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="dra-driver")
        handlers = [
            grpc.method_handlers_generic_handler(service, calls)
            for service, calls in self._calls().items()
        ]
        named = (self._endpoint, f"{STATE_DIR}/plugins_registry/{name}-reg.sock")
        sockets = [path(one) for one in named]
        for socket in sockets:
            socket.parent.mkdir(parents=True, exist_ok=True)
        self._server = serve(self._threads, handlers, *sockets)

    def expect_kubelet(self) -> None:
        """Expect the registration of a kubelet that is about to start."""
        with self._lock:
            self._said = None

    def await_kubelet(self, until: Wait, seconds: float) -> None:
        """Wait until the kubelet has registered the driver, at most ``seconds``. Raises
        :class:`SubjectLostError` if it refuses, or does not register it in time."""
        heard = until(lambda: self._said is not None, seconds)
        with self._lock:
            said = self._said
        if not heard or said is None:
            raise SubjectLostError(
                f"the kubelet did not register the driver {self._name} in {seconds:g} s"
            )
        if not said.plugin_registered:
            raise SubjectLostError(f"the kubelet refuses the driver {self._name}: {said.error}")

    def publish(self) -> None:
        """Create the node's ResourceSlice and its DeviceClass at the API server, if they do not
        exist. A kubelet that starts removes the ResourceSlices of its node. Raises
        :class:`SubjectLostError`."""
        for kind, entry in (
            ("deviceclasses", device_class(self._name)),
            ("resourceslices", self._slice),
        ):
            known = self._ask("GET", f"{_API}/{kind}")["items"]
            if entry["metadata"]["name"] not in {one["metadata"]["name"] for one in known}:
                self._ask("POST", f"{_API}/{kind}", entry)

    def close(self) -> None:
        """Serve no more. May be called twice."""
        self._server.stop(None).wait()
        self._threads.shutdown()

    # --- what a kubelet asks ---------------------------------------------------------------------

    def _calls(self) -> Mapping[str, dict[str, grpc.RpcMethodHandler[Any, Any]]]:
        return {
            _REGISTRATION: {
                "GetInfo": unary(pb.Nothing, self._info),
                "NotifyRegistrationStatus": unary(pb.RegistrationStatus, self._registered),
            },
            _SERVICE: {
                "NodePrepareResources": unary(pb.Claims, self._prepared),
                "NodeUnprepareResources": unary(pb.Claims, _unprepared),
            },
        }

    def _info(self, _: Message) -> pb.PluginInfo:
        return pb.PluginInfo(
            type=_TYPE, name=self._name, endpoint=self._endpoint, supported_versions=[_VERSION]
        )

    def _registered(self, status: pb.RegistrationStatus) -> pb.Nothing:
        with self._lock:
            self._said = status
        return pb.Nothing()

    def _prepared(self, request: pb.Claims) -> pb.NodePrepareResourcesResponse:
        answers = {one.uid: self._prepare(one) for one in request.claims}
        return pb.NodePrepareResourcesResponse(claims=answers)

    def _prepare(self, claim: pb.Claim) -> pb.Prepared:
        """The allocated devices; the driver does nothing to prepare them."""
        try:
            path = f"{_API}/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
            results = self._ask("GET", path)["status"]["allocation"]["devices"]["results"]
            allocated = [one for one in results if one["driver"] == self._name]
            return pb.Prepared(
                devices=[
                    pb.Device(
                        request_names=[one["request"]],
                        pool_name=one["pool"],
                        device_name=one["device"],
                    )
                    for one in allocated
                ]
            )
        except (SubjectLostError, KeyError) as error:
            return pb.Prepared(error=f"no allocation: {error}")


def _unprepared(request: pb.Claims) -> pb.NodeUnprepareResourcesResponse:
    answers = {one.uid: pb.Unprepared() for one in request.claims}
    return pb.NodeUnprepareResourcesResponse(claims=answers)
