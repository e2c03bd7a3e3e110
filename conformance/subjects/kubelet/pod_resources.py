"""A client of one kubelet's pod-resources socket, by gRPC."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message

from conformance.kubelets import pod_resources_pb2 as pb
from conformance.kubelets.pod_resources import (
    ALLOCATABLE,
    GET,
    LIST,
    CPUsByPod,
    DevicesByPod,
    MemoryByPod,
    cpus,
    cpus_by_pod,
    devices,
    devices_by_pod,
    memory,
    memory_by_pod,
)
from conformance.subject import SubjectLostError
from conformance.subjects.kubelet.serving import serialized
from reference import CPUSet
from reference.kubelet.pod_resources import BURST, CALLS_A_SECOND
from reference.view import HeldDevice, HeldMemory

#: In seconds. A kubelet answers in a millisecond.
_PATIENCE: Final = 5.0
#: No answer, or one that cannot be read.
_LOST: Final = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INTERNAL,
)
_Answer = TypeVar("_Answer", bound=Message)


class Refused(Exception):
    """The kubelet answered with an error; ``str()`` is its text."""


class Listed(NamedTuple):
    """What the kubelet reports for every pod."""

    cpus: CPUsByPod
    devices: DevicesByPod
    memory: MemoryByPod


class Allocatable(NamedTuple):
    """The allocatable resources."""

    cpus: CPUSet
    devices: frozenset[HeldDevice]
    memory: frozenset[HeldMemory]


class PodResourcesClient:
    """A client of the socket ``path``. Each request has its own connection, since another kubelet
    may have started. All methods raise :class:`Refused`, :class:`NoCPUs`, and
    :class:`SubjectLostError` if there is no answer, or one that cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def listed(self) -> Listed:
        """Every pod that the kubelet reports (``List``)."""
        pods = self._ask(LIST, pb.NoArguments(), pb.ListPodResourcesResponse).pod_resources
        return Listed(cpus_by_pod(pods), devices_by_pod(pods), memory_by_pod(pods))

    def of_pod(self, namespace: str, name: str) -> CPUsByPod:
        """The CPUs of one pod (``Get``)."""
        asked = pb.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        answer = self._ask(GET, asked, pb.GetPodResourcesResponse)
        return cpus_by_pod([answer.pod_resources])

    def allocatable(self) -> Allocatable:
        """The allocatable resources (``GetAllocatableResources``)."""
        answer = self._ask(ALLOCATABLE, pb.NoArguments(), pb.AllocatableResourcesResponse)
        return Allocatable(cpus(answer.cpu_ids), devices(answer.devices), memory(answer.memory))

    def flood(self, times: int) -> dict[str, int]:
        """Send ``times`` requests for all pods at once. Returns the number of answers by their
        error (``""`` without one). Raises :class:`SubjectLostError` also if the calls took so long
        that a limit on calls a second could not refuse any."""
        began = time.monotonic()
        with grpc.insecure_channel(f"unix:{self._path}") as channel:
            call = _call(channel, LIST, pb.ListPodResourcesResponse)
            asked = [call.future(pb.NoArguments(), timeout=_PATIENCE) for _ in range(times)]
            answers = Counter(_error_of(one.exception()) for one in asked)
        spent = time.monotonic() - began
        if set(answers) == {""} and spent * CALLS_A_SECOND >= times - BURST:
            raise SubjectLostError(
                f"this host is too busy: {times} calls took {spent:.1f} s, which is under the limit"
            )
        return dict(answers)

    def _ask(self, method: str, request: Message, kind: type[_Answer]) -> _Answer:
        with grpc.insecure_channel(f"unix:{self._path}") as channel:
            try:
                answer: _Answer = _call(channel, method, kind)(request, timeout=_PATIENCE)
                return answer
            except grpc.RpcError as error:
                if error.code() in _LOST:
                    raise SubjectLostError(f"{method}: {error.details()}") from error
                raise Refused(error.details()) from error


def _call(channel: grpc.Channel, method: str, kind: type[Message]) -> Any:
    return channel.unary_unary(
        method,
        request_serializer=serialized,
        response_deserializer=kind.FromString,
    )


def _error_of(error: BaseException | None) -> str:
    """The text of the error with which a call ended; ``""`` without one. Raises
    :class:`SubjectLostError` if there was no answer."""
    if error is None:
        return ""
    if not isinstance(error, grpc.RpcError) or error.code() in _LOST:
        raise SubjectLostError(f"{LIST}: {error}") from error
    return str(error.details())
