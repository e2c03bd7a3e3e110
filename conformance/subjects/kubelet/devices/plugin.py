"""A device plugin for a kubelet in the loop.

The plugin is not a process: the runner serves it on a socket in the sandbox, so it ends with the
runner at the latest. The kubelet removes the socket when it starts, so a plugin serves one kubelet.
It prefers the devices with the lowest ids. Source: k8s.io/kubelet,
``pkg/apis/deviceplugin/v1beta1``.
"""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.message import Message

from conformance.subject import SubjectLostError
from conformance.subjects.kubelet.devices import device_plugin_pb2 as pb
from conformance.subjects.kubelet.serving import serialized, serve, unary
from reference.devicemanager.manager import NOT_READY
from reference.steps import Device, RegisterDevices, ReportDevices

VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
REGISTER: Final = "/v1beta1.Registration/Register"
_SERVICE: Final = "v1beta1.DevicePlugin"
_CHECKPOINT: Final = "kubelet_internal_checkpoint"
#: In seconds. A kubelet answers in milliseconds, in which it connects to the plugin.
_PATIENCE: Final = 10.0
_OPTIONS: Final = pb.DevicePluginOptions(get_preferred_allocation_available=True)

#: Waits until a function is true, up to so many seconds; returns whether it is.
Wait: TypeAlias = Callable[[Callable[[], bool], float], bool]


class DevicePlugin:
    """Serves the devices of ``step`` on a socket in ``folder``, from now on until :meth:`close`.
    Raises ``OSError`` if it cannot listen."""

    def __init__(self, folder: Path, step: RegisterDevices) -> None:
        self._folder = folder
        self._resource, resource, devices = step.resource, step.resource, step.devices
        self._failures, self._seconds = step.failures, step.seconds
        self._socket = re.sub(r"\W", "-", resource) + ".sock"
        #: What ``ListAndWatch`` is yet to send; ``None``: it ends.
        self._reports: queue.SimpleQueue[pb.ListAndWatchResponse | None] = queue.SimpleQueue()
        self._list(devices)
        self._ended = threading.Event()
        (folder / self._socket).unlink(missing_ok=True)
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="device-plugin")
        calls = grpc.method_handlers_generic_handler(_SERVICE, self._calls())
        self._server = serve(self._threads, [calls], folder / self._socket)

    def close(self) -> None:
        """Serve no more. May be called twice."""
        self._end()
        self._server.stop(None).wait()
        self._threads.shutdown()

    def register(self, until: Wait, seconds: float) -> None:
        """Register at the kubelet, and wait ``until`` its checkpoint has the devices, at most
        ``seconds``. Raises :class:`SubjectLostError` if the kubelet refuses, or does not write them
        in time."""
        before = self._written()
        self._ask_kubelet()
        self._await(before, until, seconds)

    def report(self, devices: Collection[Device], until: Wait, seconds: float) -> None:
        """Report these devices from now on, and wait as :meth:`register` does."""
        before = self._written()
        self._list(devices)
        self._await(before, until, seconds)

    def _list(self, devices: Collection[Device]) -> None:
        self._ids = {one.id for one in devices if one.healthy}
        self._reports.put(pb.ListAndWatchResponse(devices=map(_listed, devices)))

    def _end(self) -> None:
        self._ended.set()
        self._reports.put(None)

    def _await(self, before: tuple[int, int] | None, until: Wait, seconds: float) -> None:
        def known() -> bool:
            return self._written() != before and self._registered() == self._ids

        if not until(known, seconds):
            raise SubjectLostError(
                f"the kubelet did not take up the devices of {self._resource} in {seconds:g} s"
            )

    def _ask_kubelet(self) -> None:
        request = pb.RegisterRequest(
            version=VERSION, endpoint=self._socket, resource_name=self._resource, options=_OPTIONS
        )
        with grpc.insecure_channel(f"unix:{self._folder / 'kubelet.sock'}") as channel:
            call = channel.unary_unary(
                REGISTER, request_serializer=serialized, response_deserializer=pb.Empty.FromString
            )
            try:
                call(request, timeout=_PATIENCE)
            except grpc.RpcError as error:
                raise SubjectLostError(
                    f"the kubelet did not register the device plugin of {self._resource}: "
                    f"{error.details()}"
                ) from error

    def _written(self) -> tuple[int, int] | None:
        """What identifies a checkpoint: the kubelet replaces the file each time."""
        try:
            status = (self._folder / _CHECKPOINT).stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns

    def _registered(self) -> Collection[str]:
        """The ids of the healthy devices in the kubelet's checkpoint."""
        try:
            text = (self._folder / _CHECKPOINT).read_text()
            found = json.loads(text)["Data"]["RegisteredDevices"]
            return set(found.get(self._resource) or ())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return ()

    # --- what a kubelet asks -----------------------------------------------------------------

    def _calls(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        return {
            "GetDevicePluginOptions": unary(pb.Empty, lambda _: _OPTIONS),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._list_and_watch, pb.Empty.FromString, serialized
            ),
            "GetPreferredAllocation": unary(pb.PreferredAllocationRequest, _preferred),
            "Allocate": grpc.unary_unary_rpc_method_handler(
                self._allocate, pb.AllocateRequest.FromString, serialized
            ),
            "PreStartContainer": unary(pb.Empty, lambda _: pb.Empty()),
        }

    def _list_and_watch(
        self, _: Message, context: grpc.ServicerContext
    ) -> Iterator[pb.ListAndWatchResponse]:
        context.add_callback(self._end)
        while (listed := self._reports.get()) is not None:
            yield listed

    def _allocate(
        self, request: pb.AllocateRequest, context: grpc.ServicerContext
    ) -> pb.AllocateResponse:
        """Empty answers: no mounts, no variables. A kubelet makes one call at a time."""
        self._ended.wait(self._seconds)
        if self._failures:
            self._failures -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, NOT_READY)
        answers = [pb.ContainerAllocateResponse() for _ in request.container_requests]
        return pb.AllocateResponse(container_responses=answers)


