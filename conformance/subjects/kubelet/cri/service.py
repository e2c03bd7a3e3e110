"""The runtime's methods, served by gRPC under every name that kubelets use.

A kubelet up to 1.22 calls ``runtime.v1alpha2``, from 1.23 on ``runtime.v1`` (1.23-1.25 try the
other one too); the messages are the same in all fields used here. Calls that are not served are
noted: they may explain why a kubelet does not start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import grpc
from google.protobuf.message import Message

from conformance.subjects.kubelet import serving
from conformance.subjects.kubelet.cri import cri_pb2 as pb

VERSIONS: Final = ("v1", "v1alpha2")

#: The type of the kubelet's requests, by method; ``Empty`` if no field of the request is used.
_RUNTIME_REQUESTS: Final[Mapping[str, type[Message]]] = {
    "Version": pb.Empty,
    "Status": pb.Empty,
    "RuntimeConfig": pb.Empty,
    "UpdateRuntimeConfig": pb.Empty,
    "RunPodSandbox": pb.RunPodSandboxRequest,
    "StopPodSandbox": pb.PodSandboxId,
    "RemovePodSandbox": pb.PodSandboxId,
    "PodSandboxStatus": pb.PodSandboxId,
    "ListPodSandbox": pb.ListPodSandboxRequest,
    "CreateContainer": pb.CreateContainerRequest,
    "StartContainer": pb.ContainerId,
    "StopContainer": pb.ContainerId,
    "RemoveContainer": pb.ContainerId,
    "ContainerStatus": pb.ContainerId,
    "ListContainers": pb.ListContainersRequest,
    "UpdateContainerResources": pb.UpdateContainerResourcesRequest,
    "ReopenContainerLog": pb.ContainerId,
    "UpdatePodSandboxResources": pb.Empty,
    "ListContainerStats": pb.Empty,
    "ListPodSandboxStats": pb.Empty,
    "ListPodSandboxMetrics": pb.Empty,
    "ListMetricDescriptors": pb.Empty,
}
_IMAGE_REQUESTS: Final[Mapping[str, type[Message]]] = {
    "ListImages": pb.Empty,
    "ImageStatus": pb.ImageRequest,
    "PullImage": pb.ImageRequest,
    "RemoveImage": pb.Empty,
    "ImageFsInfo": pb.Empty,
}
_SERVED: Final[Mapping[str, type[Message]]] = {
    f"/runtime.{version}.{service}/{method}": request
    for version in VERSIONS
    for service, methods in (
        ("RuntimeService", _RUNTIME_REQUESTS),
        ("ImageService", _IMAGE_REQUESTS),
    )
    for method, request in methods.items()
}

#: Gives the answer for a call's path and request; raises :class:`CallError`.
Answer: TypeAlias = Callable[[str, Message], Message]


class CallError(Exception):
    """A call that a real runtime would answer with an error."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class Listener(Protocol):
    """Answers calls, and notes those that are not served."""

    def answer(self, method: str, version: str, request: Message) -> Message:
        """Answer one call; raises :class:`CallError`."""

    def not_served(self, path: str) -> None:
        """Note a call that is not served."""


if TYPE_CHECKING:  # generic only in its stubs
    _Generic: TypeAlias = grpc.GenericRpcHandler[Any, Any]
else:
    _Generic = grpc.GenericRpcHandler


class _Handler(_Generic):
    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        path = details.method
        request_type = _SERVED.get(path)
        if request_type is None:
            self._listener.not_served(path)
            return None
        version, method = path.split(".")[1], path.rpartition("/")[2]

        def call(request: Message, context: grpc.ServicerContext) -> Message:
            try:
                return self._listener.answer(method, version, request)
            except CallError as error:
                context.abort(error.code, str(error))

        return grpc.unary_unary_rpc_method_handler(
            call, request_type.FromString, lambda answer: answer.SerializeToString()
        )


def serve(listener: Listener, path: Path) -> grpc.Server:
    """A started server on the unix socket ``path``; raises ``OSError`` if it cannot listen."""
    threads = ThreadPoolExecutor(max_workers=24, thread_name_prefix="cri")
    return serving.serve(threads, [_Handler(listener)], path)
