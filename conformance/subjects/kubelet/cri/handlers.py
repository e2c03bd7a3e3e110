"""CRI's methods: what a request asks of the containers, and the message that answers it.

What belongs here: the form of requests and answers. What never does: gRPC
(:mod:`conformance.subjects.kubelet.cri.service`), and the state of containers
(:mod:`conformance.subjects.kubelet.cri.containers`). All images are present.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from google.protobuf.message import Message

from conformance.subjects.kubelet.cri import cri_pb2 as pb
from conformance.subjects.kubelet.cri.containers import Container, Containers, PodSandbox


def handlers(store: Containers) -> Mapping[str, Callable[[Any], Message | None]]:
    """By method, the function that does a request and returns the answer (``None``: an empty
    message). A served method that is not here changes nothing.

    A request that cannot be done raises :class:`~.service.CallError`.
    """
    return {
        "Status": _status,
        "RuntimeConfig": _runtime_config,
        "RunPodSandbox": lambda request: pb.PodSandboxId(
            pod_sandbox_id=store.run_sandbox(request.config, request.runtime_handler).id
        ),
        "StopPodSandbox": lambda request: store.stop_sandbox(request.pod_sandbox_id),
        "RemovePodSandbox": lambda request: store.remove_sandbox(request.pod_sandbox_id),
        "PodSandboxStatus": lambda request: _sandbox_status(store.sandbox(request.pod_sandbox_id)),
        "ListPodSandbox": lambda request: _sandbox_list(request, store.sandboxes.values()),
        "CreateContainer": lambda request: pb.ContainerId(
            container_id=store.create(request.pod_sandbox_id, request.config).id
        ),
        "StartContainer": lambda request: store.start(request.container_id),
        "StopContainer": lambda request: store.stop(request.container_id),
        "RemoveContainer": lambda request: store.remove(request.container_id),
        "ContainerStatus": lambda request: _container_status(store.container(request.container_id)),
        "ListContainers": lambda request: _container_list(request, store.containers.values()),
        "UpdateContainerResources": lambda request: store.update(
            request.container_id, request.linux
        ),
        "ImageStatus": _image_status,
        "PullImage": lambda request: pb.PullImageResponse(image_ref=request.image.image),
        "ImageFsInfo": _image_fs_info,
    }


def version(api: str) -> Message:
    """The answer to ``Version`` under this version of the API."""
    return pb.VersionResponse(
        version="0.1.0", runtime_name="pinproof", runtime_version="1.0.0", runtime_api_version=api
    )


def _status(_: Message) -> Message:
    conditions = [
        pb.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")
    ]
    return pb.StatusResponse(status=pb.RuntimeStatus(conditions=conditions))


def _runtime_config(_: Message) -> Message:
    linux = pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CgroupDriver.CGROUPFS)
    return pb.RuntimeConfigResponse(linux=linux)


def _image_status(request: pb.ImageRequest) -> Message:
    name = request.image.image
    return pb.ImageStatusResponse(image=pb.Image(id=name, repo_tags=[name], size=1))


def _image_fs_info(_: Message) -> Message:
    usage = pb.FilesystemUsage(
        timestamp=time.time_ns(),
        fs_id=pb.FilesystemIdentifier(mountpoint="/"),
        used_bytes=pb.UInt64Value(value=0),
        inodes_used=pb.UInt64Value(value=0),
    )
    return pb.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])


def _common(one: PodSandbox | Container) -> dict[str, Any]:
    """The fields that a status and an entry of a list have in common."""
    return {
        "id": one.id,
        "metadata": one.config.metadata,
        "state": one.state,
        "created_at": one.created,
        "labels": one.config.labels,
        "annotations": one.config.annotations,
    }


def _sandbox_status(sandbox: PodSandbox) -> Message:
    # The namespace options must be the kubelet's own: without them it finds the sandbox changed,
    # and makes it again, forever.
    options = sandbox.config.linux.security_context.namespace_options
    return pb.PodSandboxStatusResponse(
        status=pb.PodSandboxStatus(
            **_common(sandbox),
            network=pb.PodSandboxNetworkStatus(ip="127.0.0.1"),
            linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options)),
            runtime_handler=sandbox.handler,
        )
    )


def _sandbox_list(request: pb.ListPodSandboxRequest, sandboxes: Iterable[PodSandbox]) -> Message:
    return pb.ListPodSandboxResponse(
        items=[
            pb.PodSandbox(**_common(sandbox), runtime_handler=sandbox.handler)
            for sandbox in sandboxes
            if _is_wanted(sandbox, request.filter)
        ]
    )


def _container_status(container: Container) -> Message:
    return pb.ContainerStatusResponse(
        status=pb.ContainerStatus(
            **_common(container),
            **_image(container),
            started_at=container.started,
            finished_at=container.finished,
            exit_code=container.exit_code,
            reason=container.reason,
            log_path=container.config.log_path,
            resources=pb.ContainerResources(linux=container.resources),
        )
    )


def _container_list(request: pb.ListContainersRequest, containers: Iterable[Container]) -> Message:
    wanted = request.filter
    return pb.ListContainersResponse(
        containers=[
            pb.Container(
                **_common(container), **_image(container), pod_sandbox_id=container.sandbox.id
            )
            for container in containers
            if _is_wanted(container, wanted) and wanted.pod_sandbox_id in ("", container.sandbox.id)
        ]
    )


def _image(container: Container) -> dict[str, Any]:
    image = container.config.image
    return {"image": image, "image_ref": image.image, "image_id": image.image}


def _is_wanted(
    one: PodSandbox | Container, wanted: pb.PodSandboxFilter | pb.ContainerFilter
) -> bool:
    """Whether a filter selects it, by the fields that both filters have in common."""
    labels = one.config.labels
    return (
        wanted.id in ("", one.id)
        and (not wanted.HasField("state") or wanted.state.state == one.state)
        and all(labels.get(key) == value for key, value in wanted.label_selector.items())
    )