class DevicePlugins:
    """The plugins of one node, one for each resource. ``folder`` gives the folder of the kubelet's
    socket for plugins, ``until`` waits for the kubelet up to ``seconds``."""

    def __init__(self, folder: Callable[[], Path], until: Wait, seconds: float) -> None:
        self._folder = folder
        self._until = until
        self._seconds = seconds
        self._plugins: dict[str, DevicePlugin] = {}
        self._registered: set[str] = set()

    def register(self, step: RegisterDevices) -> bool:
        """Start a plugin in place of an earlier one of this resource, and register it. Returns
        whether the resource was registered before, even at an earlier kubelet of the node. Raises
        :class:`SubjectLostError`."""
        resource = step.resource
        earlier = self._plugins.pop(resource, None)
        if earlier is not None:
            earlier.close()
        try:
            plugin = self._plugins[resource] = DevicePlugin(self._folder(), step)
        except OSError as error:
            raise SubjectLostError(f"no device plugin: {error}") from error
        plugin.register(self._until, self._seconds)
        is_known = resource in self._registered
        self._registered.add(resource)
        return is_known

    def report(self, step: ReportDevices) -> None:
        """Let the plugin of a resource report other devices. Raises :class:`SubjectLostError`."""
        plugin = self._plugins.get(step.resource)
        if plugin is None:
            raise SubjectLostError(f"no device plugin of {step.resource}")
        plugin.report(step.devices, self._until, self._seconds)

    def end(self, resource: str) -> None:
        """End the plugin of a resource, if there is one."""
        plugin = self._plugins.pop(resource, None)
        if plugin is not None:
            plugin.close()

    def close(self) -> None:
        """End all of them. May be called twice."""
        while self._plugins:
            self._plugins.popitem()[1].close()


def _listed(device: Device) -> pb.Device:
    near = [pb.NUMANode(ID=node) for node in device.numa_nodes]
    topology = pb.TopologyInfo(nodes=near) if near or device.names_none else None
    health = HEALTHY if device.healthy else UNHEALTHY
    return pb.Device(ID=device.id, health=health, topology=topology)


def _preferred(request: pb.PreferredAllocationRequest) -> pb.PreferredAllocationResponse:
    """The lowest ids beside those that must be included."""
    answers = []
    for one in request.container_requests:
        must = set(one.must_include_deviceIDs)
        others = sorted(set(one.available_deviceIDs) - must)
        ids = [*sorted(must), *others][: one.allocation_size]
        answers.append(pb.ContainerPreferredAllocationResponse(deviceIDs=ids))
    return pb.PreferredAllocationResponse(container_responses=answers)
